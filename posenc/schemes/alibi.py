"""Attention with linear biases (ALiBi, arXiv:2108.12409): a score loses with the distance from its query to its key.

    distance     -slope * |query - key|              the paper
    key           slope * key                        BLOOM, Falcon: positions counted from the attention mask
    last_key      slope * (key - last key)           MPT

A row of each is the same but for a number that softmax does not see, where no key comes after its query. Slopes of n
heads, a power of two, are 2^(-bias_max h / n), h = 1..n; between two powers, those of the lower one and then every
second one of the upper one, as in the paper's code, BLOOM, MPT and Falcon.

Falcon rounds slopes, positions and their product to bfloat16 each: at position 2047 a bias of slope 2^(-1/4) is off by
up to 4. With bfloat16_slopes slopes are rounded as it does, and nothing else.
"""

from functools import partial
from typing import Annotated, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from posenc import reasons
from posenc.encoding import SAME_BITS, Encoding, Probes, Tolerance, too_small
from posenc.formulas.alibi import reference
from posenc.ports import Floats
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sincos.rows import float64_error
from posenc.sources.bias import encode as bias
from posenc.spec import Spec, UnsupportedSpec


class Slopes(nn.Module):
    """A source of biases: a slope for each head, times a whole number for each query and key."""

    slopes: Tensor  # (heads, 1, 1)
    form: Final[str]
    probes = Probes()
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, slopes: Floats, form: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.form = form
        self.steepest = float(np.max(slopes))
        self.half_safe = too_small(self.steepest)
        signed = -slopes if form == "distance" else slopes
        self.register_buffer("slopes", torch.from_numpy(signed[:, None, None]).to(dtype), persistent=False)

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,), (.., .., seq, any) -> (1, heads, seq, seq_k)."""
        query = torch.arange(values.shape[2], dtype=self.count_dtype, device=keys.device) + (
            keys.shape[0] - values.shape[2]
        )
        # (seq,) -> (1, seq, 1), beside keys (seq_k,)
        return self.between(query.unsqueeze(0).unsqueeze(2), keys, None)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of positions: (batch, seq, 1), (batch, 1, seq_k) or (seq_k,) -> (.., heads, seq, seq_k)."""
        if self.form == "distance":
            steps = (key - query).abs()
        else:
            # form=key counts keys from 0, form=last_key from the last: both differ by a constant a query
            row = key if self.form == "key" else key - key[..., key.shape[-1] - 1 :]
            steps = row.expand(query.shape[0], query.shape[1], row.shape[-1])
        # (heads, 1, 1) * (batch, 1, seq, seq_k)
        return self.slopes * steps.unsqueeze(1).to(self.slopes.dtype)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the reference: slope, distance from 2^24 on, and product are rounded."""
        largest = self.steepest * max_position
        roundings = 3 * torch.finfo(self.slopes.dtype).eps / 2
        return Tolerance(atol=roundings * largest + float64_error(1) * largest)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return that a graph's bias has the same bits as this one."""
        return SAME_BITS


@scheme(
    "alibi",
    paper="arXiv:2108.12409",
    formula="bias[h, i, j] = -m_h |i - j|, m_h = 2^(-8 (h + 1) / heads) where heads is a power of two",
    models=("BLOOM", "MPT", "Falcon-RW"),
    samples=({"heads": 4}, {"heads": 6, "form": "key", "output": "bias"}),
    unsupported=Unsupported(methods=reasons.BIAS),
)
def alibi(
    spec: Spec,
    *,
    heads: Annotated[int, minimum(1)] = 8,
    form: Literal["distance", "key", "last_key"] = "distance",
    output: Literal["bias", "scores"] = "scores",
    bias_max: Annotated[float, above(0)] = 8.0,
    scale: Annotated[float, above(0)] = 1.0,
    bfloat16_slopes: bool = False,
) -> Encoding:
    """Attention scores with a slope for each head, times the distance from query to key.

    Args:
        heads: of queries, any number; slopes are those of the paper.
        form: "distance" minus slope * |query - key| (the paper), "key" slope * position of the key (BLOOM, Falcon: with
            positions mask), "last_key" slope * (key - last key) (MPT).
        output: "scores" with the bias, or "bias" itself.
        bias_max: the last of the slopes of n heads is 2^-bias_max (MPT's alibi_bias_max).
        scale: of the bias; Falcon's is 1 / sqrt(head_dim), as it adds the bias before scores are scaled.
        bfloat16_slopes: round slopes to bfloat16, as Falcon does.
    """
    sizes = bias.BiasPorts(output, heads)
    if spec.positions not in WAYS[form]:
        raise UnsupportedSpec(f"form={form} has no {spec.positions} form: {WHY[form]}")
    slopes = slopes_of(heads, bias_max)
    if bfloat16_slopes:
        slopes = torch.from_numpy(slopes).float().bfloat16().double().numpy()
    source = Slopes(scale * slopes, form, getattr(torch, spec.angle_dtype))
    formula = partial(reference, heads=heads, form=form, bias_max=bias_max, scale=scale, bfloat16=bfloat16_slopes)
    return bias.encode(source, spec, sizes, formula=formula)


WAYS = {"distance": ("implicit", "offset", "explicit", "mask"), "key": ("implicit", "mask"), "last_key": ("implicit",)}
"""The ways to give positions that a form looks at."""
WHY = {
    "distance": "",
    "key": "it looks at no query; use --positions implicit or mask",
    "last_key": "it looks at the places of keys alone, padding too; use --positions implicit",
}


def slopes_of(heads: int, bias_max: float) -> Floats:
    """Return the slope of each head: those of the power of two below, then every second one of the power above."""
    power = 1 << (heads.bit_length() - 1)
    exponents = np.concatenate([np.arange(1, power + 1) / power, np.arange(1, 2 * power, 2) / (2 * power)])
    return np.asarray(np.exp2(-bias_max * exponents[:heads]))
