"""Multimodal RoPE: a token has several positions (time, height, width), each of which rotates pairs of its own.

Sources: Qwen2-VL, arXiv:2409.12191 (sectioned); Qwen3-VL, arXiv:2511.21631 (interleaved); ERNIE 4.5 VL, as
transformers 5.23 has it (time_last).
"""

from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc.encoding import Encoding
from posenc.formulas.mrope import PairAxes, reference
from posenc.formulas.parts import rotation
from posenc.joins.apply_rotary import Heads
from posenc.parameters import Value
from posenc.ports import Integers
from posenc.ranges import EVEN, above
from posenc.rope_types import ROPE_TYPES, Rope, scaling_parameters
from posenc.scheme import Unsupported, scheme
from posenc.sincos import check_table, sincos
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.angles import AxialAngles
from posenc.spec import Spec

ONE_POSITION = "each token has several positions; of text alone all are equal, which is the scheme rope"
SMALL: dict[str, Value] = {"head_dim": 16, "sections": (4, 2, 2)}


@scheme(
    "mrope",
    paper="arXiv:2409.12191",
    formula="pair i: (x1, x2) -> (x1 cos a - x2 sin a, x2 cos a + x1 sin a), a = p[axis(i)] theta^(-2i/d)",
    models=("Qwen2-VL", "Qwen2.5-VL", "Qwen3-VL", "GLM-4V", "PaddleOCR-VL", "ERNIE 4.5 VL", "HunYuan-VL"),
    positions="explicit",
    samples=(
        SMALL,
        {**SMALL, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        {**SMALL, "section_layout": "time_last", "layout": "interleaved"},
        {"head_dim": 16, "sections": (1, 3, 2, 2), "section_layout": "features"},
    ),
    unsupported=Unsupported(positions={"implicit": ONE_POSITION, "offset": ONE_POSITION, "mask": ONE_POSITION}),
)
def mrope(
    spec: Spec,
    *,
    head_dim: Annotated[int, EVEN] = 128,
    rotary_dim: Annotated[int | None, EVEN] = None,
    sections: tuple[int, ...] = (16, 24, 24),
    section_layout: Literal["sectioned", "interleaved", "time_last", "features"] = "sectioned",
    rope_theta: Annotated[float, above(1)] = 1000000.0,
    rope_type: Annotated[str, ROPE_TYPES] = "default",
    layout: Literal["halves", "interleaved"] = "halves",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
    **scaling: Annotated[Value, scaling_parameters],
) -> Encoding:
    """Queries and keys rotated by several positions a token: time, height and width.

    Args:
        head_dim: features of a head.
        rotary_dim: features that are rotated, the first ones; the others pass [default: all].
        sections: how many pairs are rotated by time, height and width, of rotary_dim / 2 in all.
        section_layout: "sectioned" one run of pairs after the other (Qwen2-VL), "interleaved" by turns (Qwen3-VL),
            "time_last" height and width by turns, and then time (ERNIE 4.5 VL), "features" runs of twice as many
            features, of two to four positions, so that the two of a pair may turn apart (HunYuan-VL).
        rope_theta: the base of the frequencies.
        rope_type: how frequencies are scaled; not by types that depend on the length of a call.
        layout: which features are a pair: "halves" i and i + rotary_dim / 2, "interleaved" 2 i and 2 i + 1.
        tensor_layout: "bhsd" (batch, head, seq, dim) or "bshd" (batch, seq, head, dim).
        output: "rotate" q and k, or "cos_sin" the cosines and sines at positions.
        width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers
            returns.
    """
    apart = section_layout == "features"
    heads = Heads(head_dim, head_dim if rotary_dim is None else rotary_dim, layout, tensor_layout, apart=apart)
    if apart and (layout != "halves" or (output == "cos_sin" and width != "full")):
        raise ValueError("section_layout=features takes layout=halves, and for cos_sin width=full: a column a feature")
    rope = Rope(rope_type, heads.rotary_dim, rope_theta, scaling)
    if rope.by_length:
        raise ValueError(f"rope_type={rope_type} depends on a call's length, and mrope has several: use rope, or yarn")
    check_table(spec, heads.rotary_dim)
    axis_of_pair = axes_of_pairs(sections, section_layout, heads.rotary_dim // 2)
    exact = partial(ROPE_TYPES[rope_type].reference, rotary_dim or head_dim, rope_theta, 1, **scaling)
    axes = PairAxes(exact, sections, section_layout)
    pairs = rotation.Pairs(layout, tensor_layout, width == "full", apart=apart)
    formula = partial(reference, axes=axes, pairs=pairs)
    output_of = rotary.RotaryOutput(output, width == "full")
    angles = _apart(spec, rope, sections, output) if apart else _angles(spec, rope, axis_of_pair)
    return rotary.encode(angles, spec, heads, output_of, formula=formula)


def _angles(spec: Spec, rope: Rope, axis_of_pair: Integers) -> AxialAngles:
    """Return the angles of three positions: a sincos method for the pairs of each; then all pairs in their order."""
    frequencies = rope.at(spec.max_len)
    parts = [frequencies.inv_freq[axis_of_pair == axis] for axis in range(3)]
    order = np.argsort(axis_of_pair, kind="stable")
    methods = [sincos(spec, part, scale=frequencies.attention_factor) for part in parts]
    return AxialAngles(methods, None if np.all(order == np.arange(len(order))) else order)


def _apart(spec: Spec, rope: Rope, sections: tuple[int, ...], output: str) -> AxialAngles:
    """Return the angles of features, in runs of one position each."""
    frequencies = rope.at(spec.max_len)
    # the sines of first halves are negated here, once: (features,)
    first = -frequencies.inv_freq if output == "rotate" else frequencies.inv_freq
    ends = np.cumsum(sections[:-1]) * 2
    parts = np.split(np.concatenate([first, frequencies.inv_freq]), ends)
    return AxialAngles([sincos(spec, part, scale=frequencies.attention_factor) for part in parts])


def axes_of_pairs(sections: tuple[int, ...], section_layout: str, pairs: int) -> Integers:
    """Return which of the three positions rotates each pair: (pairs,) of 0, 1, 2; of features it is by run.

    sectioned     0 0 0 1 1 1 2 2 2; a fourth section is time again
    interleaved   0 1 2 0 1 2 0 0 0          time_last   1 2 1 2 1 2 0 0 0
    """
    text = ",".join(map(str, sections))
    if min(sections) < 1 or sum(sections) != pairs:
        raise ValueError(f"sections must be at least 1 each and sum to the {pairs} pairs that are rotated, got {text}")
    if section_layout == "features":
        if not 2 <= len(sections) <= 4:
            raise ValueError(f"sections of features must be two to four, one a position, got {text}")
        return np.repeat(np.arange(len(sections)), sections)
    if section_layout == "sectioned":
        if len(sections) < 3:
            raise ValueError(f"sections must be at least three, for time, height and width, got {text}")
        return np.repeat(np.arange(len(sections)) % 3, sections)
    if section_layout == "time_last":
        if len(sections) != 3 or sections[1] != sections[2]:
            raise ValueError(f"time_last sections must be three, with as many of height as of width, got {text}")
        return np.concatenate([np.tile([1, 2], sections[1]), np.zeros(sections[0], np.int64)])
    axes = np.zeros(pairs, np.int64)
    for axis, section in enumerate(sections[1:3], start=1):
        axes[axis : 3 * section : 3] = axis
    if len(sections) != 3 or tuple(np.bincount(axes, minlength=3)) != tuple(sections):
        raise ValueError(f"interleaved sections must be three, with height and width at most a third, got {text}")
    return axes
