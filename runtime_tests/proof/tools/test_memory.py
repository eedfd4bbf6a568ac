"""A large baked table: how much memory its export and validation take, measured on a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROWS, WIDTH = 65536, 1024
TABLE = ROWS * WIDTH * 4
CODE = "from posenc_export.cli import export; export()"
HERE = ("ort-cpu", "onnx-reference", "torchscript-cpu")
"""The runtimes of the process itself: what a C++ runner takes, where one is built, would be counted as its."""


def peak(folder: Path, rows: int) -> int:
    """Return the largest resident size of an export of a table of so many rows, in bytes."""
    runtimes = [part for name in HERE for part in ("--runtime", name)]
    args = ["-q", "--max-len", str(rows), "-p", f"d_model={WIDTH}", *runtimes, "-o", str(folder / str(rows))]
    process = subprocess.Popen([sys.executable, "-c", CODE, *args])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
def test_a_large_table_takes_at_most_three_times_its_size_beside_itself(tmp_path: Path) -> None:
    extra = (peak(tmp_path, ROWS) - peak(tmp_path, 64)) / TABLE - 1
    print(f"{extra:.2f} tables beside the table itself")
    assert extra <= 3.05  # two processes differ by a few MB in what else they hold
