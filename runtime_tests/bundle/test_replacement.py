"""A bundle is replaced whole, in one step where the system can: a kill leaves the old one or the new one."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.shared import ROOT, with_tests
from posenc_export.bundle import replacement
from posenc_export.bundle.replacement import install, settle_leftovers, staged
from posenc_export.bundle.system import exchange
from posenc_export.common.errors import ToolFailed
from scripts.kill_points import SCENARIOS, contents, put, state, write

EXCHANGES = pytest.mark.parametrize("exchanges", [True, False])


def without_exchange(monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    if not exchanges:
        monkeypatch.setattr(replacement, "exchange", lambda *_: False)


def beside(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir() if path != target)


# ---- one step --------------------------------------------------------------------------------------------------------


@EXCHANGES
def test_what_does_not_move_after_all_stays_as_it_was(
    old: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    rename = os.rename

    def refuse(first: Path, second: Path) -> bool:
        if old in (first, second):
            raise OSError(18, "Invalid cross-device link")
        rename(first, second)
        return True

    monkeypatch.setattr(replacement, "exchange", refuse if exchanges else lambda *_: False)
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(ToolFailed, match="Invalid cross-device link; what was there is as it was"):
        put(old, "new")
    assert (state(old), beside(old)) == ("old", [])


@pytest.mark.parametrize("wrap", [lambda error: error, lambda error: ToolFailed("OSError"), lambda error: ValueError()])
def test_a_full_disk_is_said_with_what_is_free_where(old: Path, wrap: Callable[[Exception], Exception]) -> None:
    def fill() -> None:
        with staged(old) as scratch:
            write(scratch, "new")
            try:
                raise OSError(errno.ENOSPC, "No space left on device")
            except OSError as error:
                raise wrap(error) from error

    with pytest.raises(ToolFailed) as caught:
        fill()
    words = rf"No space left on device: [\d,]+ bytes are free in {old.parent}, [\d,]+ in .*, where temporary files go"
    assert re.fullmatch(words, caught.value.message)
    assert (state(old), beside(old)) == ("old", [])
    for other in (OSError(errno.EIO, "Input/output error"), ValueError("full")):
        with pytest.raises(type(other)) as kept, staged(old):
            raise other
        assert kept.value is other


def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    for name in ("old", "new"):
        write(tmp_path / name, name)
    assert exchange(tmp_path / "old", tmp_path / "new")
    assert (state(tmp_path / "old"), state(tmp_path / "new")) == ("new", "old")
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "old", tmp_path / "nowhere")


@EXCHANGES
def test_two_runs_at_once_both_come_through(old: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool) -> None:
    without_exchange(monkeypatch, exchanges)
    with staged(old) as first, staged(old) as second:
        for scratch in (first, second):
            write(scratch, "new")
            assert len(beside(old)) == 2
        install(second, old)
        install(first, old)
    assert (state(old), beside(old)) == ("new", [])


IT_WRITES = """
from pathlib import Path
from scripts.kill_points import staged, write

with staged(Path("b")) as scratch:
    write(scratch, "new")
    print("written", flush=True)
    input()
"""


@pytest.fixture
def run_of_another(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes into `b` until it is killed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", IT_WRITES], cwd=tmp_path, env=with_tests(), stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        yield process
        process.kill()


def test_leftovers_go_once_their_run_is_dead(old: Path, run_of_another: subprocess.Popen[str]) -> None:
    (left,) = beside(old)
    settle_leftovers(old)
    put(old, "new")
    assert beside(old) == [left], "the run is alive"
    run_of_another.kill()
    run_of_another.wait()
    assert beside(old) == [left]
    with staged(old):
        assert left not in beside(old)
    assert beside(old) == []


def test_only_leftovers_of_ours_go(old: Path) -> None:
    theirs = [
        ".b.partial-mine",
        ".b.partial-abcdefgh",
        ".b.partial-abcdefgi",
        ".b.partial-abcdefgj",
        ".c.partial-abcdefgh",
    ]
    for name in theirs:
        (old.parent / name / "new").mkdir(parents=True)
        (old.parent / name / "lock").touch()
    (old.parent / theirs[1] / "notes.txt").write_text("mine")
    (old.parent / theirs[2] / "lock").unlink()
    (old.parent / theirs[3] / "gone").symlink_to(old)
    put(old, "new")
    assert beside(old) == sorted(theirs)
    (old.parent / theirs[1] / "notes.txt").unlink()
    put(old, "new")
    assert beside(old) == sorted({*theirs} - {theirs[1]})


# ---- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [97, pytest.param(7, marks=pytest.mark.exhaustive)])
def test_a_sample_of_kills_leaves_whole_bundles(every: int) -> None:
    command = [sys.executable, str(ROOT / "runtime_tests" / "scripts" / "kill_points.py"), "--every", str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name, _ in rows(done.stdout)] == [scenario.name for scenario in SCENARIOS]


def test_the_page_has_every_kill() -> None:
    text = (ROOT / "docs" / "reference" / "replacement.md").read_text(encoding="utf-8")
    table = rows(text)
    assert [name for name, _ in table] == [scenario.name for scenario in SCENARIOS]
    kills = sum(int(columns[0]) for _, columns in table)
    assert kills >= 200
    assert {columns[-1] for _, columns in table} == {"0"}
    assert re.search(rf"^{kills} kills, 0 wrong; 20\d\d-\d\d-\d\d, Linux", text, flags=re.MULTILINE)


def rows(text: str) -> list[tuple[str, list[str]]]:
    """The rows of a table: what was done, and the other columns."""
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return [(row[0], row[1:]) for row in found if row[-1].isdigit()]


WRONG = """
import shutil, sys
from posenc_export.bundle import replacement
from scripts import kill_points

def put(scratch, place):
    shutil.rmtree(place)
    return bool(scratch.rename(place))

replacement._put = put
kill_points.SCENARIOS = kill_points.SCENARIOS[:1]
sys.exit(kill_points.main())
"""


@pytest.mark.exhaustive
def test_the_script_finds_what_is_not_whole(old: Path) -> None:
    (old / "report.md").write_text(contents("new")["report.md"])
    assert state(old) == "BROKEN"
    words = [sys.executable, "-c", WRONG, "--every", "7"]
    done = subprocess.run(words, env=with_tests(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "at once BROKEN" in done.stderr


def test_a_path_may_pass_through_a_folder_that_is_not_there(tmp_path: Path) -> None:
    place = tmp_path / "none" / ".." / "b"
    with staged(place) as scratch:
        (scratch / "file").touch()
        install(scratch, place)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("moment", ["mkdir", "acquire"])
def test_an_interrupt_while_a_workshop_is_opened_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Ctrl-C between the folder and its lock left the folder."""

    mkdir = Path.mkdir

    def made(self: Path, *args: Any, **kwargs: Any) -> None:
        mkdir(self, *args, **kwargs)
        if ".partial-" in self.name:
            raise KeyboardInterrupt

    def acquired(self: object) -> None:
        raise KeyboardInterrupt

    if moment == "mkdir":
        monkeypatch.setattr(Path, "mkdir", made)
    else:
        monkeypatch.setattr("filelock.FileLock.acquire", acquired)
    with pytest.raises(KeyboardInterrupt), staged(tmp_path / "bundle"):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
