"""xPos: rotary position embedding whose scores fade with distance (Sun et al., arXiv:2212.10554, section 2).

With zeta_i = (2 i / d + gamma) / (1 + gamma), a query at position n is rotated and scaled by zeta^(n / scale_base), a
key by the inverse, so that their product has zeta^((n - m) / scale_base): at most 1 for keys that came before.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch

from posenc.encoding import Encoding
from posenc.formulas.parts import rotation
from posenc.formulas.xpos import XposParameters, reference
from posenc.joins.apply_rotary import Heads
from posenc.ranges import EVEN, above
from posenc.rope_types import Rope
from posenc.scheme import TRIED, scheme
from posenc.sincos import check_table, sincos
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.angles import StaticAngles
from posenc.sources.rotary.xpos import Fade, XPosAngles
from posenc.spec import Spec

HEADROOM = 64
"""The largest key that does not overflow when it is multiplied by its scale."""
MAX_RADIUS = 2**19
"""Positions on either side of the center for which a scale is stored at most, whatever the dtype holds."""


@scheme(
    "xpos",
    paper="arXiv:2212.10554",
    formula="as rope, and pair i of q times z^(p/s), of k times z^(-p/s), z = (2i/d + gamma) / (1 + gamma)",
    models=("LEX Transformer", "TorchScale"),
    positions="explicit",
    not_held={"radius_of": TRIED},
    samples=(
        {"head_dim": 16},
        {"head_dim": 16, "center": "length"},
        {"head_dim": 16, "center": 40, "scale_base": 100.0},
    ),
)
def xpos(
    spec: Spec,
    *,
    head_dim: Annotated[int, EVEN] = 128,
    rope_theta: Annotated[float, above(1)] = 10000.0,
    gamma: Annotated[float, above(0)] = 0.4,
    scale_base: Annotated[float, above(0)] = 512.0,
    center: int | Literal["length"] = 0,
    layout: Literal["halves", "interleaved"] = "interleaved",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
) -> Encoding:
    """Queries and keys rotated as by RoPE, and scaled so that their product fades with distance.

    Args:
        head_dim: features of a head.
        rope_theta: the base of the frequencies.
        gamma: the larger, the less pairs fade; zeta runs from gamma / (1 + gamma) to nearly 1.
        scale_base: positions over which a pair fades by its zeta.
        center: the position where the scale is 1, 0 in the paper, or "length" for half the call's length, as in the
            authors' code; keys cached at one length then do not fit queries of another.
        layout: which features are a pair: "halves" i and i + head_dim / 2, "interleaved" 2 i and 2 i + 1.
        tensor_layout: "bhsd" (batch, head, seq, dim) or "bshd" (batch, seq, head, dim).
    """
    heads = Heads(head_dim, head_dim, layout, tensor_layout)
    if isinstance(center, int) and center < 0:
        raise ValueError(f"center must be at least 0, or length, got {center}")
    check_table(spec, head_dim)
    fade = _fade(spec, head_dim, gamma, scale_base, None if center == "length" else center)
    _check_fits(spec, fade)
    inv_freq = Rope("default", head_dim, rope_theta, {}).at(1).inv_freq
    angles = XPosAngles(StaticAngles(sincos(spec, inv_freq)), fade, getattr(torch, spec.angle_dtype))
    parameters = XposParameters(head_dim, rope_theta, gamma, scale_base, center)
    formula = partial(reference, parameters=parameters, pairs=rotation.Pairs(layout, tensor_layout))
    return rotary.encode(angles, spec, heads, rotary.RotaryOutput(), formula=formula)


def _fade(spec: Spec, head_dim: int, gamma: float, scale_base: float, center: int | None) -> Fade:
    zeta = (np.arange(0, head_dim, 2) / head_dim + gamma) / (1 + gamma)
    if not zeta[0] < 1:
        raise ValueError(f"gamma is too large for anything to fade: got {gamma}")
    slowest = float(zeta[0])
    in_half = radius_of(replace(spec, dtype="fp16"), slowest, scale_base)
    return Fade(zeta, scale_base, center, radius_of(spec, slowest, scale_base), in_half)


def radius_of(spec: Spec, slowest: float, scale_base: float) -> int:
    """Return the distance from the center up to which a scale fits the output's dtype, a multiple of 64 positions."""
    largest = float(torch.finfo(getattr(torch, spec.torch_dtype)).max)
    radius = int(scale_base * math.log(largest / HEADROOM) / -math.log(slowest))
    return max(64, min(radius, MAX_RADIUS) // 64 * 64)


def _check_fits(spec: Spec, fade: Fade) -> None:
    """Raise ValueError where the center, or a table's last position, is too far out for the dtype."""
    if fade.center is not None and fade.center > fade.radius:
        raise ValueError(
            f"center must be at most {fade.radius}, from where position 0 still fits {spec.dtype}, got {fade.center}"
        )
    if spec.max_len > fade.end:
        raise ValueError(
            f"max_len must be at most {fade.end}, got {spec.max_len}: from there on the scale of a key does not fit "
            f"{spec.dtype}; raise scale_base or center"
        )
