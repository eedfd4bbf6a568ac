"""xPos: rotary position embedding whose scores fade with distance (Sun et al., arXiv:2212.10554, section 2).

With zeta_i = (2 i / d + gamma) / (1 + gamma), a query at position n is turned and scaled by zeta^(n / scale_base), a
key by the inverse, so that their product has zeta^((n - m) / scale_base): at most 1 for keys that came before.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from posenc import reference as oracle
from posenc.families.rotary import Heads, rotary_error, rotary_parity, rotating
from posenc.families.rotary_angles import Decay, Fixed, PowerDecay, Scaled
from posenc.rope_types import Rope
from posenc.scheme import Encoding, Feeds, Form, Tolerance, eps, scheme
from posenc.sincos import angle_addition as angles

HEADROOM = 64
"""How large keys may be before, times their scale, they overflow."""
MOST = 2**19
"""Positions from its center up to which a scale is stored, whatever the dtype holds."""


@scheme("xpos", paper="arXiv:2212.10554", positions="explicit")
def xpos(
    form: Form,
    *,
    head_dim: int = 128,
    rope_theta: float = 10000.0,
    gamma: float = 0.4,
    scale_base: float = 512.0,
    center: int | Literal["length"] = 0,
    layout: Literal["halves", "interleaved"] = "interleaved",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
) -> Encoding:
    """Queries and keys turned as by RoPE, and scaled so that their product fades with distance.

    head_dim: features of a head.
    rope_theta: the base of the frequencies.
    gamma: how little the first pair fades; zeta runs from gamma / (1 + gamma) to nearly 1.
    scale_base: positions over which a pair fades by its zeta.
    center: where the scale is 1: a position, as the paper has it at 0, or "length" for half the call's length, as the
        authors' code has it; keys cached at one length then do not fit queries of another.
    layout: which features are a pair: "halves" i and i + head_dim / 2, "interleaved" 2 i and 2 i + 1.
    tensor_layout: "bhsd" (batch, head, seq, dim) or "bshd" (batch, seq, head, dim).
    """
    heads = Heads(head_dim, head_dim, layout, tensor_layout)
    for name, value in (("gamma", gamma), ("scale_base", scale_base)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a finite number above 0, got {value}")
    if center != "length" and center < 0:
        raise ValueError(f"center must be at least 0, or length, got {center}")
    zeta = (np.arange(0, head_dim, 2) / head_dim + gamma) / (1 + gamma)
    middle = None if center == "length" else center
    if not zeta[0] < 1:
        raise ValueError(f"gamma is too large for anything to fade: got {gamma}")
    reach = reach_of(form, float(zeta[0]), scale_base)
    if middle is not None and middle > reach:
        raise ValueError(f"center must be at most {reach}, from where position 0 still fits {form.dtype}, got {center}")
    capacity = min(angles.LIMIT, 2 * reach if middle is None else middle + reach)
    if form.max_len > capacity:
        raise ValueError(
            f"max_len must be at most {capacity}, got {form.max_len}: from there on the scale of a key does not fit "
            f"{form.dtype}; raise scale_base or center"
        )
    method = form.lowering
    limit = capacity if method == "exact" else angles.limit_of(form)
    turns = _turns(form, zeta, rope_theta, (scale_base, middle, reach))
    module, inputs, outputs = rotating(turns, form, heads, limit=limit)
    powers = reach / scale_base * -math.log(zeta[0]) if method == "trig" else 0.0
    return Encoding(
        module=module,
        inputs=inputs,
        outputs=outputs,
        truth=partial(truth, form, heads=heads, rope_theta=rope_theta, fade=(gamma, scale_base, middle)),
        error=lambda last: _scaled(rotary_error(method, form, "rotate", 1.0, last), form, powers),
        parity=lambda last: _scaled(rotary_parity(method, form, "rotate", last), form, powers),
        positions=form.positions,
        limit=limit,
        ends=(capacity,),
    )


def reach_of(form: Form, slowest: float, scale_base: float) -> int:
    """Return how far from its center a scale stays within what the output's dtype holds, in blocks of 64 positions."""
    largest = float(torch.finfo(getattr(torch, form.torch_dtype)).max)
    reach = int(scale_base * math.log(largest / HEADROOM) / -math.log(slowest))
    return max(64, min(reach, MOST) // 64 * 64)


def _turns(form: Form, zeta: NDArray[np.float64], rope_theta: float, scale: tuple[float, int | None, int]) -> nn.Module:
    scale_base, center, reach = scale
    dtype = getattr(torch, form.angle_dtype)
    method = form.lowering
    inv_freq = Rope("default", 2 * len(zeta), rope_theta, {}).at(1).inv_freq
    lowering = angles.lowering(method, inv_freq, dtype=dtype, max_len=form.max_len)
    decay: nn.Module
    if method == "trig":
        decay = PowerDecay(zeta, scale_base, center=center, dtype=dtype)
    else:
        decay = Decay(zeta, scale_base, center=center, reach=reach, dtype=dtype)
    return Scaled(Fixed(lowering, 2 * len(zeta)), decay)


def _scaled(tolerance: Tolerance, form: Form, powers: float) -> Tolerance:
    """Add what a scale may be off by, relative: five roundings, or what a power of so large an exponent is off by."""
    if tolerance.bits:
        return tolerance
    return replace(tolerance, vector=tolerance.vector + (5 + 4 * powers) * eps(form.angle_dtype))


def truth(
    form: Form,
    feeds: Feeds,
    rows: NDArray[np.int64] | None = None,
    *,
    heads: Heads,
    rope_theta: float,
    fade: tuple[float, float, int | None],
) -> dict[str, NDArray[Any]]:
    """Return the outputs in float64, at every position."""
    gamma, scale_base, center = fade
    seq_axis, head_axis = (2, 1) if heads.tensor_layout == "bhsd" else (1, 2)
    positions = oracle.told_positions(form, feeds, seq_axis)[..., None].astype(np.float64)
    i = np.arange(heads.head_dim // 2)
    angle = positions * np.power(float(rope_theta), -2.0 * i / heads.head_dim)
    middle = (int(positions.max()) + 2) // 2 if center is None else center
    zeta = (2 * i / heads.head_dim + gamma) / (1 + gamma)
    scale = np.power(zeta, (positions - middle) / scale_base)
    turn = partial(oracle.turned, layout=heads.layout, head_axis=head_axis)
    return {"q_rotated": turn(feeds["q"], angle, scale), "k_rotated": turn(feeds["k"], angle, 1 / scale)}
