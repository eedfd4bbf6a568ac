"""The relative positions of Transformer-XL (arXiv:1901.02860, appendix B) and XLNet (arXiv:1906.08237).

    R(d)[i] = sin(d / base^(2i / d_model))        R(d)[half + i] = cos(d / base^(2i / d_model))

Rows of distances d from a query back to a key: with `seq` queries, the last of `seq_k` keys,

    causal   seq_k - 1, ..., 0              Transformer-XL: keys are the memory and the call
    uni      seq_k, ..., 0                  XLNet with attn_type uni
    bi       seq_k, ..., 0, ..., 1 - seq    XLNet; a negative distance is that of a key after its query

The scores of a query with these rows, a column for each row, are then shifted: the query before the last needs them one
column later, and so on. Both codes do it by views of other shapes, and leave whatever lies in memory at keys that a
query must not see; here those scores are 0. XLNet's `bi_data` joins two such calls, the second of negative distances,
as training does.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from posenc import reasons
from posenc.arithmetic import larger
from posenc.encoding import Encoding
from posenc.formulas.transformer_xl import KEYS, Attention, reference, shift_reference
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc.ranges import EVEN, above
from posenc.scheme import Unsupported, scheme
from posenc.sincos import inverse_frequencies, sincos
from posenc.sincos.angle_addition import END
from posenc.sources.relative import encode as relative
from posenc.sources.relative.encode import RelativeRows, relative_shift, with_zeros
from posenc.spec import Spec


class Causal(RelativeRows):
    """Distances from the last query back to every key."""

    def forward(self, k: Tensor) -> Tensor:
        """Return the rows: (batch, seq_k, d_model) -> (1, seq_k, d_model)."""
        seq_k = k.shape[1]
        return self.down_from(seq_k - 1, seq_k, seq_k)


class Uni(RelativeRows):
    """Distances from the last query back to every key, and to one more key before the first."""

    def forward(self, k: Tensor) -> Tensor:
        """Return the rows: (batch, seq_k, d_model) -> (1, 1 + seq_k, d_model)."""
        seq_k = k.shape[1]
        return self.down_from(seq_k, seq_k + 1, seq_k + 1)


class Bi(RelativeRows):
    """Distances as in `Uni`, and from the first query on to every query after it."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the rows: (batch, seq, d_model), (batch, seq_k, d_model) -> (1, seq + seq_k, d_model)."""
        seq, seq_k = q.shape[1], k.shape[1]
        check_last(seq, seq_k)
        return self.down_from(seq_k, seq + seq_k, seq_k + 1)


class CausalShift(nn.Module):
    """Scores by distance, from seq_k - 1 down to 0, to scores by key."""

    __constants__ = ("count_dtype",)
    count_dtype = None

    def forward(self, scores: Tensor) -> Tensor:
        """Return scores by key: (batch, heads, seq, seq_k) -> the same."""
        shifted = relative_shift(with_zeros(scores), scores.shape[2] - 1, scores.shape[3])
        return seen(shifted, self.count_dtype)


class UniShift(nn.Module):
    """Scores by distance, from seq_k down to 0, to scores by key."""

    __constants__ = ("count_dtype",)
    count_dtype = None

    def forward(self, scores: Tensor) -> Tensor:
        """Return scores by key: (batch, heads, seq, 1 + seq_k) -> (batch, heads, seq, seq_k)."""
        return seen(relative_shift(scores, scores.shape[2], scores.shape[3] - 1), self.count_dtype)


class BiShift(nn.Module):
    """Scores by distance, from seq_k down to 1 - seq, to scores by key."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return scores by key: (batch, heads, seq, seq + seq_k) -> (batch, heads, seq, seq_k)."""
        seq, seq_k = scores.shape[2], scores.shape[3] - scores.shape[2]
        return relative_shift(scores, seq, larger(scores.shape[3] - 1, seq_k))[:, :, :, :seq_k]


