"""Multimodal RoPE: a token has several positions (time, height, width), each turning pairs of its own.

Sources: Qwen2-VL, arXiv:2409.12191 (sectioned); Qwen3-VL, arXiv:2511.21631 (interleaved).
"""

from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from posenc import reference as oracle
from posenc.families.rotary import Heads, cosines, rotary_error, rotary_parity, rotating
from posenc.families.rotary_angles import Axial
from posenc.rope_types import Rope, RopeTypeName, Scaling
from posenc.scheme import Encoding, Feeds, Form, scheme
from posenc.sincos import angle_addition as angles

ONE_POSITION = "each token has several positions; of text alone all are equal, which is the scheme rope"


@scheme(
    "mrope",
    paper="arXiv:2409.12191",
    positions="explicit",
    unsupported={"implicit": ONE_POSITION, "offset": ONE_POSITION},
)
def mrope(
    form: Form,
    *,
    head_dim: int = 128,
    rotary_dim: int | None = None,
    sections: tuple[int, ...] = (16, 24, 24),
    section_layout: Literal["sectioned", "interleaved"] = "sectioned",
    rope_theta: float = 1000000.0,
    rope_type: RopeTypeName = "default",
    layout: Literal["halves", "interleaved"] = "halves",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
    **scaling: Unpack[Scaling],
) -> Encoding:
    """Queries and keys turned by several positions a token: time, height and width.

    head_dim: features of a head.
    rotary_dim: features that turn, the first ones; the others pass [default: all].
    sections: how many pairs turn by each position, of rotary_dim / 2 in all.
    section_layout: "sectioned" one run of pairs after the other (Qwen2-VL), "interleaved" by turns (Qwen3-VL).
    rope_theta: the base of the frequencies.
    rope_type: how frequencies are scaled; not by types that depend on the length of a call.
    layout: which features are a pair: "halves" i and i + rotary_dim / 2, "interleaved" 2 i and 2 i + 1.
    tensor_layout: "bhsd" (batch, head, seq, dim) or "bshd" (batch, seq, head, dim).
    output: "rotate" q and k, or "cos_sin" the cosines and sines at positions.
    width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers returns.
    """
    heads = Heads(head_dim, head_dim if rotary_dim is None else rotary_dim, layout, tensor_layout)
    rope = Rope(rope_type, heads.rotary_dim, rope_theta, scaling)
    if rope.by_length:
        raise ValueError(f"rope_type={rope_type} depends on a call's length, and mrope has several: use rope, or yarn")
    axis_of_pair = axes_of_pairs(sections, section_layout, heads.rotary_dim // 2)
    found = rope.at(form.max_len)
    method = form.lowering
    limit = angles.limit_of(form)
    how: dict[str, Any] = {
        "dtype": getattr(torch, form.angle_dtype),
        "max_len": form.max_len,
        "scale": found.attention_factor,
    }
    parts = [found.inv_freq[axis_of_pair == axis] for axis in range(3)]
    order = np.argsort(axis_of_pair, kind="stable")
    turns = Axial(
        [angles.lowering(method, part, **how) for part in parts],
        [2 * len(part) for part in parts],
        None if np.all(order == np.arange(len(order))) else order,
    )
    if output == "rotate":
        module, inputs, outputs = rotating(turns, form, heads, limit=limit, axes=3)
    else:
        module, inputs, outputs = cosines(turns, form, heads, full=width == "full", limit=limit, axes=3)
    return Encoding(
        module=module,
        inputs=inputs,
        outputs=outputs,
        truth=partial(truth, heads=heads, rope=rope, axis_of_pair=axis_of_pair, full=width == "full"),
        error=partial(rotary_error, method, form, output, found.attention_factor),
        parity=partial(rotary_parity, method, form, output),
        positions=form.positions,
        limit=limit,
        **angles.trials_of(form),
    )


def axes_of_pairs(sections: tuple[int, ...], section_layout: str, pairs: int) -> NDArray[np.int64]:
    """Return which of the three positions each pair turns by: (pairs,) of 0, 1, 2.

    sectioned     0 0 0 1 1 1 2 2 2; a fourth section is time again          interleaved   0 1 2 0 1 2 0 0 0
    """
    told = ",".join(map(str, sections))
    if min(sections) < 1 or sum(sections) != pairs:
        raise ValueError(f"sections must be at least 1 each and sum to the {pairs} pairs that turn, got {told}")
    if section_layout == "sectioned":
        if len(sections) < 3:
            raise ValueError(f"sections must be at least three, for time, height and width, got {told}")
        return np.repeat(np.arange(len(sections)) % 3, sections)
    axes = np.zeros(pairs, np.int64)
    for axis, section in enumerate(sections[1:3], start=1):
        axes[axis : 3 * section : 3] = axis
    if len(sections) != 3 or tuple(np.bincount(axes, minlength=3)) != tuple(sections):
        raise ValueError(f"interleaved sections must be three, with height and width at most a third, got {told}")
    return axes


def truth(
    feeds: Feeds,
    rows: NDArray[np.int64] | None = None,
    *,
    heads: Heads,
    rope: Rope,
    axis_of_pair: NDArray[np.int64],
    full: bool,
) -> dict[str, NDArray[Any]]:
    """Return the outputs in float64: each pair's own position times its frequency, at every position of seq."""
    found = rope.at(1)
    angle = np.moveaxis(feeds["positions"][axis_of_pair], 0, -1) * found.inv_freq
    if "q" not in feeds:
        return oracle.cos_sin(angle, found.attention_factor, layout=heads.layout, full=full)
    turn = partial(oracle.turned, layout=heads.layout, head_axis=1 if heads.tensor_layout == "bhsd" else 2)
    return {f"{n}_rotated": turn(feeds[n], angle, found.attention_factor) for n in ("q", "k")}
