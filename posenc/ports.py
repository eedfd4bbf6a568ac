"""What goes in and out of an encoding: ports that say what they carry, axes that say their kind.

Nothing looks a port or an axis up by its name: feeds, plans and refusals follow from kinds of axes and from what ports
carry. What the export does with a kind of port stands in a file of `posenc_export/bundle/carries/`.

An axis has one size wherever its name stands. A name may be a sum of other names and numbers, as `past+seq` or
`-1+seq+seq_k`; in outputs also a sum of products, as `5+height*width` or `-1+2*seq`.
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
Complexes = NDArray[np.complex128]
Feeds = Mapping[str, Array]
"""Arrays by port name."""
Kind = Literal["batch", "heads", "length", "grid", "features"]


def is_number(factor: str) -> bool:
    """Whether a factor in an axis's name is an integer, not the name of an axis."""
    return factor.removeprefix("-").isdecimal()


@dataclass(frozen=True)
class Axis:
    """An axis of a port: fixed if it has a size, else dynamic, at least `least`, and a multiple of `multiple`.

    Args:
        kind: What runs along it: sequences of a batch, heads, positions ("length"; "grid" if positions are rows and
            columns), or features.
        most: The largest size that is not refused; None if every size is accepted.
        without: Sizes that it never has: a module may do something else there than at all others.
    """

    name: str
    kind: Kind
    size: int | None = None
    least: int = 1
    multiple: int = 1
    most: int | None = None
    without: tuple[int, ...] = ()

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms whose sum its size is: names, numbers and products, or its own name alone."""
        return tuple(self.name.split("+"))

    @property
    def names(self) -> tuple[str, ...]:
        """The axes that determine its size, without repetition: itself, or the axes in its terms."""
        factors = (factor for term in self.terms for factor in term.split("*"))
        return tuple(dict.fromkeys(factor for factor in factors if not is_number(factor)))

    @property
    def is_formula(self) -> bool:
        """Whether its size follows from the sizes of other axes."""
        return self.names != (self.name,)

    @property
    def is_dynamic(self) -> bool:
        """Whether each call has its own size."""
        return self.size is None

    @property
    def is_length(self) -> bool:
        """Whether positions run along it."""
        return self.kind in ("length", "grid")

    def allowed(self, size: int, limit: int | None = None) -> int:
        """Return an allowed size near `size`: rounded up to a multiple, or down if that would exceed the limit."""
        step = self.multiple
        least = -(-self.least // step) * step  # the smallest multiple that is not below `least`
        up = max(least, -(-size // step) * step)
        while up in self.without:
            up += step
        if limit is None or up <= limit:
            return up
        down = limit // step * step
        while down in self.without:
            down -= step
        return max(least, down) if least not in self.without else max(up, down)

    def size_in(self, sizes: Mapping[str, int]) -> int:
        """Return its size in a call whose dynamic axes have these sizes."""
        if self.size is not None:
            return self.size
        # "5+height*width" -> (5), (height, width) -> 5 + height * width
        products = ((int(f) if is_number(f) else sizes[f] for f in term.split("*")) for term in self.terms)
        return sum(map(prod, products))

    def __str__(self) -> str:
        return self.name if self.size is None else str(self.size)


@dataclass(frozen=True)
class Values:
    """Numbers, and their range if it is known.

    Args:
        strict: Whether graphs must refuse numbers beyond the range by 1 or more, and the C++ class all beyond it.
        probabilities: Whether numbers sum to 1 along the last axis.

    """

    low: float | None = None
    high: float | None = None
    strict: bool = False
    probabilities: bool = False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range beyond which numbers must be refused; None if none must be."""
        if not self.strict or self.low is None or self.high is None:
            return None
        return self.low, self.high


@dataclass(frozen=True)
class Positions:
    """Positions of tokens along the last axis, below `end`; a token may have several, along the first axis.

    Args:
        ends: The end of each of a token's positions if they differ; `end` is then the largest.

    """

    end: int | None = None
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Start:
    """The position of the first token; the others follow it, all below `end`.

    Args:
        among: The axis of keys, counted from 0, which must hold all of the tokens; None if there is none.

    """

    end: int | None = None
    among: str | None = None


@dataclass(frozen=True)
class Mask:
    """Which tokens along the last axis are valid: 1, or 0 for padding; added to scores, 0 or minus infinity.

    Args:
        additive: Whether it is added to scores; None if only the module can tell.
        offset: The first of the positions that are counted from it, all below `end`; None if none are counted.
        causal: Whether it has an axis of queries before the axis of keys, and also hides later keys from each query;
            every query sees a key.

    """

    additive: bool | None = False
    offset: int | None = None
    end: int | None = None
    causal: bool = False


