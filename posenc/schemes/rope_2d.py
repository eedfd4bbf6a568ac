"""Axial rotary position embedding for images: half of the pairs turn by the row, half by the column.

Sources: Heo et al., arXiv:2403.13298; Qwen2-VL's vision tower (halves); EVA-02, arXiv:2303.11331 (interleaved).
"""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from posenc import reference as oracle
from posenc.families.rotary import Heads, RotateGrid, cosines, rotary_error, rotary_parity, rotating
from posenc.families.rotary_angles import Axial
from posenc.rope_types import Rope
from posenc.scheme import Encoding, Feeds, Form, Port, scheme
from posenc.sincos import angle_addition as angles


@scheme(
    "rope_2d",
    paper="arXiv:2403.13298",
    unsupported={"offset": "a grid has no first position to shift; give both with --positions explicit"},
)
def rope_2d(
    form: Form,
    *,
    head_dim: int = 64,
    rope_theta: float = 10000.0,
    layout: Literal["halves", "interleaved"] = "halves",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
) -> Encoding:
    """Queries and keys of image patches turned by row and column; implicit positions are those of a grid of any size.

    head_dim: features of a head, a multiple of four; a quarter of them turn by the row, and so on, in pairs.
    rope_theta: the base of the frequencies, the same for rows and columns.
    layout: which features are a pair: "halves" i and i + head_dim / 2, "interleaved" 2 i and 2 i + 1.
    tensor_layout: "bhsd" (batch, head, height, width, dim) or "bshd" (batch, height, width, head, dim).
    output: "rotate" q and k, or "cos_sin" the cosines and sines at explicit positions (2, batch, seq).
    width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers returns.
    """
    heads = Heads(head_dim, head_dim, layout, tensor_layout)
    if head_dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4, half for rows and half for columns, got {head_dim}")
    inv_freq = Rope("default", head_dim // 2, rope_theta, {}).at(1).inv_freq
    method = form.lowering
    limit = angles.limit_of(form)
    dtype = getattr(torch, form.angle_dtype)
    either = angles.lowering(method, inv_freq, dtype=dtype, max_len=form.max_len)  # rows and columns share a table
    turns = Axial([either, either], [head_dim // 2] * 2)
    if output == "cos_sin":
        if form.positions != "explicit":
            raise ValueError("output=cos_sin of rope_2d takes --positions explicit")
        module, inputs, outputs = cosines(turns, form, heads, full=width == "full", limit=limit, axes=2)
    elif form.positions == "explicit":
        module, inputs, outputs = rotating(turns, form, heads, limit=limit, axes=2)
    else:
        q, k = (
            Port(n, heads.axes(head, "height", "width"), form.torch_dtype)
            for n, head in (("q", "head"), ("k", "head_kv"))
        )
        module, inputs = RotateGrid(turns, heads.rotate(), q.axes.index("height")), (q, k)
        outputs = (replace(q, name="q_rotated"), replace(k, name="k_rotated"))
    return Encoding(
        module=module,
        inputs=inputs,
        outputs=outputs,
        truth=partial(truth, heads=heads, rope_theta=rope_theta, full=width == "full"),
        error=partial(rotary_error, method, form, output, 1.0),
        parity=partial(rotary_parity, method, form, output),
        positions=form.positions,
        limit=limit,
        **angles.trials_of(form),
    )


def truth(
    feeds: Feeds, rows: NDArray[np.int64] | None = None, *, heads: Heads, rope_theta: float, full: bool
) -> dict[str, NDArray[Any]]:
    """Return the outputs in float64: row and column times frequency, at every place."""
    quarter = heads.head_dim // 4
    inv_freq = np.power(float(rope_theta), -np.arange(quarter) / quarter)
    if "positions" in feeds:
        places = feeds["positions"]
    else:
        first = 2 if heads.tensor_layout == "bhsd" else 1
        places = np.indices(feeds["q"].shape[first : first + 2])[:, None]  # (2, 1, height, width)
    angle = np.concatenate([places[0][..., None] * inv_freq, places[1][..., None] * inv_freq], -1)
    if "q" not in feeds:
        return oracle.cos_sin(angle, 1.0, layout=heads.layout, full=full)
    turn = partial(oracle.turned, layout=heads.layout, head_axis=1 if heads.tensor_layout == "bhsd" else -2)
    return {f"{n}_rotated": turn(feeds[n], angle, 1.0) for n in ("q", "k")}
