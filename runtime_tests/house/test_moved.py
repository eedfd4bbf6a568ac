"""Modules that moved are importable under their old names, with a warning that says the new one."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.moved import NEW_NAMES, PACKAGES, names_of

WERE_MODULES = sorted({name.rpartition(".")[0] for name in NEW_NAMES.values()} & set(NEW_NAMES))
"""Names that were modules and are packages."""


@pytest.mark.parametrize("old", sorted(set(NEW_NAMES) - set(WERE_MODULES)))
def test_an_old_name_gives_the_module_that_moved(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is {NEW_NAMES[old]} from posenc-export 0.2 on"):
        module = importlib.import_module(old)
    assert module is importlib.import_module(NEW_NAMES[old])
    assert module.__name__ == NEW_NAMES[old]
    assert module.__spec__ is not None
    assert module.__spec__.name == NEW_NAMES[old]


@pytest.mark.parametrize("old", ["posenc_export.validation.report", "posenc_export.validation.apart"])
def test_a_package_has_the_names_of_the_module_that_it_was(old: str) -> None:
    new = importlib.import_module(NEW_NAMES[old])
    name = next(name for name, value in vars(new).items() if getattr(value, "__module__", "") == new.__name__)
    with pytest.warns(DeprecationWarning, match=f"{old} is {NEW_NAMES[old]}"):
        assert getattr(importlib.import_module(old), name) is getattr(new, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        names_of(old, NEW_NAMES[old])("nothing")


@pytest.mark.parametrize("old", PACKAGES)
def test_what_moved_to_the_models_has_its_old_name(old: str) -> None:
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
    program.write_text("import posenc\nfrom posenc.families import rotary\nprint(rotary.__name__)\n")
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert ran.stdout == "posenc.sources.rotary.encode\n"
    assert f"{program}:2: DeprecationWarning: posenc.families.rotary is" in ran.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"posenc\.families\.nothing"):
        importlib.import_module("posenc.families.nothing")
