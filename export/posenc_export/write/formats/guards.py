"""Guards: what torch.export assumed of sizes while it traced, beyond their ranges, and never says.

A guard that the declared axes do not imply (`seq % 8 != 0`; equality of two axes with different names) is an export
that holds for some lengths only. What they imply (one name twice, a sum of names) is no news.
"""

from __future__ import annotations

import inspect
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import CodeType, SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

from posenc.ports import Axis, Port, axes_of
from posenc_export.common.errors import ExportFailed, first_line
from posenc_export.write.formats.calls import FEW, ModuleCalls, Sizes

if TYPE_CHECKING:
    import torch
    from torch import nn

Argument = TypeVar("Argument")
HARMLESS = re.compile(r"max\(1, |^(?!.*% .*!= 0$).*(!= [01]|> [01]|>= 2)$")
"""Guards on which the outputs rarely depend: they hold once a planned call that breaks one agrees.

They say that a computed size is not 0 or 1, which torch.export treats apart, since such an axis may be repeated; or,
with `max(1, size)`, that a slice lies in one piece. A remainder that is not 0 is a branch, and never harmless.
"""
SIZES = (*range(2, 34), 48, 64, 96, 100, 127, 128, 200, 1000)
"""Sizes at which guards are tried, times what an axis is a multiple of."""
ALIKE = (*range(2, 130), 200, 256, 512, 1000)
"""Lengths at which all sequences are alike: where a guard concerns one of two, few other sizes meet its branch."""
DRAWS = 300
"""Sizes that are drawn at random."""
SMALL = 2**22
"""Input elements up to which a guard of a scheme is tried: a batch of 1000 on a grid takes gigabytes."""


@dataclass(frozen=True)
class Broken:
    """A guard that some calls break.

    Attributes:
        words: The guard, with the names of axes.
        sizes: The sizes of one call that breaks it.
        tried: The sizes of some such calls, which the module itself takes.
    """

    words: str
    sizes: Sizes
    tried: Sequence[Sizes] = ()

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        where = f"torch.export keeps the graph to calls where {self.words}"
        return f"{where}, and {sizes} is none: the module branches on it"


def broken_guards(
    program: torch.export.ExportedProgram, module: nn.Module, calls: ModuleCalls, max_len: int
) -> Iterator[Broken]:
    """Yield the guards of a program that some sizes of the declared axes break.

    Args:
        program: The program, which holds its guards as texts.
        module: The module that was captured: its `forward` names the arguments.
        calls: Those of the encoding's own module. Sizes that it refuses break nothing.
        max_len: The largest length.
    """
    sampled = list(_sizes(calls.inputs, max_len))
    for guard in guards_of(program):
        breaking = breaking_sizes(guard, module, calls.inputs, sampled)
        # every plan has such a call, so that a wrong graph would be seen
        if HARMLESS.search(guard) and any(map(calls.are_planned, breaking)):
            continue
        tried = calls.taken(breaking)
        if tried:
            words = in_words(guard, module, calls.inputs)
            named = {name: size for name, size in tried[0].items() if name in words}
            yield Broken(words, named or tried[0], tried)


def guards_of(program: torch.export.ExportedProgram) -> Sequence[str]:
    """Return the guards of a program, as expressions of Python."""
    return getattr(program, "_guards_code", None) or ()


def too_narrow(
    program: torch.export.ExportedProgram, module: nn.Module, calls: ModuleCalls, max_len: int
) -> Iterator[tuple[str, Sequence[Sizes]]]:
    """Yield each guard that valid calls break, and a few such calls: of one token, and longer than `max_len`, too."""
    max_size = max(max_len, *SIZES)
    drawn = [*_sizes(calls.inputs, max_size, least=1), *_one_by_one(calls.inputs, max_size)]
    sampled = [sizes for sizes in drawn if calls.elements(sizes) <= SMALL]
    for guard in guards_of(program):
        tried = calls.taken(breaking_sizes(guard, module, calls.inputs, sampled), FEW)
        if tried:
            yield guard, tried


def outside(calls: ModuleCalls, name: str, first: int, last: int) -> Broken:
    """Return the assumption that an axis has none of the sizes `first`..`last`."""
    tried = calls.taken([sizes for sizes in _sizes(calls.inputs, last) if first <= sizes.get(name, 0) <= last])
    return Broken("", {name: tried[0][name] if tried else first}, tried)