@dataclass(frozen=True)
class Indices:
    """Indices of a table, below `end`."""

    end: int | None = None


@dataclass(frozen=True)
class Boxes:
    """Rectangles on a page, along the last axis: left, top, right and bottom, whole numbers below `end`."""

    end: int | None = None


@dataclass(frozen=True)
class Size:
    """The size of the dynamic axis `of`, as a number."""

    of: str


@dataclass(frozen=True)
class Extents:
    """Heights and widths of images, along the last axis: at least 1, with a product up to the axis `of`."""

    of: str


@dataclass(frozen=True)
class Grids:
    """Steps, rows and columns of pictures, along the last axis: their products add up to the axis `of`.

    Args:
        of: The axis of patches.
        multiple: What rows and columns are multiples of.

    """

    of: str
    multiple: int = 1


@dataclass(frozen=True)
class Frames:
    """Heights and widths of pictures, along the last axis, which lie in frames of the axes `height` and `width`.

    Args:
        height: The axis of the rows of a frame.
        width: The axis of its columns.
        multiple: What heights and widths are multiples of.

    """

    height: str
    width: str
    multiple: int = 1


@dataclass(frozen=True)
class Blocks:
    """Which places of sounds are there, along the last axis: 1, or 0 behind the end of a sound.

    Args:
        of: The axis of frames, of which each block makes as many places as the last axis is a multiple of.
        multiple: How many frames a block has; the last one of a sound may have fewer.

    """

    of: str
    multiple: int = 1


PromptPart = Literal["ids", "mask", "deltas", "images", "videos", "seconds"]


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A part of a prompt with images and videos in it, whose parts must fit each other.

    Args:
        part: The ids of its tokens, their mask, what text before them adds to positions, the grids of images or of
            videos, or the seconds between time steps of videos.
        batch: The axis of texts.
        seq: The axis of tokens.
        past: The axis of the tokens before them.
        images: The axis of images.
        videos: The axis of videos; None where none go in.
        image: As in `posenc.grid_rule.GridRule`, and so are all that follow.

    """

    part: PromptPart
    batch: str
    seq: str
    past: str
    images: str
    videos: str | None = None
    image: int
    video: int | None
    video_start: int | None
    video_end: int | None
    start: int | None
    end_id: int | None
    merge: int
    time_merge: int
    by_frame: bool


Carries: TypeAlias = (
    "Values | Positions | Start | Mask | Indices | Boxes | Size | Extents | Grids | Frames | Blocks | Prompt"
)
ANYTHING = Values()


@dataclass(frozen=True)
class Port:
    """An input or output: its axes, its dtype by torch's name, and what it carries."""

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
        """Return its shape in a call whose dynamic axes have these sizes."""
        return tuple(axis.size_in(sizes) for axis in self.axes)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.axes))}]"


def fixed(size: int, kind: Kind = "features") -> Axis:
    """Return an axis of a fixed size."""
    return Axis("", kind, size)


def axes_of(ports: Iterable[Port]) -> list[Axis]:
    """Return the dynamic axes of ports without repetition, in order; instead of a formula the axes in it."""
    axes: dict[str, Axis] = {}
    parts: dict[str, Axis] = {}  # axes in formulas, which may stand nowhere alone
    for port in ports:
        for axis in port.dynamic.values():
            if axis.is_formula:
                # in a sum that may be empty, each term may be
                least = min(axis.least, 1)
                parts |= {name: Axis(name, axis.kind, least=least) for name in axis.names if name not in parts}
            else:
                axes.setdefault(axis.name, axis)
    return [*axes.values(), *(axis for name, axis in parts.items() if name not in axes)]


def sizes_of(ports: Iterable[Port], feeds: Feeds) -> dict[str, int]:
    """Return the sizes of the dynamic axes in a call, but for formulas, whose sizes follow from them."""
    named = ((axis, feeds[port.name].shape[i]) for port in ports for i, axis in port.dynamic.items())
    return {axis.name: size for axis, size in named if not axis.is_formula}


def carrying(ports: Iterable[Port], *kinds: type[object]) -> list[Port]:
    """Return the ports of these kinds."""
    return [port for port in ports if isinstance(port.carries, kinds)]


def counted_from(ports: Iterable[Port]) -> int | None:
    """Return where positions begin that are counted from a mask; None if no mask gives positions."""
    offsets = [port.carries.offset for port in ports if isinstance(port.carries, Mask)]
    return next((offset for offset in offsets if offset is not None), None)


BATCH, SEQ = Axis("batch", "batch"), Axis("seq", "length")
