"""CONTRIBUTING.md is true: the files it shows are added to a copy of the project, and everything else follows."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.shared import ROOT, Once

PACKAGES = ("posenc", "export", "models", "runtime_tests", "docs")
PARTS = (*PACKAGES, "examples", "CONTRIBUTING.md", "README.md", "CHANGELOG.md", "pyproject.toml", "conftest.py")
CACHES = shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache")


def shown_files() -> dict[str, str]:
    """The files that CONTRIBUTING.md shows: a path on a line of its own, then the text."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^`([\w/.]+)`:\n\n```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))


@pytest.fixture
def project(once: Once) -> Path:
    """A copy of the project with all of the files added; and the pages and the picture made, as it says."""

    def make(folder: Path) -> None:
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=CACHES)
            else:
                shutil.copy(ROOT / part, folder / part)
        for path, text in shown_files().items():
            assert not (folder / path).exists()
            (folder / path).write_text(text)
        (folder / "docs" / "reference" / "schemes.md").write_text(posenc(folder, "schemes", "--markdown"))
        (folder / "docs" / "reference" / "checks.md").write_text(posenc(folder, "explain", "--markdown"))
        options = python(folder, "runtime_tests/scripts/options.py")
        (folder / "docs" / "reference" / "options.md").write_text(options)
        records = python(folder, "runtime_tests/scripts/records.py")
        (folder / "docs" / "reference" / "json.md").write_text(records)
        for name in ("clock", "radial"):
            posenc(folder, "schemes", name, "--pictures", "docs/pictures")

    return once("contributed", make)


def posenc(project: Path, *words: str) -> str:
    """Run `posenc` of the copy; return what it prints."""
    return python(project, "-m", "posenc_export", *words)


def python(project: Path, *words: str) -> str:
    path = os.pathsep.join(str(project / part) for part in (".", "export", "models"))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    env = {k: v for k, v in env.items() if not k.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *words], cwd=project, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_it_shows_one_file_for_each_thing_to_add() -> None:
    kinds = {
        "a scheme": ("posenc/schemes/", ["clock.py", "radial.py"]),
        "its mathematics": ("posenc/formulas/", ["clock.py"]),
        "a rope type": ("posenc/rope_types/", ["ntk.py"]),
        "a check": ("export/posenc_export/proof/checks/", ["finite.py"]),
    }
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for kind, (folder, files) in kinds.items():
        assert kind == "its mathematics" or f"| {kind} | one new file in `{folder}`" in table
        assert [path.removeprefix(folder) for path in shown_files() if path.startswith(folder)] == files


