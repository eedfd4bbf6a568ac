"""A run of tests ends by itself: what did not begin in time is not run, which is no failure, and is said."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

HELPERS = str(Path(__file__).parents[1])
ROOT = Path(__file__).parents[2]
PASSES = "def test_a(): pass\ndef test_b(): pass\n"
ENDS = (
    "import os, time\n"
    "def test_slow(): time.sleep(max(0, float(os.environ['POSENC_TEST_DEADLINE']) - time.time()) + 0.1)\n"
)
FAILS = "def test_wrong(): assert False\n"


def run(folder: Path, *args: str, **environment: str) -> tuple[int, str]:
    """Run pytest in a folder; return its status and what it printed."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("POSENC_TEST_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    others |= {"PYTHONPATH": os.pathsep.join([HELPERS, others.get("PYTHONPATH", "")]), **environment}
    if folder != ROOT:  # a second less for each process: no other plugin is asked for
        others["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    made = subprocess.run(command, cwd=folder, env=others, capture_output=True, text=True, check=False)
    return made.returncode, made.stdout + made.stderr


def write(folder: Path, **files: str) -> Path:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p helpers.deadline -p xdist.plugin\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_no_test_begins_after_the_time(tmp_path: Path, workers: tuple[str, ...]) -> None:
    folder = write(tmp_path, a=PASSES, b=FAILS)
    status, printed = run(folder, *workers, POSENC_TEST_DEADLINE=str(time.time() - 1))
    assert status == 0, printed
    assert "0 of 3 tests were run; for 3 the time was over: they are neither passed nor failed" in printed
    assert re.search(r"^3 not run in", printed, re.M), printed


@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_began_counts_and_a_failure_is_one(tmp_path: Path, workers: tuple[str, ...]) -> None:
    soon = str(time.time() + 8)
    status, printed = run(write(tmp_path, a=PASSES, b=ENDS, c=PASSES), *workers, POSENC_TEST_DEADLINE=soon)
    assert status == 0, printed
    assert "3 of 5 tests were run; for 2 the time was over" in printed
    assert re.search(r"^3 passed, 2 not run in", printed, re.M), printed
    soon = str(time.time() + 8)
    status, printed = run(write(tmp_path, a=FAILS), *workers, POSENC_TEST_DEADLINE=soon)
    assert status == 1, printed
    assert re.search(r"^1 failed, 1 passed, 2 not run in", printed, re.M), printed


def test_with_time_enough_all_are_run(tmp_path: Path) -> None:
    status, printed = run(write(tmp_path, a=PASSES), POSENC_TEST_DEADLINE=str(time.time() + 600))
    assert status == 0, printed
    assert "2 of 2 tests were run\n" in printed
    assert re.search(r"^2 passed in", printed, re.M), printed


def test_each_commit_begins_at_another_file(tmp_path: Path) -> None:
    folder = write(tmp_path, a=PASSES, b=PASSES, c=PASSES)
    orders = []
    for start in ("0", "1", "2", "ffff"):
        _, printed = run(folder, "--collect-only", POSENC_TEST_START=start)
        orders.append("".join(re.findall(r"^test_(\w)\.py::test_a", printed, re.M)))
    assert orders == ["abc", "bca", "cab", "abc"]


@pytest.mark.parametrize("name", ["POSENC_TEST_DEADLINE", "POSENC_TEST_START"])
def test_what_is_no_number_is_said(tmp_path: Path, name: str) -> None:
    status, printed = run(write(tmp_path, a=PASSES), **{name: "soon"})
    assert status == 4
    assert f"{name} must be" in printed


def test_the_tests_of_this_project_have_it() -> None:
    late = str(time.time() - 1)
    tests = ("runtime_tests/house/test_deadline.py", "-k", "all_are_run")
    status, printed = run(ROOT, *tests, POSENC_TEST_DEADLINE=late)
    assert status == 0, printed
    assert "0 of 1 tests were run" in printed
