"""Guards: what torch.export assumed of sizes while it traced, beyond their ranges, and never says.

A guard that the declared axes do not imply (`seq % 8 != 0`; equality of two axes with different names) is an export
that holds for some lengths only. What they imply (one name twice, a sum of names) is no news.
"""

from __future__ import annotations

import functools
import inspect
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from posenc.ports import Axis, Port, axes_of
from posenc_export.carries import kind_of
from posenc_export.errors import ExportFailed, first_line

if TYPE_CHECKING:
    import torch
    from torch import nn

    from posenc.encoding import Encoding

RESIDUES = (*range(3, 18), 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129)
"""Lengths at which modules branch: every module that is not ours is tried at them."""
HARMLESS = re.compile(r"max\(1, |^(?!.*% .*!= 0$).*(!= [01]|> [01]|>= 2)$")
"""Guards that something computed on the way is not of size 1, or empty, as torch.export treats those apart: they may
stand for an axis to repeat; and guards of strides, made of `max(1, size)`: whether a slice lies in one piece. Mostly
nothing depends on them: that is seen where a length that breaks one is tried. A remainder that is not 0 is a branch,
and none of them."""
SIZES = (*range(2, 34), 48, 64, 96, 100, 127, 128, 200, 1000)
"""Sizes at which guards are tried, times what an axis is a multiple of."""
ALIKE = (*range(2, 130), 200, 256, 512, 1000)
"""Those of lengths, all alike, of two sequences: a branch within the one that a guard is of is met at few of them."""
DRAWS, ATTEMPTS = 300, 48
"""Sizes that are drawn at random; of those that break a guard, at how many a module is run: small and large ones."""
FEW, LARGE = 5, 2**24
"""So many are tried whatever their sizes; of others, those of so many elements of inputs, times the longest axis."""
SMALL = 2**22
"""Elements of inputs of a call at which a guard of ours is tried: others take gigabytes, a batch of 1000 on a grid."""


@dataclass(frozen=True)
class Broken:
    """A guard in words, and sizes at which it does not hold; tried: those of them to try it at."""

    words: str
    sizes: Mapping[str, int]
    tried: Sequence[Mapping[str, int]] = ()

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        where = f"torch.export keeps the graph to calls where {self.words}"
        return f"{where}, and {sizes} is none: the module branches on it"


@dataclass(frozen=True)
class _Shape:
    """A tensor of which a guard asks the sizes."""

    sizes: tuple[int, ...]

    def size(self) -> tuple[int, ...]:
        """Return its sizes."""
        return self.sizes


def broken_guards(
    program: torch.export.ExportedProgram, module: nn.Module, encoding: Encoding, max_len: int
) -> Iterator[Broken]:
    """Yield the guards of a program that some sizes of the declared axes break.

    module: that was captured. Sizes that the encoding's own module refuses break nothing.
    """
    ports = encoding.inputs
    guards: Sequence[str] = getattr(program, "_guards_code", None) or ()
    sampled = list(_sizes(ports, max_len))
    for guard in guards:
        breaking = breaking_sizes(guard, module, ports, sampled)
        if HARMLESS.search(guard) and any(_is_tried(sizes, encoding) for sizes in breaking):
            continue
        tried = taken(encoding, breaking)
        if tried:
            words = in_words(guard, module, ports)
            named = {name: size for name, size in tried[0].items() if name in words}
            yield Broken(words, named or tried[0], tried)


def too_narrow(
    program: torch.export.ExportedProgram, encoding: Encoding, max_len: int
) -> Iterator[tuple[str, Sequence[Mapping[str, int]]]]:
    """Yield each guard that some calls break, those of one token among them, and a few such calls.

    They are calls that the encoding takes, longer ones than `max_len` among them.
    """
    guards: Sequence[str] = getattr(program, "_guards_code", None) or ()
    ports, most = encoding.inputs, max(max_len, *SIZES)
    drawn = [*_sizes(ports, most, least=1), *_one_by_one(ports, most)]
    sampled = [sizes for sizes in drawn if _elements(encoding, sizes) <= SMALL]
    for guard in guards:
        tried = taken(encoding, breaking_sizes(guard, encoding.module, encoding.inputs, sampled), FEW)
        if tried:
            yield guard, tried


def outside(encoding: Encoding, name: str, first: int, last: int) -> Broken:
    """Return the assumption that an axis is not of these sizes."""
    breaking = [sizes for sizes in _sizes(encoding.inputs, last) if first <= sizes.get(name, 0) <= last]
    tried = taken(encoding, breaking)
    return Broken("", {name: tried[0][name] if tried else first}, tried)


