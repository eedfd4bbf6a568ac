"""Which functions of the package run: while an encoding is made and called, and while its reference is."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import posenc
from judged import Parameters, built, planned
from posenc.spec import Spec
from posenc_export.arrays import call_on_arrays
from posenc_export.validation.feeds import feeds_for

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


def reached(scheme: str, spec: Spec, sample: Parameters) -> Reached:
    """Make an encoding; call its module, then its reference, in the planned calls."""
    codes = Reached()
    with noted(codes.module):
        encoding = built(scheme, spec, sample)
    assert encoding is not None
    for case in planned(encoding)[::STEP]:
        feeds = feeds_for(encoding.inputs, case, 0)
        with noted(codes.module):
            call_on_arrays(encoding.module, [feeds[port.name] for port in encoding.inputs])
        with noted(codes.reference):
            encoding.reference(feeds, None)
    return codes


def place(code: CodeType) -> str:
    """Return where code lies: "families/window.py:differences"."""
    return f"{Path(code.co_filename).relative_to(HOME).as_posix()}:{code.co_qualname}"


@dataclass(frozen=True)
class Owned:
    """A function, and the module or the class that has it by a name."""

    owner: ModuleType | type
    name: str
    function: FunctionType


@cache
def functions() -> Mapping[CodeType, Owned]:
    """Return every function of the package by its code, methods too."""
    found: dict[CodeType, Owned] = {}
    modules = [m for n, m in sys.modules.items() if n.startswith("posenc.") and getattr(m, "__file__", None)]
    for module in modules:
        for owner in (module, *(c for c in vars(module).values() if isinstance(c, type))):
            for name, value in vars(owner).items():
                if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                    found.setdefault(value.__code__, Owned(owner, name, value))
    return found


def replaced(owned: Owned, wrong: Callable[..., Any], put: Callable[[Any, str, object], None]) -> None:
    """Put a wrong function in the place of a right one, wherever the package has it by its name."""
    owners = [owned.owner]
    if isinstance(owned.owner, ModuleType):
        owners = [m for n, m in sys.modules.items() if n.startswith("posenc.")]
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if value is owned.function:
                put(owner, name, wrong)
