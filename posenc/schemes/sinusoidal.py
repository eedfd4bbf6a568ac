"""The sinusoidal encoding of "Attention Is All You Need" (arXiv:1706.03762, section 3.5).

PE(p, 2i) = sin(p / base^(2i / d_model))        PE(p, 2i + 1) = cos(p / base^(2i / d_model))
"""

from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.families.additive import additive
from posenc.scheme import Encoding, Feeds, Form, rounding, scheme
from posenc.sincos import angle_addition as angles


@scheme("sinusoidal", paper="arXiv:1706.03762")
def sinusoidal(
    form: Form,
    *,
    d_model: int | Literal["auto"] = 512,
    base: float = 10000.0,
    layout: Literal["interleaved", "halves"] = "interleaved",
    output: Literal["add", "rows", "table"] = "add",
    strict_even: bool = False,
) -> Encoding:
    """Sines and cosines of position / base^(2i / d_model).

    d_model: features, odd ones too; "auto" takes them from each x (dynamic with --method trig only).
    base: wavelengths grow geometrically from 2 pi to base * 2 pi.
    layout: "interleaved" sin, cos, sin, cos, ... or "halves" all sines, then all cosines.
    output: "add" x + PE, "rows" PE at the positions, "table" the whole table with no input.
    strict_even: refuse an odd d_model.
    """
    _check(d_model, base, strict_even)
    method = form.lowering
    if d_model == "auto" and method != "trig":
        raise ValueError("d_model=auto has no table to store: it takes --dynamic --method trig")
    width = None if d_model == "auto" else d_model
    limit = angles.limit_of(form)
    source = _source(form, method, width, base, layout == "interleaved")
    module, inputs, outputs = additive(source, form, output, width, limit)
    rounded = rounding(form, output == "add")
    return Encoding(
        module=module,
        inputs=inputs,
        outputs=outputs,
        truth=partial(truth, form, d_model=d_model, base=base, layout=layout, output=output),
        error=partial(angles.angle_tolerance, method, form.angle_dtype, rounded),
        parity=partial(angles.angle_parity, method, form.angle_dtype, rounded),
        positions=form.positions,
        limit=limit,
        **angles.trials_of(form),
    )


def _check(d_model: int | str, base: float, strict_even: bool) -> None:
    if isinstance(d_model, int) and d_model < 1:
        raise ValueError(f"d_model must be at least 1, got {d_model}")
    if isinstance(d_model, int) and strict_even and d_model % 2:
        raise ValueError(f"d_model must be even with strict_even, got {d_model}")
    if not (base > 1 and np.isfinite(base)):
        raise ValueError(f"base must be a finite number above 1, got {base}")


def _source(form: Form, method: str, width: int | None, base: float, interleaved: bool) -> torch.nn.Module:
    dtype = getattr(torch, form.angle_dtype)
    if width is None:
        return angles.SelfAdjustingTrig(base, interleaved=interleaved, dtype=dtype)
    inv_freq = angles.inverse_frequencies(width, base)
    return angles.lowering(method, inv_freq, dtype=dtype, max_len=form.max_len, width=width, interleaved=interleaved)


def truth(
    form: Form, feeds: Feeds, at: NDArray[np.int64] | None = None, *, d_model: int | str, base: float, **how: str
) -> dict[str, NDArray[Any]]:
    """Return the output in float64 from the formula alone, at every position of seq or at the indices `at`."""
    rows = slice(None) if at is None else at
    x = feeds.get("x")
    d = x.shape[2] if x is not None else d_model
    assert isinstance(d, int)
    column = np.arange(d)
    pair, is_cosine = column // 2, column % 2 == 1
    if how["layout"] == "halves":
        sines = (d + 1) // 2
        pair, is_cosine = np.where(column < sines, column, column - sines), column >= sines
    positions = _positions(form, feeds)[..., rows, None].astype(np.float64)
    angle = positions / np.power(float(base), 2.0 * pair / d)
    y = np.where(is_cosine, np.cos(angle), np.sin(angle))
    return {"y": y if how["output"] != "add" or x is None else x[:, rows].astype(np.float64) + y}


def _positions(form: Form, feeds: Feeds) -> NDArray[np.int64]:
    """Return the positions of a call: (seq,) for the whole table, else (1 or batch, seq)."""
    if "positions" in feeds:
        return feeds["positions"]
    if "x" not in feeds:
        return np.arange(form.max_len)
    start = int(feeds["start"][0]) if "start" in feeds else 0
    return start + np.arange(feeds["x"].shape[1])[None, :]
