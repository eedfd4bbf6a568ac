"""Rotary frequencies: each rope type a pure function from its parameters to float64 `inv_freq` and a factor.

`inv_freq[i]` is the angle, in radians per position, by which pair i of a head turns; the attention factor multiplies
every cosine and sine. Two types depend on how long a call is: `dynamic` and `longrope` take its `length`, the largest
position plus one. Names of parameters are those of transformers' `rope_parameters`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from posenc.registry import Registry

RopeTypeName = Literal["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"]


class Scaling(TypedDict, total=False):
    """Every parameter of every rope type; which of them a type takes, and must have, its function says.

    factor: by how much the context is stretched.
    original_max_position_embeddings: the context the model was first trained for (yarn, longrope, llama3).
    max_position_embeddings: the context the model is made for (dynamic; longrope and yarn without a factor).
    attention_factor: multiplies cosines and sines (yarn, longrope) [default: from factor].
    beta_fast: turns over the original context from which a pair is left as it is (yarn) [default: 32].
    beta_slow: turns below which a pair is interpolated in full (yarn) [default: 1].
    mscale: with mscale_all_dim, weighs log(factor) in the attention factor (yarn).
    mscale_all_dim: see mscale (yarn).
    truncate: round the ends of the ramp to whole pairs (yarn) [default: true].
    short_factor: a divisor a pair, for calls up to the original context (longrope).
    long_factor: a divisor a pair, for longer calls (longrope).
    low_freq_factor: original context / wavelength below which a pair is interpolated in full (llama3).
    high_freq_factor: original context / wavelength above which a pair is left as it is (llama3).
    partial_rotary_factor: the share of pairs that turn at all (proportional) [default: 1].
    """

    factor: float
    original_max_position_embeddings: int
    max_position_embeddings: int
    attention_factor: float | None
    beta_fast: float
    beta_slow: float
    mscale: float | None
    mscale_all_dim: float | None
    truncate: bool
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    low_freq_factor: float
    high_freq_factor: float
    partial_rotary_factor: float


@dataclass(frozen=True)
class Frequencies:
    """What a rotary encoding turns by: (pairs,) radians per position, and what multiplies cosines and sines."""

    inv_freq: NDArray[np.float64]
    attention_factor: float = 1.0


@dataclass(frozen=True)
class RopeType:
    """A way to scale rotary frequencies: `compute(dim, rope_theta, length, **parameters)`.

    by_length: whether the frequencies are those of the whole call's length.
    """

    name: str
    compute: Callable[..., Frequencies]
    by_length: bool
    paper: str

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters of its own."""
        found = inspect.signature(self.compute).parameters
        return {name: p for name, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


ROPE_TYPES: Registry[RopeType] = Registry("rope_type")


def rope_type(
    name: str, *, paper: str, by_length: bool = False
) -> Callable[[Callable[..., Frequencies]], Callable[..., Frequencies]]:
    """Register the decorated function as a rope type."""

    def register(compute: Callable[..., Frequencies]) -> Callable[..., Frequencies]:
        ROPE_TYPES.add(name, RopeType(name, compute, by_length, paper))
        return compute

    return register


@dataclass(frozen=True)
class Rope:
    """The frequencies of `dim` rotated features: a rope type with its parameters.

    Raises ValueError, in one line, for an unknown type, a parameter it lacks or does not take, and one out of range.
    """

    rope_type: str
    dim: int
    rope_theta: float
    scaling: Mapping[str, Any]

    def __post_init__(self) -> None:
        check_scaling(self.rope_type, self.scaling)
        if self.dim < 2 or self.dim % 2:
            raise ValueError(f"rotated features come in pairs: expected an even number of at least 2, got {self.dim}")
        if not (self.rope_theta > 1 and math.isfinite(self.rope_theta)):
            raise ValueError(f"rope_theta must be a finite number above 1, got {self.rope_theta}")

    @property
    def by_length(self) -> bool:
        """Whether the frequencies are those of a call's length."""
        return ROPE_TYPES[self.rope_type].by_length

    @property
    def edges(self) -> tuple[int, ...]:
        """Lengths of calls around the one beyond which frequencies are others; none where they never are."""
        if not self.by_length:
            return ()
        at = int(self.scaling.get("original_max_position_embeddings") or self.scaling["max_position_embeddings"])
        return (at - 1, at, at + 1, 2 * at + 3)

    def at(self, length: int) -> Frequencies:
        """Compute the frequencies of a call of `length` positions."""
        return ROPE_TYPES[self.rope_type].compute(self.dim, self.rope_theta, length, **self.scaling)


def check_scaling(name: str, scaling: Mapping[str, Any]) -> None:
    """Raise ValueError where a rope type lacks a parameter, is given one it does not take, or a factor is not > 0."""
    known = ROPE_TYPES[name].parameters
    for key, value in scaling.items():
        if key not in known:
            raise ValueError(f"rope_type={name} takes no {key}: it takes {', '.join(known) or 'nothing more'}")
        _check_value(key, value)
    missing = [key for key, p in known.items() if p.default is inspect.Parameter.empty and key not in scaling]
    if missing:
        raise ValueError(f"rope_type={name} needs {', '.join(missing)}: give -p {missing[0]}=VALUE")


def _check_value(key: str, value: Any) -> None:
    if value is None or isinstance(value, bool):
        return
    least_two = key in ("original_max_position_embeddings", "max_position_embeddings")
    for one in value if isinstance(value, tuple) else (value,):
        if not (math.isfinite(one) and (one >= 2 if least_two else one > 0)):
            raise ValueError(f"{key} must be {'at least 2' if least_two else 'above 0'}, got {one}")


def _plain(dim: int, rope_theta: float, over: int | None = None) -> NDArray[np.float64]:
    """Return rope_theta^(-2i / over) for each pair of `dim` features: (dim / 2,)."""
    return np.asarray(rope_theta ** (-np.arange(0, dim, 2, dtype=np.float64) / (over or dim)))


@rope_type("default", paper="arXiv:2104.09864")
def default(dim: int, rope_theta: float, length: int) -> Frequencies:
    """Return the frequencies of RoFormer: a geometric series from 1 down to nearly 1 / rope_theta."""
    return Frequencies(_plain(dim, rope_theta))


@rope_type("linear", paper="arXiv:2306.15595")
def linear(dim: int, rope_theta: float, length: int, *, factor: float) -> Frequencies:
    """Divide every frequency by `factor`: position interpolation."""
    return Frequencies(_plain(dim, rope_theta) / factor)


@rope_type("dynamic", paper="arXiv:2309.00071, section 3.3 (dynamic NTK)", by_length=True)
def dynamic(dim: int, rope_theta: float, length: int, *, factor: float, max_position_embeddings: int) -> Frequencies:
    """Raise the base with the length of the call, once it is beyond `max_position_embeddings`.

    No state: the frequencies are those of this call's length, whatever was called before.
    """
    ntk_exponent(dim)
    stretch = factor * max(length, max_position_embeddings) / max_position_embeddings - (factor - 1)
    return Frequencies(_plain(dim, rope_theta * stretch ** ntk_exponent(dim)))


def ntk_exponent(dim: int) -> float:
    """Return dim / (dim - 2), the power of the stretch that leaves the slowest pair interpolated exactly."""
    if dim <= 2:
        raise ValueError(f"rope_type=dynamic needs at least 4 rotated features, got {dim}")
    return dim / (dim - 2)


@rope_type("yarn", paper="arXiv:2309.00071")
def yarn(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    truncate: bool = True,
) -> Frequencies:
    """Interpolate slow pairs, leave fast ones, and ramp between those that turn beta_fast and beta_slow times."""
    stretch = _stretch(factor, max_position_embeddings, original_max_position_embeddings)

    def pair(turns: float) -> float:
        """Return the (fractional) pair that makes so many turns over the original context."""
        return dim * math.log(original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(rope_theta))

    first, last = pair(beta_fast), pair(beta_slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    width = last - first if first != last else 0.001
    ramp = np.clip((np.arange(dim // 2) - first) / width, 0, 1)
    plain = _plain(dim, rope_theta)
    if attention_factor is None:
        weighed = (mscale, mscale_all_dim) if mscale and mscale_all_dim else (1.0, 0.0)
        attention_factor = _yarn_scale(stretch, weighed[0]) / _yarn_scale(stretch, weighed[1])
    return Frequencies(plain / stretch * ramp + plain * (1 - ramp), attention_factor)


def _yarn_scale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _stretch(factor: float | None, longest: int | None, original: int) -> float:
    """Return the factor, or what the two contexts say it is."""
    if factor is not None:
        return factor
    if longest is None:
        raise ValueError("factor is not given: give -p factor=VALUE, or max_position_embeddings")
    return longest / original


@rope_type("longrope", paper="arXiv:2402.13753", by_length=True)
def longrope(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
) -> Frequencies:
    """Divide each frequency by a factor of its own: by one set up to the original context, by another beyond it."""
    for name, factors in (("short_factor", short_factor), ("long_factor", long_factor)):
        if len(factors) != dim // 2:
            raise ValueError(f"{name} must have {dim // 2} numbers, one a pair of {dim} features, got {len(factors)}")
    original = original_max_position_embeddings
    stretch = _stretch(factor, max_position_embeddings, original)
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0
    divisors = np.asarray(long_factor if length > original else short_factor, np.float64)
    return Frequencies(_plain(dim, rope_theta) / divisors, attention_factor)


@rope_type("llama3", paper="arXiv:2407.21783")
def llama3(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Frequencies:
    """Interpolate pairs of long wavelength, leave those of short, and blend those between."""
    if high_freq_factor <= low_freq_factor:
        raise ValueError(
            f"high_freq_factor ({high_freq_factor}) must be greater than low_freq_factor ({low_freq_factor})"
        )
    plain = _plain(dim, rope_theta)
    turns = original_max_position_embeddings * plain / (2 * math.pi)
    blend = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return Frequencies((1 - blend) * plain / factor + blend * plain)


@rope_type("proportional", paper="arXiv:2410.06205 (p-RoPE)")
def proportional(
    dim: int, rope_theta: float, length: int, *, factor: float = 1.0, partial_rotary_factor: float = 1.0
) -> Frequencies:
    """Turn the first share of the pairs, at the frequencies of the whole head, and leave the rest still."""
    if partial_rotary_factor > 1:
        raise ValueError(f"partial_rotary_factor must be at most 1, got {partial_rotary_factor}")
    turning = int(partial_rotary_factor * dim // 2)
    still = np.zeros(dim // 2 - turning)
    return Frequencies(np.concatenate([_plain(2 * turning, rope_theta, dim), still]) / factor)
