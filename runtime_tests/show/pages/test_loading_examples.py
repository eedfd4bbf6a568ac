"""The examples of a page, run as they stand: Python by ONNX Runtime and TorchScript, JavaScript in Node.js, C++."""

from __future__ import annotations

import html
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.cpp_tools import compiled, compiler
from helpers.model_folders import IMAGES, MASKED, PICTURES, SEQ2SEQ, SMALL, SQUARE, T5, Small
from helpers.shared import Cli, Once, need, one_of_each
from posenc_export.proof.runtimes.npm import node
from posenc_export.show.pages.snippets import variables_of

BLOCK = re.compile(r'<pre role="group" tabindex="0" aria-label="([^"]+)"><code>(.*?)</code></pre>', re.DOTALL)
SCHEMES = {
    "sinusoidal": ("--dynamic", "-p", "d_model=8"),
    "rope": ("-p", "head_dim=8", "--positions", "explicit"),
    "alibi": ("--dynamic", "-p", "heads=2"),
    "timestep": ("--dynamic", "-p", "dim=8"),
    "learned": ("-p", "d_model=8", "--positions", "mask"),
}
"""Ports of every kind: values, positions, two lengths, numbers with a range, masks."""


def examples(cli: Cli, scheme: str, *options: str) -> dict[str, str]:
    """Export a bundle with its page into the current folder, and return the page's examples."""
    made = cli("export", scheme, *SCHEMES[scheme], *options, "--max-len", "24", "--no-validate", "--html", "-o", "made")
    assert made.exit_code == 0, made.output
    page = Path("made/report.html").read_text(encoding="utf-8")
    return {title: html.unescape(code) for title, code in BLOCK.findall(page)}


