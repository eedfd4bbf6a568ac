"""--force never empties a home folder, one of the system, or a work tree; it says what it removes before it does."""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.shared import Cli
from posenc_export.bundle import forced
from posenc_export.bundle.forced import contents, why_contents_protected, why_protected
from posenc_export.bundle.place import check_place, check_target, removals
from posenc_export.common.errors import BadInput
from scripts.kill_points import put, state, write


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with something in it."""
    folder = tmp_path / "users" / "ada"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id").write_text("key")
    (folder / "thesis.tex").write_text("years")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder


def test_a_home_folder_and_what_holds_one_are_refused(home: Path, cli: Cli) -> None:
    for place, words in ((home, "it is your home folder"), (home.parent, "it holds ")):
        with pytest.raises(BadInput, match=words):
            check_target(place, force=True)
    done = cli("export", "--dynamic", "-p", "d_model=8", "-o", str(home), "--force")
    assert (done.exit_code, done.output.count("\n"), "it is your home folder" in done.output) == (2, 1, True)
    assert (home / "thesis.tex").read_text() == "years"


def test_an_empty_home_folder_is_refused_too(home: Path) -> None:
    for path in (home / ".ssh" / "id", home / "thesis.tex"):
        path.unlink()
    (home / ".ssh").rmdir()
    with pytest.raises(BadInput, match="it is your home folder"):
        check_target(home)


def test_a_home_folder_by_another_name_is_the_same_folder(home: Path) -> None:
    (home.parent / "link").symlink_to(home.parent)
    (home.parent / "out").mkdir()
    with pytest.raises(BadInput, match="it is your home folder"):
        check_place(home.parent / "link" / "ada", force=True)
    with pytest.raises(BadInput, match="it is your home folder"):
        check_place(home.parent / "out" / ".." / "ada", force=True)


@pytest.mark.parametrize("name", [".ssh", "Documents"])
def test_what_is_of_a_home_folder_is_refused_and_what_lies_there_is_not(home: Path, name: str) -> None:
    (home / name).mkdir(exist_ok=True)
    (home / name / "letter").write_text("mine")
    with pytest.raises(BadInput, match="yours in your home folder"):
        check_place(home / name, force=True)
    (home / "out").mkdir()
    (home / "out" / "letter").write_text("mine")
    check_place(home / "out", force=True)


@pytest.mark.parametrize("place", [*forced.SYSTEM, *forced.PROGRAMS, sys.prefix, os.__file__.rpartition("/")[0]])
def test_folders_of_the_system_are_kept(place: str) -> None:
    assert why_protected(Path(place)), place


def test_programs_and_configuration_are_kept_with_all_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forced, "PROGRAMS", (str(tmp_path / "etc"),))
    write(tmp_path / "etc" / "ours", "old")
    check_place(tmp_path / "etc" / "ours", force=True)
    (tmp_path / "etc" / "ours" / "server.conf").write_text("port 80")
    with pytest.raises(BadInput, match="a folder of the system; give another with -o"):
        check_place(tmp_path / "etc" / "ours", force=True)
    monkeypatch.setattr(forced, "PROGRAMS", ())
    monkeypatch.setenv("ProgramFiles", str(tmp_path / "etc"))
    assert "a folder of the system" in why_contents_protected(tmp_path / "etc" / "ours")
    assert why_protected(tmp_path / "etc") == "it is a folder of the system"


def test_homes_of_others_and_temporary_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forced, "HOMES", (str(tmp_path),))
    (tmp_path / "grace").mkdir()
    assert why_protected(tmp_path / "grace") == "it is the home folder of a user"
    assert "it is" in why_protected(Path(tempfile.gettempdir()))
    monkeypatch.setattr(forced, "HOMES", ())
    assert why_protected(tmp_path / "grace") == ""


@pytest.mark.parametrize("name", [".git", "project/.git", "a/b/.hg"])
@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_text("gitdir: elsewhere")])
def test_a_work_tree_is_refused_wherever_it_lies(old: Path, name: str, make: Callable[[Path], object]) -> None:
    (old / name).parent.mkdir(parents=True, exist_ok=True)
    make(old / name)
    with pytest.raises(BadInput, match=rf"it holds {name}, the history of a work tree"):
        check_target(old, force=True)
    with pytest.raises(BadInput, match="work tree"):
        put(old, "new", force=True)
    (old / name).rmdir() if (old / name).is_dir() else (old / name).unlink()


def test_a_name_that_is_too_long_is_said_to_be(cli: Cli, tmp_path: Path) -> None:
    for name, size in (("a" * 300, 300), ("é" * 120, 240)):
        with pytest.raises(BadInput, match=f"is too long a name: it has {size} bytes, at most 237 fit"):
            check_target(tmp_path / name)
    check_target(tmp_path / ("a" * 237))
    for command in (["validate"], ["compat"], ["export", "--from-hf"]):
        done = cli(*command, "a" * 300)
        assert (done.exit_code, done.output.count("\n"), "name too long" in done.output) == (2, 1, True), done.output


def test_what_is_removed_is_said_before(old: Path) -> None:
    assert removals(old) == []
    (old / "notes").mkdir()
    (old / "notes" / "a.txt").write_text("12345")
    (old / "link").symlink_to("/")
    bytes_ = sum(path.lstat().st_size for path in old.rglob("*") if path.is_symlink() or path.is_file())
    entries = len([*old.rglob("*")])
    assert contents(old) == f"{entries} entries of {bytes_:,} bytes"
    assert removals(old) == [f"{old} is replaced: {entries} entries of {bytes_:,} bytes are removed"]
    failed = old.with_name("b-failed")
    failed.mkdir()
    (failed / "x").write_text("1")
    assert removals(old)[1] == f"{failed} is replaced if the export fails: 1 entry of 1 bytes are removed"
    put(old, "new", force=True)
    assert state(old) == "new"


def test_the_command_says_it_before_any_work(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise BadInput("stopped")

    monkeypatch.setattr("posenc_export.proof.exporter.prepare", stop)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    words = ("export", "--dynamic", "-p", "d_model=8", "-o", "out", "--force")
    done = cli(*words)
    assert done.stderr.splitlines() == ["out is replaced: 1 entry of 4 bytes are removed", "Error: stopped"]
    assert done.stdout == ""
    assert cli(*words, "-q").stderr == "Error: stopped\n"
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