def breaking_sizes(guard: str, module: nn.Module, ports: tuple[Port, ...], sampled: Sequence[Sizes]) -> list[Sizes]:
    """Return the sizes at which a guard does not hold."""
    code = compile(guard, "<guard>", "eval")
    now: dict[str, int] = {}
    # a guard asks nothing of its arguments but L['x'].size(); they are bound once, and have other sizes in each turn
    tensors = [SimpleNamespace(size=partial(port.shape, now)) for port in ports]
    names, breaking = {"L": _arguments(module, tensors)}, []
    for sizes in sampled:
        now.clear()
        now.update(sizes)
        if not _holds(code, guard, names):
            breaking.append(sizes)
    return breaking


@cache
def _known() -> dict[str, object]:
    """Return the names that guards may use."""
    import torch

    functions = {"max": max, "min": min, "abs": abs, "int": int, "float": float, "bool": bool}
    return {"__builtins__": {}, **functions, "math": math, "torch": torch}


def _holds(code: CodeType, guard: str, arguments: Mapping[str, object]) -> bool:
    """Return whether a guard holds for some arguments."""
    try:
        return bool(eval(code, _known(), dict(arguments)))
    except ArithmeticError:  # a division by a size of 0
        return False
    except Exception as error:
        raise ExportFailed(f"torch.export assumed what cannot be read: {guard} ({first_line(error)})") from error


def _arguments(module: nn.Module, values: Sequence[Argument]) -> Mapping[str, Argument | tuple[Argument, ...]]:
    """Return arguments by the names that `forward` gives them, as guards do."""
    return {**inspect.signature(module.forward).bind(*values).arguments, "flat_args": tuple(values)}


def _sizes(ports: tuple[Port, ...], max_len: int, least: int = 2) -> Iterator[dict[str, int]]:
    """Yield sizes of the axes from `least` on: all alike, then lengths alike, then at random."""
    axes = axes_of(ports)
    choices = {axis.name: _choices(axis, max_len, (least, *SIZES)) for axis in axes}
    for i in range(max(map(len, choices.values()), default=0)):
        yield {name: sizes[i % len(sizes)] for name, sizes in choices.items()}
    alike = {axis.name: _choices(axis, max_len, (least, *ALIKE) if axis.is_length else (2,)) for axis in axes}
    for i in range(1 + len(ALIKE)):
        yield {name: sizes[i % len(sizes)] for name, sizes in alike.items()}
    # a seed of its own: two exports of a module try the same sizes
    rng = random.Random(0)
    for _ in range(DRAWS):
        yield {name: rng.choice(sizes) for name, sizes in choices.items()}


def _one_by_one(ports: tuple[Port, ...], max_len: int) -> Iterator[dict[str, int]]:
    """Yield sizes in which one axis takes every size in turn, and the others are small but not 1."""
    axes = axes_of(ports)
    small = {axis.name: _choices(axis, max_len, (2,))[0] for axis in axes}
    for axis in axes:
        yield from ({**small, axis.name: size} for size in _choices(axis, max_len, (1, *ALIKE)))


def _choices(axis: Axis, max_len: int, sizes: Sequence[int]) -> list[int]:
    max_size = min(max_len, axis.most or max_len) if axis.is_length else max(SIZES)
    return sorted({axis.allowed(n * axis.multiple, max_size) for n in sizes})


def in_words(guard: str, module: nn.Module, ports: tuple[Port, ...]) -> str:
    """Return a guard with the names of axes in the place of `L['x'].size()[1]`."""
    for name, value in _arguments(module, list(ports)).items():
        listed = isinstance(value, tuple)  # of *args, and of "flat_args"
        for i, port in enumerate(value if isinstance(value, tuple) else (value,)):
            text = f"L['{name}'][{i}]" if listed else f"L['{name}']"
            for index, axis in enumerate(port.axes):
                # L['x'].size()[1] -> seq
                guard = guard.replace(f"{text}.size()[{index}]", str(axis))
    return re.sub(r"\((\w+)\)", r"\1", guard)