def run(*words: str | Path) -> str:
    done = subprocess.run(list(map(str, words)), cwd="made", capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("scheme", one_of_each(SCHEMES, type))
def test_python(cli: Cli, scheme: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = examples(cli, scheme)
    monkeypatch.chdir("made")
    names: dict[str, object] = {}
    exec(found["Python"], names)
    assert capsys.readouterr().out.startswith("[(")
    exec(found["Python, by TorchScript"], names)
    assert names["results"] is not None


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_python_in_half_precision(cli: Cli, dtype: str) -> None:
    found = examples(cli, "sinusoidal", "-f", "onnx", "--dtype", dtype)
    compile(found["Python"], "example", "exec")
    assert ("JavaScript" in found) == (dtype == "fp16")


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", SCHEMES)
def test_javascript(cli: Cli, scheme: str) -> None:
    need("onnxruntime-web")
    code = examples(cli, scheme, "-f", "onnx")["JavaScript"]
    # Node.js finds modules beside the program, and the file there
    Path("made/node_modules").symlink_to(Path(os.environ["NODE_PATH"]))
    Path("made/example.mjs").write_text(code, encoding="utf-8")
    assert run(node(), "example.mjs")


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", SCHEMES)
def test_cpp(cli: Cli, scheme: str) -> None:
    need("ort-cpp")
    code = examples(cli, scheme, "-f", "onnx")["C++"]
    Path("made/example.cpp").write_text(code, encoding="utf-8")
    run(*compiler_of_examples(), "-fsyntax-only", "example.cpp")


def compiler_of_examples() -> list[str]:
    """Return the command that compiles an example, with the headers of ONNX Runtime."""
    headers = (Path(folder) / "include/onnxruntime" for folder in os.environ["CMAKE_PREFIX_PATH"].split(os.pathsep))
    folders = (f"-isystem{folder}" for folder in (*headers, "/usr/include/onnxruntime"))
    return [compiler("gcc"), "-std=c++17", "-Wall", "-Wextra", "-Werror", *folders]


MODELS = {
    "decoder": Small("Llama", "llama", config=SQUARE),
    "encoder": Small("BERT", "bert", MASKED, SMALL),
    "encoder-decoder": Small("T5", "t5", SEQ2SEQ, T5),
    "image model": Small("ViT", "vit", IMAGES, PICTURES),
}
Written = Callable[[str], tuple[Path, str]]


@pytest.fixture
def written(once: Once, cli: Cli) -> Written:
    """Return a function that gives the bundle of a whole model, and its page; each is written once."""

    def write(kind: str) -> tuple[Path, str]:
        def fill(folder: Path) -> None:
            MODELS[kind].save(folder / "model")
            words = ("--no-validate", "--proof", "quick", "--html", "-f", "onnx", "-o", str(folder / "made"))
            made = cli("export", "--model", str(folder / "model"), *words)
            assert made.exit_code == 0, made.output

        folder = once(f"page of a whole {kind}", fill) / "made"
        return folder, (folder / "report.html").read_text(encoding="utf-8")

    return write


def example_of(page: str, language: str) -> str:
    return {title: html.unescape(code) for title, code in BLOCK.findall(page)}[language]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", MODELS)
def test_python_of_a_whole_model(
    written: Written, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, page = written(kind)
    monkeypatch.chdir(folder)
    exec(example_of(page, "Python"), {})
    assert capsys.readouterr().out.startswith("[(")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", MODELS)
def test_javascript_of_a_whole_model(written: Written, kind: str, tmp_path: Path) -> None:
    need("onnxruntime-web")
    folder, page = written(kind)
    beside(folder, tmp_path)
    (tmp_path / "node_modules").symlink_to(Path(os.environ["NODE_PATH"]))
    (tmp_path / "example.mjs").write_text(example_of(page, "JavaScript"), encoding="utf-8")
    assert in_folder(tmp_path, node(), "example.mjs")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", MODELS)
def test_cpp_of_a_whole_model(written: Written, kind: str, tmp_path: Path) -> None:
    need("ort-cpp")
    folder, page = written(kind)
    beside(folder, tmp_path)
    (tmp_path / "example.cpp").write_text(example_of(page, "C++"), encoding="utf-8")
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    (library,) = Path(spec.origin).parent.glob("capi/libonnxruntime.so.*")
    (tmp_path / "libonnxruntime.so.1").symlink_to(library)
    in_folder(tmp_path, *compiler_of_examples(), "example.cpp", "libonnxruntime.so.1", "-Wl,-rpath,.", "-o", "example")
    assert in_folder(tmp_path, "./example").count(" elements\n") > 0


def beside(folder: Path, place: Path) -> None:
    """Put the files of a bundle into a place."""
    for path in folder.iterdir():
        (place / path.name).symlink_to(path)


def in_folder(folder: Path, *words: str | Path) -> str:
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", MODELS)
def test_a_page_of_a_whole_model_says_model(written: Written, kind: str) -> None:
    _, page = written(kind)
    assert "proof of a model" in page
    assert "What the model gives</h2>" in page
    title = re.search("<h1>(.*)</h1>", page)
    assert title is not None
    assert title[1].endswith(", whole model")
    for words in ("proof of a positional encoding", "The encoding</h2>", ", dynamic"):
        assert words not in page


def test_variables_are_legal_and_no_two_are_alike(tmp_path: Path) -> None:
    names = ["past.0.key", "past_0_key", "past_0_key_2", "0", "", "a:b/c", "new", "é", "_x__y_", "past.0.key"]
    variables = variables_of(names)
    assert variables[:7] == ["past_0_key", "past_0_key_2", "past_0_key_2_2", "input_0", "input", "a_b_c", "new"]
    assert len(set(variables)) == len(names)
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name) for name in variables)
    (tmp_path / "names.cpp").write_text("".join(f"int {name}_data;\n" for name in variables), encoding="utf-8")
    done = compiled(
        [compiler("gcc"), "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", tmp_path / "names.cpp"]
    )
    assert (done.returncode, done.stderr) == (0, "")
