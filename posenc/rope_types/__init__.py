"""Rope types: each a pure function from its parameters to float64 `inv_freq` and an attention factor.

`inv_freq[i]` is the angle, in radians per position, by which pair i of a head is rotated; the attention factor
multiplies every cosine and sine. Two types depend on how long a call is: `dynamic` and `longrope` take its `length`,
the largest position plus one. Names of parameters are those of transformers' `rope_parameters`. Files here are found by
themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.formulas.parts.frequencies import Frequencies
from posenc.parameters import ABSENT, REQUIRED, Parameter, Value, parameters_of
from posenc.ports import Floats
from posenc.ranges import above
from posenc.registry import Registry
from posenc.spec import Spec

if TYPE_CHECKING:
    from posenc.joins.rotated import RotaryAngles

AT_LEAST_TWO = ("original_max_position_embeddings", "max_position_embeddings")
"""Parameters that count positions."""


@dataclass(frozen=True)
class RopeType:
    """A way to scale rotary frequencies: `compute(dim, rope_theta, length, **parameters)`.

    Args:
        samples: parameters that tests try, for heads of 16 features.
        reference: a second function for the float64 reference, written from the paper, that calls nothing of
            `compute`.
        by_length: the parameter with the length of a call beyond which the frequencies change; "" if they are the same
            for every call.
        in_graph: makes the rotary angles of a dynamic graph; None if frequencies change only once, at that length.
    """

    name: str
    compute: Callable[..., Frequencies]
    paper: str
    samples: tuple[Mapping[str, Value], ...]
    reference: Callable[..., Frequencies]
    by_length: str = ""
    in_graph: Callable[[Rope, Spec], RotaryAngles] | None = None

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters of `compute`, without those that all types share."""
        everything = parameters_of(self.compute)
        return {name: p for name, p in everything.items() if name not in ("dim", "rope_theta", "length")}


ROPE_TYPES: Registry[RopeType] = Registry("rope_type", __name__)


def rope_type(
    name: str,
    *,
    paper: str,
    samples: tuple[Mapping[str, Value], ...],
    reference: Callable[..., Frequencies],
    by_length: str = "",
    in_graph: Callable[[Rope, Spec], RotaryAngles] | None = None,
) -> Callable[[Callable[..., Frequencies]], Callable[..., Frequencies]]:
    """Register the decorated function `(dim, rope_theta, length, *, parameters) -> Frequencies` as a rope type.

    Args:
        reference: a function of the same parameters, written from the paper, that shares nothing with it.
    """

    def register(compute: Callable[..., Frequencies]) -> Callable[..., Frequencies]:
        made = RopeType(name, compute, paper, samples, reference, by_length, in_graph)
        ROPE_TYPES.add(name, made, compute.__module__)
        return compute

    return register


def scaling_parameters() -> dict[str, Parameter]:
    """Return the parameters of all rope types, each once, with the types that take it; all are optional."""
    merged: dict[str, Parameter] = {}
    takers: dict[str, list[str]] = {}
    for kind in ROPE_TYPES.values():
        for name, parameter in kind.parameters.items():
            takers.setdefault(name, []).append(kind.name)
            merged.setdefault(name, replace(parameter, default=ABSENT))
    return {name: replace(p, help=f"{p.help} ({', '.join(takers[name])})") for name, p in merged.items()}


@dataclass(frozen=True)
class Rope:
    """The frequencies of `dim` rotated features: a rope type with its parameters.

    Args:
        backward: frequencies are below 0: pairs turn by minus the angle.

    Raises ValueError, in one line, for an unknown type, a parameter it lacks or does not take, and one out of range.
    """

    rope_type: str
    dim: int
    rope_theta: float
    scaling: Mapping[str, Any]
    backward: bool = False

    def __post_init__(self) -> None:
        check_scaling(self.rope_type, self.scaling)
        if self.dim < 2 or self.dim % 2:
            raise ValueError(f"rotated features come in pairs: expected an even number of at least 2, got {self.dim}")
        above(1).check(rope_theta=self.rope_theta)

    @property
    def kind(self) -> RopeType:
        """The record of its rope type."""
        return ROPE_TYPES[self.rope_type]

    @property
    def by_length(self) -> bool:
        """Whether the frequencies depend on the length of a call."""
        return bool(self.kind.by_length)

    @property
    def edges(self) -> tuple[int, ...]:
        """Lengths of calls around the one beyond which frequencies change; empty if they never do."""
        if not self.by_length:
            return ()
        return (self.switch - 1, self.switch, self.switch + 1, 2 * self.switch + 3)

    @property
    def switch(self) -> int:
        """The length of calls beyond which frequencies change."""
        return int(self.scaling[self.kind.by_length])

    def at(self, length: int) -> Frequencies:
        """Compute the frequencies of a call of `length` positions."""
        computed = self.kind.compute(self.dim, self.rope_theta, length, **self.scaling)
        return replace(computed, inv_freq=-computed.inv_freq) if self.backward else computed


def check_scaling(name: str, scaling: Mapping[str, Value]) -> None:
    """Raise ValueError for a missing or unknown parameter of a rope type, and for a factor that is not above 0."""
    known = ROPE_TYPES[name].parameters
    for key, value in scaling.items():
        if key not in known:
            raise ValueError(f"rope_type={name} takes no {key}: it takes {', '.join(known) or 'nothing more'}")
        _check_value(key, value)
    missing = [key for key, p in known.items() if p.default is REQUIRED and key not in scaling]
    if missing:
        raise ValueError(f"rope_type={name} needs {', '.join(missing)}: give -p {missing[0]}=VALUE")


def _check_value(key: str, value: Value) -> None:
    least, text = (2, "at least 2") if key in AT_LEAST_TWO else (np.nextafter(0, 1), "above 0")
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue  # a flag or None
        if not (math.isfinite(number) and number >= least):
            raise ValueError(f"{key} must be {text}, got {number}")


def geometric(dim: int, rope_theta: float, over: int | None = None) -> Floats:
    """Return rope_theta^(-2i / over) for each pair of `dim` features: (dim / 2,)."""
    return np.asarray(rope_theta ** (-np.arange(0, dim, 2, dtype=np.float64) / (over or dim)))


def stretch_of(factor: float | None, max_position_embeddings: int | None, original: int) -> float:
    """Return the factor, or else the ratio of the two contexts."""
    if factor is not None:
        return factor
    if max_position_embeddings is None:
        raise ValueError("factor is not given: give -p factor=VALUE, or max_position_embeddings")
    return max_position_embeddings / original