def taken(
    encoding: Encoding, breaking: Sequence[Mapping[str, int]], attempts: int = ATTEMPTS
) -> list[Mapping[str, int]]:
    """Return some of the sizes that break a guard, small and large ones, at which the module itself runs."""

    def cost(sizes: Mapping[str, int]) -> int:
        return _elements(encoding, sizes) * max(sizes.values(), default=1)

    lengths = [axis.name for axis in axes_of(encoding.inputs) if axis.is_length]
    costly_first = sorted(breaking, key=cost, reverse=True)
    cheapest = {tuple(sizes[name] for name in lengths): sizes for sizes in costly_first}  # of the calls of each lengths
    ordered = sorted(cheapest.values(), key=cost)
    unique = [sizes for i, sizes in enumerate(ordered) if i < FEW or cost(sizes) <= LARGE]
    half = attempts // 2
    some = [*unique[:half], *unique[half :: max(1, len(unique) // half)]]
    return [sizes for sizes in some if _takes(encoding, sizes)]


def _elements(encoding: Encoding, sizes: Mapping[str, int]) -> int:
    """Return how many numbers go in."""
    return sum(math.prod(port.shape(sizes)) for port in encoding.inputs)


def _takes(encoding: Encoding, sizes: Mapping[str, int]) -> bool:
    """Return whether a module that was never called runs at these sizes."""
    import torch

    try:
        with torch.no_grad():
            encoding.uncalled().module(*(_input(port, sizes) for port in encoding.inputs))
    except Exception:
        return False
    return True


def _input(port: Port, sizes: Mapping[str, int]) -> torch.Tensor:
    """Return an input that holds the least integer that it may; of floats zeros."""
    import torch

    least = kind_of(port.carries).least(port.carries, port, sizes) or 0  # zero may be no index of its tables
    return torch.full(port.shape(sizes), least, dtype=getattr(torch, port.dtype))


def breaking_sizes(
    guard: str, module: nn.Module, ports: tuple[Port, ...], sampled: Sequence[Mapping[str, int]]
) -> list[Mapping[str, int]]:
    """Return the sizes at which a guard does not hold."""
    code = compile(guard, "<guard>", "eval")
    shapes = ((sizes, [_Shape(port.shape(sizes)) for port in ports]) for sizes in sampled)
    return [sizes for sizes, each in shapes if not _holds(code, guard, {"L": _arguments(module, each)})]


@functools.cache
def _known() -> dict[str, Any]:
    """Return the names that guards may use."""
    import torch

    functions = {"max": max, "min": min, "abs": abs, "int": int, "float": float, "bool": bool}
    return {"__builtins__": {}, **functions, "math": math, "torch": torch}


def _holds(code: CodeType, guard: str, sizes: Mapping[str, object]) -> bool:
    """Return whether a guard holds at some sizes; what cannot be computed there does not."""
    try:
        return bool(eval(code, _known(), dict(sizes)))
    except ArithmeticError:
        return False
    except Exception as error:
        raise ExportFailed(f"torch.export assumed what cannot be read: {guard} ({first_line(error)})") from error


def _is_tried(sizes: Mapping[str, int], encoding: Encoding) -> bool:
    """Return whether its plan has a call of these lengths: all alike, and 1, 2, one of RESIDUES, or one it asks for."""
    lengths = {sizes[axis.name] for axis in axes_of(encoding.inputs) if axis.is_length}
    return len(lengths) == 1 and lengths <= {1, 2, *RESIDUES, *encoding.probes.lengths}


def _arguments(module: nn.Module, shapes: Sequence[object]) -> Mapping[str, object]:
    """Return arguments by the names that `forward` gives them, as guards do."""
    return {**inspect.signature(module.forward).bind(*shapes).arguments, "flat_args": tuple(shapes)}


def _sizes(ports: tuple[Port, ...], max_len: int, least: int = 2) -> Iterator[dict[str, int]]:
    """Yield sizes of the axes from `least` on: all alike, one after the other, at random."""
    axes = axes_of(ports)
    choices = {axis.name: _choices(axis, max_len, (least, *SIZES)) for axis in axes}
    most_choices = max(map(len, choices.values()), default=0)
    for i in range(most_choices):
        yield {name: sizes[i % len(sizes)] for name, sizes in choices.items()}
    alike = {axis.name: _choices(axis, max_len, (least, *ALIKE) if axis.is_length else (2,)) for axis in axes}
    for i in range(1 + len(ALIKE)):
        yield {name: sizes[i % len(sizes)] for name, sizes in alike.items()}
    rng = random.Random(0)
    for _ in range(DRAWS):
        yield {name: rng.choice(sizes) for name, sizes in choices.items()}


def _one_by_one(ports: tuple[Port, ...], max_len: int) -> Iterator[dict[str, int]]:
    """Yield sizes of which one axis has all in turn, the others as few as are not treated apart."""
    axes = axes_of(ports)
    few = {axis.name: _choices(axis, max_len, (2,))[0] for axis in axes}
    for axis in axes:
        yield from ({**few, axis.name: size} for size in _choices(axis, max_len, (1, *ALIKE)))


def _choices(axis: Axis, max_len: int, sizes: Sequence[int]) -> list[int]:
    most = min(max_len, axis.most or max_len) if axis.is_length else max(SIZES)
    return sorted({axis.allowed(n * axis.multiple, most) for n in sizes})


def in_words(guard: str, module: nn.Module, ports: tuple[Port, ...]) -> str:
    """Return a guard with the names of axes in the place of `L['x'].size()[1]`."""
    names = _arguments(module, list(ports))
    flat: dict[str, Port] = {}
    for name, value in names.items():
        many = value if isinstance(value, tuple) else None
        flat |= {f"L['{name}']": value} if many is None else {f"L['{name}'][{i}]": p for i, p in enumerate(many)}  # type: ignore[dict-item]
    for text, port in flat.items():
        for index, axis in enumerate(port.axes):
            guard = guard.replace(f"{text}.size()[{index}]", str(axis))
    return re.sub(r"\((\w+)\)", r"\1", guard)