def seen(scores: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return scores (batch, heads, seq, seq_k) with 0 where a key is after its query.

    `dtype` is that of the places that are compared, where it is not int64.
    """
    seq, seq_k = scores.shape[2], scores.shape[3]
    # queries are the last of the keys
    query = (seq_k - seq) + torch.arange(seq, dtype=dtype, device=scores.device)
    # (seq_k,) > (seq, 1): the keys after each query
    after = torch.arange(seq_k, dtype=dtype, device=scores.device) > query.unsqueeze(1)
    return scores.masked_fill(after, 0.0)


def check_last(seq: int, seq_k: int) -> None:
    """Raise ValueError where queries are not the last of the keys."""
    if seq > seq_k:
        raise ValueError("{} queries must be the last of the keys, got {} keys".format(seq, seq_k))


@scheme(
    "transformer_xl",
    paper="arXiv:1901.02860; XLNet (arXiv:1906.08237)",
    formula="R(d)[i] = sin(d / base^(2i / d_model)), R(d)[d_model / 2 + i] = cos(d / base^(2i / d_model))",
    models=("Transformer-XL", "XLNet"),
    samples=(
        {"d_model": 16},
        {"d_model": 6, "attention": "bi", "clamp_len": 5},
        {"attention": "bi", "output": "shift"},
    ),
    unsupported=Unsupported(positions=reasons.DISTANCES),
)
def transformer_xl(
    spec: Spec,
    *,
    d_model: Annotated[int, EVEN] = 512,
    attention: Attention = "causal",
    clamp_len: int | None = None,
    base: Annotated[float, above(1)] = 10000.0,
    output: Literal["rows", "shift"] = "rows",
) -> Encoding:
    """Rows of sines and cosines of distances from queries to keys, or the shift of scores with them to keys.

    Args:
        d_model: features, an even number; the sines come first, then the cosines.
        attention: "causal" distances seq_k-1 .. 0, as Transformer-XL; "uni" seq_k .. 0 and "bi" seq_k .. 1-seq, as
            XLNet.
        clamp_len: distances beyond it are taken for it, and calls have no end.
        base: wavelengths grow geometrically from 2 pi to base * 2 pi.
        output: "rows" for the keys k (and queries q), or "shift" scores with these rows to scores with keys, 0 if
            unseen.
    """
    if clamp_len is not None and not 1 <= clamp_len < END:
        raise ValueError(f"clamp_len must be a distance from 1 to {END - 1}, got {clamp_len}")
    if output == "shift":
        return _shift(spec, attention)
    more = attention != "causal"
    held = spec.max_len + more if clamp_len is None else clamp_len + 1
    source = sincos(replace(spec, max_len=held), inverse_frequencies(d_model, base))
    end = None if clamp_len is not None or source.end is None else source.end - more
    inputs, output_axis = _ports_of_rows(attention, end)
    ports = [Port(name, (BATCH, axis, fixed(d_model)), spec.torch_dtype) for name, axis in inputs.items()]
    kind = {"causal": Causal, "uni": Uni, "bi": Bi}[attention]
    rows = relative.DistanceRows(
        module=kind(source, spec, d_model, interleaved=False, clamp=clamp_len),
        inputs=tuple(ports),
        output=Port("y", (fixed(1, "batch"), output_axis, fixed(d_model)), spec.torch_dtype),
        formula=partial(reference, attention=attention, clamp=clamp_len, d_model=d_model, base=base),
        max_distance=lambda case: case.max_position + more,
        end=end,
        more=int(more),
    )
    return relative.encode(rows, spec)


def _ports_of_rows(attention: Attention, end: int | None) -> tuple[dict[str, Axis], Axis]:
    """Return the lengths of the inputs, and that of the rows."""
    keys = replace(KEYS, most=end)
    formula = {"causal": "seq_k", "uni": "1+seq_k", "bi": "seq+seq_k"}[attention]
    queries = {"q": SEQ} if attention == "bi" else {}
    return {**queries, "k": keys}, Axis(formula, "length")


@dataclass(frozen=True)
class _Lengths:
    """The columns of scores by distance, and those of scores by key."""

    columns: Axis
    keys: Axis


SHIFTS: dict[Attention, tuple[type[nn.Module], _Lengths]] = {
    "causal": (CausalShift, _Lengths(KEYS, KEYS)),
    "uni": (UniShift, _Lengths(Axis("1+seq_k", "length"), KEYS)),
    "bi": (BiShift, _Lengths(Axis("seq+seq_k", "length"), KEYS)),
}


def _shift(spec: Spec, attention: Attention) -> Encoding:
    module, lengths = SHIFTS[attention]
    heads = Axis("head", "heads")
    scores = Port("scores", (BATCH, heads, SEQ, lengths.columns), spec.torch_dtype)
    by_key = Port("by_key", (BATCH, heads, SEQ, lengths.keys), spec.torch_dtype)
    return relative.shift(module(), spec, scores, by_key, partial(shift_reference, attention=attention))
