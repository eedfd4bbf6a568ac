"""Which functions of the package run: while an encoding is made and called, and while its reference is."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import posenc
from helpers.judged import Form, planned
from posenc.rope_types import ROPE_TYPES
from posenc_export.common.arrays import call_on_arrays
from posenc_export.write.targets.feeds import feeds_for

HOME = Path(posenc.__file__).parent
STEP = 5
"""Of the planned calls every so many are made."""


@dataclass(frozen=True)
class Reached:
    """The code that runs while a module is made and called, and while its reference is."""

    module: set[CodeType] = field(default_factory=set)
    reference: set[CodeType] = field(default_factory=set)


@contextmanager
def noted(codes: set[CodeType]) -> Iterator[None]:
    """Note the code of every function of the package that is called."""

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(HOME)):
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def reached(form: Form) -> Reached:
    """Make an encoding; call its module, then its reference, in the planned calls."""
    codes = Reached()
    with noted(codes.module):
        encoding = form.built()
    for case in planned(encoding)[::STEP]:
        feeds = feeds_for(encoding.inputs, case, 0)
        with noted(codes.module):
            call_on_arrays(encoding.module, [feeds[port.name] for port in encoding.inputs])
        with noted(codes.reference):
            encoding.reference(feeds, None)
    return codes


def place(code: CodeType) -> str:
    """Return where code lies: "sources/window/encode.py:differences"."""
    return f"{Path(code.co_filename).relative_to(HOME).as_posix()}:{code.co_qualname}"


@dataclass(frozen=True)
class Owned:
    """A function, or a property, and the module or the class that has it."""

    owner: ModuleType | type
    attribute: FunctionType | property

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        function = self.attribute.fget if isinstance(self.attribute, property) else self.attribute
        assert function is not None
        return function


@cache
def functions() -> Mapping[CodeType, Owned]:
    """Return every function of the package by its code: methods and properties, too, but none within another."""
    found: dict[CodeType, Owned] = {}
    for module in _modules():
        owners: list[ModuleType | type] = [module, *(c for c in vars(module).values() if isinstance(c, type))]
        for owner in owners:
            for value in vars(owner).values():
                if isinstance(value, FunctionType) or (isinstance(value, property) and value.fget is not None):
                    one = Owned(owner, value)
                    if getattr(one.function, "__module__", "") == module.__name__:
                        found.setdefault(one.function.__code__, one)
    return found


def replaced(owned: Owned, wrong: Callable[..., Any], put: Callable[[Any, str, object], None]) -> None:
    """Put a wrong function in the place of a right one, wherever the package has it by a name."""
    owners = _modules() if isinstance(owned.owner, ModuleType) else [owned.owner]
    new = property(wrong) if isinstance(owned.attribute, property) else wrong
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if value is owned.attribute:
                put(owner, name, new)
    for kind in ROPE_TYPES.values():
        if kind.compute is owned.attribute:
            put(ROPE_TYPES, "_items", {**vars(ROPE_TYPES)["_items"], kind.name: replace(kind, compute=wrong)})


def _modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith("posenc.")]
