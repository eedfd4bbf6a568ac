"""The process that reads a file for `inspect`: it ends, hangs, says something else, runs out of memory."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from helpers.graph_files import added_row
from helpers.shared import Cli
from posenc_export.read import inspect as parent

pytestmark = pytest.mark.apart


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    """A file that adds a stored row to an input of a fixed length."""
    return added_row(tmp_path)


Instead = Callable[[str], None]


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Instead:
    """Have the process that reads a file run another program."""
    monkeypatch.setattr(parent, "GRACE", 0.1)
    return lambda body: monkeypatch.setattr(parent, "PROGRAM", ("-c", f"import json, os, sys, time\n{body}\n"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("time.sleep(100)", "reading it takes longer than 0.5 s: give more with --timeout"),
        ("os.kill(os.getpid(), 9)", "the process that reads it ended by signal SIGKILL"),
        ("sys.exit('broken')", "the process that reads it ended with status 1: broken"),
    ],
    ids=["hangs", "killed", "ends"],
)
def test_a_process_that_ends_or_hangs_is_one_line(
    cli: Cli, onnx_file: Path, instead: Instead, body: str, words: str
) -> None:
    instead(body)
    result = cli("inspect", str(onnx_file), *(["--timeout", "0.5"] if "--timeout" in words else []))
    assert (result.exit_code, result.output.count("\n"), words in result.output) == (2, 1, True), result.output


@pytest.mark.parametrize(
    "line", ["inspected {}", "begun []", "error 1", 'error ["SystemExit", "x"]', "other {}", "inspected " + "[" * 5000]
)
def test_a_message_that_no_inspection_sends_is_refused(cli: Cli, onnx_file: Path, instead: Instead, line: str) -> None:
    instead(f"print({line!r})")
    result = cli("inspect", str(onnx_file))
    assert (result.exit_code, result.output.count("\n")) == (5, 1), result.output


LARGE = """
import posenc_export.read.child as child, posenc_export.read.graph.read as read
read.graph_in = lambda *_: bytearray(2**40)
child.main(json.loads(sys.argv[1]))
"""


def test_too_little_memory_is_one_line(cli: Cli, onnx_file: Path, instead: Instead) -> None:
    instead(LARGE)
    result = cli("inspect", str(onnx_file), "--memory", "0.5")
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert "takes more memory than 0.5 GiB: give more with --memory" in result.output


def test_external_data_that_are_missing_are_named(cli: Cli, onnx_file: Path) -> None:
    model = onnx.load(onnx_file)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.arange(4096, dtype=np.float32), "row"))
    path = onnx_file.with_name("big.onnx")
    onnx.save(model, path, save_as_external_data=True, location="big.data", size_threshold=16)
    os.remove(onnx_file.with_name("big.data"))
    result = cli("inspect", str(path))
    assert "PE211 warning  missing-data: big.data" in result.stdout, result.output
