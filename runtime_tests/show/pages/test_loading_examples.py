"""The examples of a page, run as they stand: Python by ONNX Runtime and TorchScript, JavaScript in Node.js, C++."""

from __future__ import annotations

import html
import os
import re
import subprocess
from pathlib import Path

import pytest

from helpers.cpp_tools import compiler
from helpers.shared import Cli, need, one_of_each
from posenc_export.proof.runtimes.npm import node

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
    headers = (Path(folder) / "include/onnxruntime" for folder in os.environ["CMAKE_PREFIX_PATH"].split(os.pathsep))
    command = [compiler("gcc"), "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    run(*command, *(f"-isystem{folder}" for folder in (*headers, "/usr/include/onnxruntime")), "example.cpp")
