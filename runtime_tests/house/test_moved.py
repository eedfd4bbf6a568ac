"""Modules that moved are importable under their old names, with a warning that says the new one."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.moved import PACKAGES


@pytest.mark.parametrize("old", PACKAGES)
def test_what_moved_has_its_old_name(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is {PACKAGES[old]} from posenc-export 0.3 on"):
        module = importlib.import_module(old)
    new = importlib.import_module(PACKAGES[old])
    names = [
        name
        for name, value in vars(new).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith(new.__name__)
    ]
    assert all(getattr(module, name) is getattr(new, name) for name in names)


def test_what_is_inside_a_package_that_moved_is_no_second_module() -> None:
    for name in [name for name in sys.modules if name.startswith("posenc.hf")]:
        sys.modules.pop(name)
    with pytest.warns(DeprecationWarning, match="posenc.hf.asking.process is posenc_models.asking.process"):
        module = importlib.import_module("posenc.hf.asking.process")
    assert module is importlib.import_module("posenc_models.asking.process")


def test_a_warning_stands_at_the_line_that_imports(tmp_path: Path) -> None:
    program = tmp_path / "user.py"
    program.write_text("import posenc\nfrom posenc.hf import read\nprint(read.__name__)\n")
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert ran.stdout == "posenc_models.config.read\n"
    assert f"{program}:2: DeprecationWarning: posenc.hf is" in ran.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"posenc\.hf\.nothing"):
        importlib.import_module("posenc.hf.nothing")
