"""What goes in and out of an encoding: ports that say what they carry, axes that say their kind.

Nothing looks a port or an axis up by its name: what is fed, planned and refused follows from kinds and from what is
carried. An axis has one size wherever its name stands; a name may be a sum of others and of numbers, as `past+seq` or
`-1+seq+seq_k`, and in an output one of products, too, as `5+height*width` or `-1+2*seq`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Feeds = Mapping[str, Array]
"""Arrays by port name."""
Kind = Literal["batch", "heads", "length", "grid", "features"]


def is_number(factor: str) -> bool:
    """Whether a factor of an axis's name is a whole number, and names no axis."""
    return factor.removeprefix("-").isdecimal()


@dataclass(frozen=True)
class Axis:
    """An axis of a port: a size makes it fixed, else it is dynamic, at least `least`, and a multiple of `multiple`.

    kind: what runs along it: sequences of a batch, heads, positions ("length"; "grid" where they are rows or columns of
        places), or features.
    most: sizes beyond this one must be refused; None where none must be.
    """

    name: str
    kind: Kind
    size: int | None = None
    least: int = 1
    multiple: int = 1
    most: int | None = None

    @property
    def terms(self) -> tuple[str, ...]:
        """What its size is the sum of: its own name, or what has a plus between, which may be products."""
        return tuple(self.name.split("+"))

    @property
    def names(self) -> tuple[str, ...]:
        """The axes that its size follows from, each once: itself, or those in its terms."""
        factors = (factor for term in self.terms for factor in term.split("*"))
        return tuple(dict.fromkeys(factor for factor in factors if not is_number(factor)))

    @property
    def is_formula(self) -> bool:
        """Whether its size follows from those of others."""
        return self.names != (self.name,)

    @property
    def is_dynamic(self) -> bool:
        """Whether its size is that of a call."""
        return self.size is None

    @property
    def is_length(self) -> bool:
        """Whether positions run along it."""
        return self.kind in ("length", "grid")

    def allowed(self, size: int, most: int | None = None) -> int:
        """Return a size that it may have, near this one: a multiple, not below its least; up to `most` if it can be."""
        step = self.multiple
        least = -(-self.least // step) * step
        up = max(least, -(-size // step) * step)
        return up if most is None or up <= most else max(least, most // step * step)

    def size_in(self, sizes: Mapping[str, int]) -> int:
        """Return its size where the dynamic axes have these sizes."""
        if self.size is not None:
            return self.size
        each = ((int(one) if is_number(one) else sizes[one] for one in term.split("*")) for term in self.terms)
        return sum(map(prod, each))

    def __str__(self) -> str:
        return self.name if self.size is None else str(self.size)


@dataclass(frozen=True)
class Values:
    """Numbers, of which nothing is known but the range they are in, if it is.

    strict: graphs must refuse numbers that are beyond the range by one or more, the C++ class whatever is beyond it.
    probabilities: along the last axis they sum to 1.
    """

    low: float | None = None
    high: float | None = None
    strict: bool = False
    probabilities: bool = False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range beyond which numbers must be refused; None where they need not be."""
        if not self.strict or self.low is None or self.high is None:
            return None
        return self.low, self.high


@dataclass(frozen=True)
class Positions:
    """Positions of tokens, below `end`: along the last axis, and along the first where a token has several.

    ends: where each of those ends, if they do not all end at `end`, which is the largest then.
    """

    end: int | None = None
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Start:
    """The position of the first token: the others follow it. Positions are below `end`.

    among: the axis of keys, counted from 0, among which all of the tokens must be; None where none are.
    """

    end: int | None = None
    among: str | None = None


@dataclass(frozen=True)
class Mask:
    """Which tokens are no padding, along the last axis: 1 and 0, or, added to scores, 0 and minus infinity.

    offset: where positions begin that are counted from it; None where none are. end: they are below it.
    additive: None where nothing but the module says whether it is.
    causal: it is of queries (the last axis but one) and keys, and hides what comes later, too; no query sees nothing.
    """

    additive: bool | None = False
    offset: int | None = None
    end: int | None = None
    causal: bool = False


@dataclass(frozen=True)
class Indices:
    """Integers below `end`, as indices of a table."""

    end: int | None = None


@dataclass(frozen=True)
class Size:
    """The size of a dynamic axis, as a number."""

    of: str


@dataclass(frozen=True)
class Extents:
    """Sizes of images along the last axis, at least 1: each has as many places, at most, as the dynamic axis `of`."""

    of: str


Carries: TypeAlias = "Values | Positions | Start | Mask | Indices | Size | Extents"
ANYTHING = Values()


@dataclass(frozen=True)
class Port:
    """One input or output: its axes, its dtype by torch's name, and what it carries."""

    name: str
    axes: tuple[Axis, ...]
    dtype: str
    carries: Carries = field(default=ANYTHING)

    @property
    def dynamic(self) -> dict[int, Axis]:
        """The dynamic axes: {index: axis}."""
        return {i: axis for i, axis in enumerate(self.axes) if axis.is_dynamic}

    @property
    def lengths(self) -> list[int]:
        """The indices of the axes along which positions run."""
        return [i for i, axis in enumerate(self.axes) if axis.is_length]

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return its shape where the dynamic axes have these sizes."""
        return tuple(axis.size_in(sizes) for axis in self.axes)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.axes))}]"


def fixed(size: int, kind: Kind = "features") -> Axis:
    """Return an axis of a fixed size."""
    return Axis("", kind, size)


def axes_of(ports: Iterable[Port]) -> list[Axis]:
    """Return the dynamic axes of ports, each once, in order; for a sum those it is of."""
    axes: dict[str, Axis] = {}
    parts: dict[str, Axis] = {}
    for port in ports:
        for axis in port.dynamic.values():
            if axis.is_formula:
                parts |= {name: Axis(name, axis.kind) for name in axis.names if name not in parts}
            else:
                axes.setdefault(axis.name, axis)
    return [*axes.values(), *(axis for name, axis in parts.items() if name not in axes)]


def sizes_of(ports: Iterable[Port], feeds: Feeds) -> dict[str, int]:
    """Return the sizes that the dynamic axes have in a call; those of sums follow from them."""
    named = ((axis, feeds[port.name].shape[i]) for port in ports for i, axis in port.dynamic.items())
    return {axis.name: size for axis, size in named if not axis.is_formula}


def carrying(ports: Iterable[Port], *kinds: type[object]) -> list[Port]:
    """Return the ports that carry one of these."""
    return [port for port in ports if isinstance(port.carries, kinds)]


BATCH, SEQ = Axis("batch", "batch"), Axis("seq", "length")
