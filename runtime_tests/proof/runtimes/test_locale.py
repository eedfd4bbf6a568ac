"""A good bundle is never failed for the environment: in the locale C folders and files may be called what they like."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.shared import why_missing
from posenc_export.bundle.folder import write_json
from posenc_export.bundle.paths import native_path
from posenc_export.common.errors import BadInput, ToolFailed
from posenc_export.proof.runtimes import RUNTIMES

NAME = "дир é"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
Done = subprocess.CompletedProcess[bytes]


def posenc(*words: str, cwd: Path, **environment: str) -> Done:
    """Run a command where Python and C know no letters but those of ASCII."""
    command = [sys.executable, "-m", "posenc_export", *words]
    environment = {**os.environ, **ASCII, **environment}
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, env=environment)


def runtimes_here(*formats: str) -> list[str]:
    unasked = [runtime for runtime in RUNTIMES.values() if runtime.format in formats and not runtime.slow]
    return [runtime.name for runtime in unasked if not why_missing(runtime.name)]


def test_a_good_bundle_is_good_in_any_folder(small_bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(small_bundle, tmp_path / NAME)
    here = runtimes_here("onnx", "torchscript")
    done = posenc("validate", NAME, "--trust", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    report = json.loads(done.stdout)
    assert report["bundle"] == NAME
    agreed = {v["subject"] for v in report["verdicts"] if v["check"] == "agrees" and v["status"] == "pass"}
    assert agreed == set(here)


@pytest.mark.exhaustive
def test_every_format_is_written_to_and_run_from_any_folder(tmp_path: Path) -> None:
    formats = ("onnx", "torchscript", "pt2", "header")
    named = [word for name in runtimes_here(*formats) for word in ("--require", name)]
    words = ["--dynamic", "--positions", "offset", "-p", "d_model=8", "--max-len", "40", "-o", NAME]
    done = posenc("export", *words, *(word for f in formats for word in ("-f", f)), *named, "--cpp", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"checks passed" in done.stdout
    done = posenc("validate", NAME, "--trust", *named, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    done = posenc("bench", f"./{NAME}", "--length", "8", "--rounds", "1", "--runtime", "ort-cpu", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    done = posenc("export", "-f", "aoti", "-p", "d_model=8", cwd=tmp_path)  # torch reads its own sources as ASCII
    assert (done.returncode, done.stderr.count(b"\n"), b"set LC_ALL=C.UTF-8" in done.stderr) == (5, 1, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("runtime", ["ort-cpu", "ort-cpp"])
def test_parameters_that_name_files_are_read_back(tmp_path: Path, runtime: str) -> None:
    (tmp_path / NAME).mkdir()
    np.save(tmp_path / NAME / "w.npy", np.ones((40, 8), np.float32))
    words = ["-p", f"weights={NAME}/w.npy", "--max-len", "40", "-f", "onnx"]
    done = posenc("export", "learned", *words, "--runtime", runtime, "-o", "b", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b""), done.stdout
    assert json.loads((tmp_path / "b/manifest.json").read_bytes())["params"]["weights"] == f"{NAME}/w.npy"


def undecoded(name: str) -> str:
    """Return a name as Python has it that knows ASCII alone."""
    return name.encode().decode("ascii", "surrogateescape")


def test_json_holds_letters_and_no_halves_of_pairs(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"path": undecoded(NAME), undecoded("é"): ["\x1b"]})
    text = (tmp_path / "a.json").read_bytes().decode("utf-8")
    assert json.loads(text) == {"path": NAME, "é": ["\x1b"]}
    assert "\\ud" not in text


def test_errors_say_names_as_they_are() -> None:
    assert BadInput(f"no {undecoded(NAME)}").format_message() == f"no {NAME}"
    assert BadInput("no " + undecoded("\u202e")).format_message() == "no \\u202e"


def test_a_folder_that_is_no_utf_8_has_another_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / os.fsdecode(b"lat\xe9")
    folder.mkdir()
    (folder / "file").write_text("x")
    with native_path(folder) as place:
        str(place).encode()
        assert (place / "file").read_text() == "x"
    assert not place.exists()
    with native_path(tmp_path) as place:
        assert place == tmp_path
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(ToolFailed, match=r"set LC_ALL=C\.UTF-8, or another TMPDIR"), native_path(folder):
        pass


def test_a_folder_with_letters_opens_in_any_locale(small_bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(small_bundle, tmp_path / NAME)
    done = posenc("validate", NAME, "--runtime", "ort-cpu", cwd=tmp_path, TMPDIR=str(tmp_path / NAME))
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_folder_that_no_library_can_open_is_status_5(small_bundle: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"lat\xe9")
    shutil.copytree(small_bundle, tmp_path / name)
    done = posenc("validate", name, "--runtime", "ort-cpu", cwd=tmp_path, TMPDIR=str(tmp_path / name))
    assert (done.returncode, done.stderr.count(b"\n"), b"another TMPDIR" in done.stderr) == (5, 1, True), done.stderr
