"""What an encoding is: how it may be asked for (Form), what goes in and out (Port), what it is (Encoding, Scheme).

Axis names, everywhere: `batch`, `head`, `head_kv`, `seq`, `seq_k`, `height`, `width`, `dim`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from posenc.parameters import checked
from posenc.registry import Registry

if TYPE_CHECKING:
    from torch import nn

Mode = Literal["baked", "dynamic"]
Method = Literal["exact", "trig"]
Positions = Literal["implicit", "offset", "explicit"]
DType = Literal["fp32", "fp16", "bf16", "fp64"]

TORCH_NAMES: Mapping[DType, str] = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}

Feeds = Mapping[str, NDArray[Any]]
"""Arrays by port name."""


@dataclass(frozen=True)
class Port:
    """One input or output: a `str` axis is dynamic, an `int` axis fixed; `below` bounds the integers fed to it."""

    name: str
    axes: tuple[str | int, ...]
    dtype: str
    below: int | None = None

    @property
    def dynamic(self) -> dict[int, str]:
        """The dynamic axes: {index: name}."""
        return {i: axis for i, axis in enumerate(self.axes) if isinstance(axis, str)}

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.axes))}]"


@dataclass(frozen=True)
class Form:
    """How an encoding is asked for: what every scheme has in common, beside its own parameters.

    mode: "baked", a table of `max_len` rows, or "dynamic", rows computed in the graph.
    method: how a dynamic graph computes angles; a baked one has nothing to compute.
    positions: "implicit" 0..seq-1; "offset" the same from `start` (1,); "explicit" `positions` (batch, seq);
        None for the scheme's own default.
    """

    mode: Mode = "baked"
    method: Method = "exact"
    positions: Positions | None = None
    max_len: int = 2048
    dtype: DType = "fp32"

    def __post_init__(self) -> None:
        if self.max_len < 1:
            raise ValueError(f"max_len must be at least 1, got {self.max_len}")

    @property
    def lowering(self) -> Literal["table", "exact", "trig"]:
        """How angles come about: "table" in a baked form, else the method."""
        return "table" if self.mode == "baked" else self.method

    @property
    def torch_dtype(self) -> str:
        """The name that torch and numpy give to `dtype`."""
        return TORCH_NAMES[self.dtype]

    @property
    def angle_dtype(self) -> str:
        """What angles are computed in: never less than float32, whatever is asked for."""
        return "float64" if self.dtype == "fp64" else "float32"


@dataclass(frozen=True)
class Tolerance:
    """What an output may be off by: `atol + rtol * |expected| + ulps * (one ulp of expected)`, or no bit at all.

    The ulp is of the output's own dtype, so that one half ulp allows for one correct rounding. `vector` adds so much of
    the largest |expected| along the last axis: what a rotation mixes is off relative to all that it mixes.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: float = 0.0
    vector: float = 0.0
    bits: bool = False

    def loosened(self, by: Tolerance | None) -> Tolerance:
        """Return what two causes may add up to; None adds nothing, and where no bit was allowed the other is all."""
        if by is None or self.bits:
            return by or self
        return Tolerance(self.atol + by.atol, self.rtol + by.rtol, self.ulps + by.ulps, self.vector + by.vector)


@dataclass(frozen=True)
class Encoding:
    """A built encoding: an eager module, its ports, the mathematics it approximates and how well it must.

    truth: inputs to float64 outputs, from the paper's formula; a second argument, if not None, is the indices along
        the longest output axis to return.
    error: the largest position met -> how far an output may be from the truth.
    parity: the largest position met -> how far a graph on the CPU may be from the eager module.
    limit: positions from here on must be refused; None where there is no such end.
    ends: lengths of calls that must be tried: those around which the formula changes, or beyond which nothing would be.
    scattered: positions of one call that must be tried, which together read every row of what is stored.
    """

    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    truth: Callable[[Feeds, NDArray[np.int64] | None], dict[str, NDArray[Any]]]
    error: Callable[[int], Tolerance]
    parity: Callable[[int], Tolerance]
    positions: Positions | None = None
    limit: int | None = None
    ends: tuple[int, ...] = ()
    scattered: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scheme:
    """A registered encoding: `build(form, **parameters)`, where it comes from, and what cannot work.

    unsupported: a mode, method, positions, dtype or format -> the reason.
    """

    name: str
    build: Callable[..., Encoding]
    paper: str
    positions: Positions
    unsupported: Mapping[str, str]
    summary: str


def _import_schemes() -> None:
    import posenc.schemes as folder

    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"posenc.schemes.{module.name}")


SCHEMES: Registry[Scheme] = Registry("scheme", _import_schemes)


def scheme(
    name: str,
    *,
    paper: str,
    positions: Positions = "implicit",
    unsupported: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Encoding]], Callable[..., Encoding]]:
    """Register the decorated function `(form, **parameters) -> Encoding` as the scheme `name`."""

    def register(build: Callable[..., Encoding]) -> Callable[..., Encoding]:
        summary = (build.__doc__ or "").strip().partition("\n")[0]
        SCHEMES.add(name, Scheme(name, build, paper, positions, unsupported or {}, summary))
        return build

    return register


def build(name: str, form: Form | None = None, **parameters: Any) -> Encoding:
    """Build the scheme `name` in the given form (baked by default).

    Raises ValueError, in one line, for an unknown name, a parameter of another type or out of range, or a form the
    scheme has not.
    """
    found = SCHEMES[name]
    form = form or Form()
    asked: list[str] = [form.mode, form.positions or found.positions, form.dtype]
    asked += [form.method] if form.mode == "dynamic" else []
    for choice in asked:
        if choice in found.unsupported:
            raise ValueError(f"{name} has no {choice} form: {found.unsupported[choice]}")
    return found.build(_with_positions(form, found.positions), **checked(found.build, parameters))


def _with_positions(form: Form, default: Positions) -> Form:
    return form if form.positions is not None else replace(form, positions=default)


def eps(dtype: str) -> float:
    """The distance from 1.0 to the next number of a dtype by torch's name."""
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
    return float(np.ldexp(1.0, -bits[dtype]))


def rounding(form: Form, add: bool) -> Tolerance:
    """Return what the roundings after the rows may cost: the sum with x, and a cast to a narrower dtype."""
    if form.torch_dtype != form.angle_dtype:
        return Tolerance(rtol=eps(form.angle_dtype) / 2, ulps=0.5)
    return Tolerance(ulps=0.5 if add else 0.0)
