"""What an ONNX file says of its own inputs, as `-i` would say it; ranges of integers are asked of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Indices, Port, Positions
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import DTYPES, INTEGERS, call_on_arrays, numpy_dtype
from posenc_export.common.errors import BadInput, check_machine
from posenc_export.write.formats.onnx.foreign import FileValue, ForeignFile
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import trace_sizes

if TYPE_CHECKING:
    from torch import nn

KINDS = {"batch": "batch", "head": "heads"}
"""Kinds of axes by what stands in their names; any other is a length."""
MOST = 2**20
"""An integer that is taken up to here is no index of a table."""
FEW = 1023
"""The largest number that such an integer is fed."""
LENGTH = 8
"""The largest length at which a file is asked for ranges."""


def identifiers(names: Sequence[str]) -> list[str]:
    """Return names of letters, digits and _ alone, all different: bundles take no others."""
    made: list[str] = []
    for name in names:
        plain = identifier(name)
        made.append(next(text for n in range(len(names) + 1) if (text := f"{plain}_{n}" if n else plain) not in made))
    return made


def identifier(name: str) -> str:
    """Return a name with _ for what bundles do not take in names."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() or plain.startswith("_") else f"_{plain}"


def port_texts(file: ForeignFile) -> tuple[str, ...]:
    """Return a file's inputs as `-i` takes them; raise BadInput where one has no such form."""
    names = identifiers([value.name for value in file.inputs])
    return tuple(_text(file, name, value) for name, value in zip(names, file.inputs, strict=True))


def _text(file: ForeignFile, name: str, value: FileValue) -> str:
    if value.dtype not in DTYPES or value.axes is None:
        raise BadInput(
            f"{file.path.name} takes {value.name}: {value}, expected known axes and one of {', '.join(DTYPES)}"
        )
    axes = (_axis(f"{name}_axis{index}", axis) for index, axis in enumerate(value.axes))
    return f"{name}: {value.dtype}[{', '.join(axes)}]"


def _axis(unnamed: str, axis: int | str) -> str:
    """Return an axis as `-i` takes it: a size, a name with its kind, or a sum of names."""
    if isinstance(axis, int):
        return str(max(axis, 1))
    terms = [term.strip() for term in axis.split("+")]
    if len(terms) > 1 and len({*terms}) == len(terms) and all(term.isidentifier() for term in terms):
        return "+".join(terms)
    name = identifier(axis) if axis else unnamed
    kind = next((kind for part, kind in KINDS.items() if part in name.lower()), "")
    return f"{name}:{kind}" if kind else name


def with_ranges(texts: Sequence[str], ports: Sequence[Port], module: nn.Module, seed: int) -> tuple[str, ...]:
    """Return the texts of ports with the range of each index and position, as far as the module refuses others."""
    sizes = trace_sizes(ports, set(), LENGTH * len(ports))
    return tuple(
        f"{text}{_range(module, tuple(ports), port, sizes, seed)}" for text, port in zip(texts, ports, strict=True)
    )


def _range(module: nn.Module, ports: tuple[Port, ...], port: Port, sizes: dict[str, int], seed: int) -> str:
    """Return the words for the integers that an input may hold."""
    if port.dtype not in INTEGERS or not isinstance(port.carries, Indices | Positions):
        return ""

    def takes(value: int) -> bool:
        feeds = feeds_for(ports, Case("range", sizes), seed)
        feeds[port.name] = np.full(port.shape(sizes), value, numpy_dtype(port.dtype))
        try:
            call_on_arrays(module, [feeds[fed.name] for fed in ports])
        except Exception as error:
            check_machine(error)
            return False
        return True

    end = _first_refused(takes)
    if end is not None:
        return f" < {end}"
    return "" if isinstance(port.carries, Positions) else f" in 0..{FEW}"


def _first_refused(takes: Callable[[int], bool]) -> int | None:
    """Return the least number that is refused, above 0; None where none is."""
    high = 1
    while takes(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    # the largest known to be taken, and the least known to be refused
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) else (low, middle)
    return high