def imported_by(code: str) -> set[str]:
    """The files of `posenc` that a module imports from."""
    modules = [node.module for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom) and node.module]
    paths = [Path(*name.split(".")) for name in modules if name.startswith("posenc.")]
    return {str(path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")) for path in paths}


def test_six_files_are_enough_for_a_source_of_its_own() -> None:
    """What it imports is in the files to read first, or in the example before it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("### A source of its own\n")[2].partition("\n### ")[0]
    to_read = re.findall(r"^\* `([\w/.]+)`:", section, flags=re.MULTILINE)
    shown = shown_files()
    assert len(to_read) <= 6
    imported = imported_by(shown["posenc/schemes/radial.py"])
    clock = imported_by(shown["posenc/schemes/clock.py"]) | imported_by(shown["posenc/formulas/clock.py"])
    assert imported - set(to_read) <= clock
    assert set(to_read) <= imported


def test_every_path_that_it_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:posenc|export|runtime_tests|docs|formats|runtimes|benchmarks)/[\w/.]*)`", text)
    homes = (ROOT, ROOT / "export" / "posenc_export")
    missing = [path for path in named if path not in shown_files() and not any((h / path).exists() for h in homes)]
    assert missing == []


@pytest.mark.exhaustive
def test_a_scheme_is_two_files(project: Path, tmp_path: Path) -> None:
    """One has the mathematics, the other the encoding: it is written, proved, and read back."""
    assert "periods" in posenc(project, "schemes", "clock")
    report = json.loads(
        posenc(project, "export", "clock", "--dynamic", "--max-len", "70", "--json", "-o", str(tmp_path / "clock"))
    )
    assert report["passed"]
    assert "## clock" in (project / "docs" / "reference" / "schemes.md").read_text()
    read = json.loads(posenc(project, "inspect", str(tmp_path / "clock" / "model.onnx"), "--json"))
    assert [encoding["scheme"] for encoding in read["encodings"]] == ["clock -p periods=60,3600,43200"]


@pytest.mark.exhaustive
def test_a_source_of_its_own_is_in_the_file_of_its_scheme(project: Path, tmp_path: Path) -> None:
    words = [
        "radial",
        "--dynamic",
        "-p",
        "features=20",
        "-p",
        "cutoff=5.0",
        "--max-len",
        "70",
        "-f",
        "onnx,torchscript,pt2",
    ]
    report = json.loads(posenc(project, "export", *words, "--json", "-o", str(tmp_path / "radial")))
    assert report["passed"]
    page = (project / "docs" / "reference" / "schemes.md").read_text()
    assert "* [radial](#radial): Gaussians of distances" in page.partition("**Numbers to features**")[2]


@pytest.mark.exhaustive
def test_a_rope_type_is_one_file(project: Path, tmp_path: Path) -> None:
    words = ["rope", "-p", "rope_type=ntk", "-p", "factor=2.0", "-p", "head_dim=16", "--max-len", "70"]
    report = json.loads(posenc(project, "export", *words, "--json", "-o", str(tmp_path / "ntk")))
    assert report["passed"]
    config = {"model_type": "llama", "head_dim": 16, "rope_theta": 1e4, "rope_scaling": {"type": "ntk", "factor": 2}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = ["--from-hf", str(tmp_path / "config.json"), "--max-len", "70", "--no-validate"]
    assert "rope_type ntk (rope_scaling.type)" in posenc(project, "export", *words, "-o", str(tmp_path / "config"))


@pytest.mark.exhaustive
def test_a_check_is_one_file(project: Path, tmp_path: Path) -> None:
    words = ["-p", "d_model=8", "--max-len", "40", "-f", "onnx", "--json", "-o", str(tmp_path / "checked")]
    report = json.loads(posenc(project, "export", *words))
    assert [(v["code"], v["status"]) for v in report["verdicts"] if v["check"] == "finite"] == [("PE190", "pass")]
    assert "NaN or infinite" in " ".join(posenc(project, "explain", "PE190").split())


@pytest.mark.exhaustive
def test_the_tests_follow(project: Path) -> None:
    """The copy's own tests: combinations of the new scheme and rope type, and what goes through registries."""
    pytest_ = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "exhaustive or not exhaustive")
    new = "test_every_combination and exact and fp32 and (clock or radial or ntk)"
    assert "passed" in python(project, *pytest_, "-k", new, "runtime_tests/proof/validation/test_parity.py")
    assert "passed" in python(
        project, *pytest_, "-k", "clock or radial or ntk", "runtime_tests/encodings/test_references.py"
    )
    names = ("schemes", "checks", "catalogue", "compat", "layering", "docs", "cli", "rope_types")
    files = [str(next((project / "runtime_tests").rglob(f"test_{name}.py"))) for name in names]
    # What pages show is of the package as it ships: a report has no row of a new check.
    shown = "what_a_page or page_on or tutorial_works or every_check_and or what_is_claimed or the_readme_names"
    listed = "test_schemes or test_checks or test_catalogue or test_compat or test_layering or test_docs or listed"
    listed = f"({listed} or lists or sample) and not ({shown})"
    assert "passed" in python(project, *pytest_, "-k", listed, *files)


@pytest.mark.exhaustive
def test_the_tests_of_a_scheme_are_found_as_the_page_writes_it() -> None:
    """`pytest --scheme NAME`, with a space: of a scheme that there is."""
    command = "pytest --scheme "
    assert command in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    words = [sys.executable, "-m", *command.split(), "clipped_relative", "--collect-only", "-q"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clipped_relative" in done.stdout
