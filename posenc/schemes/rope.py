"""Rotary position embedding (RoPE, arXiv:2104.09864), with every scaling of its frequencies in use."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from posenc import reference as oracle
from posenc.families.rotary import Heads, cosines, rotary_error, rotary_parity, rotating
from posenc.families.rotary_angles import DynamicNTK, Fixed, Switched
from posenc.rope_types import Rope, RopeTypeName, Scaling
from posenc.scheme import Encoding, Feeds, Form, scheme
from posenc.sincos import angle_addition as angles


@scheme("rope", paper="arXiv:2104.09864", positions="explicit")
def rope(
    form: Form,
    *,
    head_dim: int = 128,
    rotary_dim: int | None = None,
    rope_theta: float = 10000.0,
    rope_type: RopeTypeName = "default",
    layout: Literal["halves", "interleaved"] = "halves",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
    **scaling: Unpack[Scaling],
) -> Encoding:
    """Queries and keys turned by position x frequency, pair by pair.

    head_dim: features of a head.
    rotary_dim: features that turn, the first ones; the others pass [default: all].
    rope_theta: the base of the frequencies.
    rope_type: how frequencies are scaled; each type takes parameters of its own, as in transformers.
    layout: which features are a pair: "halves" i and i + rotary_dim / 2, "interleaved" 2 i and 2 i + 1.
    tensor_layout: "bhsd" (batch, head, seq, dim) or "bshd" (batch, seq, head, dim).
    output: "rotate" q and k, or "cos_sin" the cosines and sines at positions.
    width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers returns.
    """
    heads = Heads(head_dim, head_dim if rotary_dim is None else rotary_dim, layout, tensor_layout)
    turning = Rope(rope_type, heads.rotary_dim, rope_theta, scaling)
    factor = turning.at(form.max_len).attention_factor
    method = form.lowering
    turns = turns_of(turning, form, method)
    unbounded = isinstance(turns, DynamicNTK)
    limit = None if unbounded else angles.limit_of(form)
    trials = angles.trials_of(replace(form, method="trig") if unbounded else form)
    if output == "rotate":
        module, inputs, outputs = rotating(turns, form, heads, limit=limit)
    else:
        module, inputs, outputs = cosines(turns, form, heads, full=width == "full", limit=limit)
    return Encoding(
        module=module,
        inputs=inputs,
        outputs=outputs,
        truth=partial(truth, form, heads=heads, turning=turning, full=width == "full"),
        error=partial(rotary_error, method, form, output, factor),
        parity=partial(rotary_parity, "computed" if unbounded else method, form, output),
        positions=form.positions,
        limit=limit,
        ends=(*trials.get("ends", ()), *turning.edges),
        scattered=trials.get("scattered", ()),
    )


def turns_of(rope: Rope, form: Form, method: str) -> nn.Module:
    """Return what turns by the frequencies of a rope type; a table holds those of a call as long as it is."""
    dtype = getattr(torch, form.angle_dtype)
    found = rope.at(form.max_len)
    how: dict[str, Any] = {"dtype": dtype, "max_len": form.max_len, "scale": found.attention_factor}
    if method == "table" or not rope.by_length:
        return Fixed(angles.lowering(method, found.inv_freq, **how), rope.dim)
    if rope.rope_type == "longrope":
        original = rope.scaling["original_max_position_embeddings"]
        both = np.concatenate([rope.at(original).inv_freq, rope.at(original + 1).inv_freq])
        return Switched(angles.lowering(method, both, **how), original)
    return DynamicNTK(
        rope.dim,
        rope.rope_theta,
        factor=rope.scaling["factor"],
        original=rope.scaling["max_position_embeddings"],
        exact=method == "exact",
        dtype=dtype,
    )


def truth(
    form: Form, feeds: Feeds, rows: NDArray[np.int64] | None = None, *, heads: Heads, turning: Rope, full: bool
) -> dict[str, NDArray[Any]]:
    """Return the outputs in float64, from the frequencies of the call's own length, at every position."""
    seq_axis, head_axis = (2, 1) if heads.tensor_layout == "bhsd" else (1, 2)
    positions = oracle.told_positions(form, feeds, seq_axis)
    length = form.max_len if form.mode == "baked" else int(positions.max()) + 1
    found = turning.at(length)
    angle = positions[..., None].astype(np.float64) * found.inv_freq
    if "q" not in feeds:
        return oracle.cos_sin(angle, found.attention_factor, layout=heads.layout, full=full)
    turn = partial(oracle.turned, layout=heads.layout, head_axis=head_axis)
    return {f"{n}_rotated": turn(feeds[n], angle, found.attention_factor) for n in ("q", "k")}
