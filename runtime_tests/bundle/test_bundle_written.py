"""How a bundle is written: a good one is replaced whole, and anything else stays."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.shared import Cli

ARGS = ["--dynamic", "-p", "d_model=8", "--max-len", "40"]


def test_an_existing_bundle_is_replaced_and_anything_else_is_not(cli: Cli, tmp_path: Path) -> None:
    assert cli("export", *ARGS, "-q", "-o", "b").exit_code == 0
    assert cli("export", *ARGS, "-q", "-o", "b", "-f", "onnx").exit_code == 0
    assert not (tmp_path / "b" / "model.pt").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    result = cli("export", *ARGS, "-o", "mine")
    assert result.exit_code == 2
    assert "mine holds thesis.txt, which posenc-export did not write, and is left alone" in result.output
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    (tmp_path / "file").write_text("x")
    result = cli("export", *ARGS, "-o", "file")
    assert (result.exit_code, "file is not a folder" in result.output) == (2, True)
    assert (tmp_path / "file").read_text() == "x"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "file", "mine"]


def test_a_failing_export_leaves_the_good_bundle_alone(cli: Cli, tmp_path: Path) -> None:
    assert cli("export", *ARGS, "-q", "-o", "b").exit_code == 0
    before = (tmp_path / "b" / "model.onnx").read_bytes()
    result = cli("export", *ARGS, "-p", "base=500", "-o", "b", "--atol", "0")
    assert result.exit_code == 1
    assert (tmp_path / "b" / "model.onnx").read_bytes() == before
    assert json.loads((tmp_path / "b-failed" / "report.json").read_text())["passed"] is False


def test_a_read_only_folder_is_one_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ro").mkdir(mode=0o555)
    if os.geteuid() == 0:  # root may write anywhere: let the system answer as it answers others
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).stat().st_mode & 0o222 != 0)
    result = cli("export", *ARGS, "-o", "ro/b")
    assert (result.exit_code, "cannot write" in result.output) == (2, True)


def test_a_folder_that_cannot_be_made_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = cli("export", *ARGS, "-o", "file/b")
    assert (result.exit_code, "cannot write" in result.output) == (2, True)
    result = cli("export", *ARGS, "-o", "/proc/posenc/b")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_kill_in_the_middle_leaves_no_half_written_bundle(tmp_path: Path, signal_: signal.Signals) -> None:
    # A shell that runs the tests in the background has its children ignore Ctrl-C: here they shall not.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heed}; from posenc_export.cli import export; export()"
    command = [sys.executable, "-c", code, *ARGS, "-o", "b"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".b.partial-*/new/model.*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal_)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (tmp_path / "b").exists()
    assert b"Traceback" not in stderr
    if signal_ != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == [], "the scratch folder is gone too"
