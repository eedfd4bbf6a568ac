"""Nothing is imported from the current folder but a module that is named: it may be a stranger's."""

import subprocess
import sys
from pathlib import Path

import pytest

SHADOWS = ("json", "click", "torch", "numpy", "rich", "pydantic", "inspect", "typing_extensions", "posenc", "tempfile")
"""Modules that the tool, or what it imports, imports once it runs."""


def shadow(folder: Path) -> None:
    """Put modules of well-known names into a folder, which say that they were run."""
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'ran')!r}, 'a').write('{name} ')\nraise SystemExit(7)\n"
        )


HOWS = (["-m", "posenc_export"], ["-mposenc_export"], ["-P", "-m", "posenc_export"])


@pytest.mark.parametrize("how", [HOWS[0], *(pytest.param(how, marks=pytest.mark.exhaustive) for how in HOWS[1:])])
def test_no_module_of_a_strangers_folder_is_run(tmp_path: Path, how: list[str]) -> None:
    shadow(tmp_path)
    done = subprocess.run([sys.executable, *how, "explain", "PE101"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, False), done.stderr
    assert b"integrity" in done.stdout


@pytest.mark.exhaustive
def test_a_bundle_in_such_a_folder_is_validated(tmp_path: Path, small_bundle: Path) -> None:
    shadow(tmp_path)
    words = [sys.executable, "-m", "posenc_export", "validate", str(small_bundle), "--runtime", "ort-cpu"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, False), done.stderr


PROGRAM = """
import sys
before = list(sys.path)
import posenc_export
assert sys.path == before
import mine
print(mine.x)
"""


def test_a_program_that_imports_the_package_keeps_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 'own'\n")
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__init__.py").write_text(PROGRAM)
    (tmp_path / "program" / "__main__.py").touch()
    for how in (["-m", "program"], ["-m", "program", "-m", "posenc_export"], ["-c", PROGRAM]):
        done = subprocess.run([sys.executable, *how], cwd=tmp_path, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (0, b"own\n"), (how, done.stderr)


def test_a_named_module_is_found_first_and_its_folder_is_searched_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posenc_export.write.targets.module import import_factory

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "named_here.py").write_text("import beside_it\n\ndef make():\n    import later\n    return later.x\n")
    (tmp_path / "beside_it.py").write_text("")
    (tmp_path / "later.py").write_text("x = 3")
    (tmp_path / "colorsys.py").write_text("raise SystemExit(7)")
    before = list(sys.path)
    factory = import_factory("named_here:make")
    assert sys.path == [*before, str(tmp_path)]
    assert factory() == 3
    import colorsys

    assert not str(colorsys.__file__).startswith(str(tmp_path))
    assert import_factory("named_here:make") is factory
    assert sys.path == [*before, str(tmp_path)]
