"""Relative positions of Conformers (arXiv:2005.08100), which have those of Transformer-XL (arXiv:1901.02860), by code.

    R(d)[2i] = sin(d / base^(2i / d_model))        R(d)[2i + 1] = cos(d / base^(2i / d_model))

The distances d of a call of `seq` frames, first row to last, and the codes that have them so:

    both         seq-1, ..., 0, ..., 1-seq    ESPnet's RelPositionalEncoding, NeMo's, Wav2Vec2-Conformer, SeamlessM4T,
                                              FastSpeech2-Conformer, Parakeet, Nemotron streaming (x holds the cached
                                              frames, too)
    descending   seq-1, ..., 0                ESPnet's LegacyRelPositionalEncoding, which stores `stored` rows (5000)
                                              and takes the first ones: with it, stored-1, ..., stored-seq
    ascending    0, ..., seq-1                wenet's RelPositionalEncoding; a chunk begins at `start`
    chunk        past, ..., 0, ..., -future   Gemma 3n's and Gemma 4's audio: the same rows for each chunk of a call,
                                              all sines, then all cosines of d / base^(i / (d_model / 2 - 1))

The scores of queries with the rows of `both`, a column for each, are then shifted: the last query has its keys from the
first column on, the one before it from the second on. There may be more keys than queries, or fewer.

Parakeet ends at 5000 frames, and so does wenet; here a graph that is not baked ends at 2^24. ESPnet, wenet and NeMo
scale x by sqrt(d_model), too; a caller does that.
"""

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc import reasons
from posenc.call import Call, Formula
from posenc.encoding import Encoding
from posenc.formulas.conformer_relative import chunk_shift_reference, of_chunk, shift_reference
from posenc.formulas.parts.rows import waves
from posenc.joins.rows import RowsOutput
from posenc.ports import BATCH, SEQ, Array, Axis, Floats, Port, fixed
from posenc.ranges import EVEN, above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sincos import SinCosMethod, inverse_frequencies, sincos
from posenc.sincos.angle_addition import END
from posenc.sources.relative import encode as relative
from posenc.sources.relative.conformer import Both, BothShift, Chunk, ChunkShift, Descending, DescendingRows
from posenc.sources.relative.encode import RelativeRows
from posenc.sources.rows import additive
from posenc.spec import Spec, UnsupportedSpec

Style = Literal["both", "descending", "ascending", "chunk"]


@scheme(
    "conformer_relative",
    paper="arXiv:2005.08100; arXiv:1901.02860, appendix B",
    formula="R(d)[2i] = sin(d / base^(2i / d_model)), R(d)[2i + 1] = cos(d / base^(2i / d_model))",
    models=(
        "ESPnet",
        "wenet",
        "NeMo",
        "Parakeet",
        "Wav2Vec2-Conformer",
        "SeamlessM4T",
        "Gemma 3n audio",
        "Gemma 4 audio",
    ),
    samples=(
        {"d_model": 16},
        {"d_model": 6, "style": "descending", "stored": 20},
        {"output": "shift"},
        {"style": "chunk", "past": 2, "future": 1, "chunk": 3, "output": "shift"},
    ),
    unsupported=Unsupported(positions={name: reasons.DISTANCES[name] for name in ("explicit", "mask")}),
)
def conformer_relative(
    spec: Spec,
    *,
    d_model: Annotated[int, EVEN] = 512,
    style: Style = "both",
    base: Annotated[float, above(1)] = 10000.0,
    stored: int | None = None,
    past: Annotated[int, minimum(0)] = 12,
    future: Annotated[int, minimum(0)] = 0,
    chunk: Annotated[int, minimum(1)] = 12,
    output: Literal["rows", "shift"] = "rows",
) -> Encoding:
    """Rows of sines and cosines of distances between frames, as the codes of Conformers have them.

    Args:
        d_model: features, an even number.
        style: "both" seq-1 .. 1-seq (ESPnet, NeMo, Parakeet), "descending" seq-1 .. 0 (ESPnet's legacy), "ascending" 0
            .. seq-1 (wenet), "chunk" past .. -future (Gemma 3n and 4).
        base: wavelengths grow geometrically from 2 pi to base * 2 pi.
        stored: of descending: rows of a table of which the first are taken; 5000 in ESPnet [default: as many as there
            are].
        past: of chunk: keys before a query (attention_context_left - 1).
        future: of chunk: keys after a query (attention_context_right).
        chunk: of chunk: queries of one, for the shift.
        output: "rows", or of both and chunk "shift", scores with these rows to scores with the keys of a call, or of a
            chunk and its context.
    """
    _check(style, stored, (past, future, chunk))
    _check_spec(spec, style, output)
    if output == "shift":
        return _shift(spec) if style == "both" else _chunk_shift(spec, past + 1 + future, chunk)
    if style == "chunk":
        return _chunk(spec, past, future, d_model, base)
    # ESPnet takes the first rows of a table that may be longer than any call
    table = replace(spec, max_len=max(spec.max_len, stored or 0))
    source = sincos(table, inverse_frequencies(d_model, base), interleaved=True)
    if style == "ascending":
        rows = partial(ascending, d_model=d_model, base=base)
        return additive.encode(source, spec, RowsOutput("rows", d_model), formula=rows)
    two_sided = style == "both"
    formula = partial(of_frames, two_sided=two_sided, stored=stored or 0, d_model=d_model, base=base)
    return _of_frames(source, spec, two_sided, stored, formula)


def _check(style: Style, stored: int | None, chunk: tuple[int, int, int]) -> None:
    if stored is not None and (style != "descending" or not 1 <= stored <= END):
        raise ValueError(f"stored is a number of rows of style=descending, from 1 to {END}, got {stored} with {style}")
    # a chunk and its context are one row of distances, which has to fit
    if sum(chunk) >= END:
        raise ValueError(f"past, future and chunk must be below {END} in sum, got {chunk}")


def _check_spec(spec: Spec, style: Style, output: str) -> None:
    """Raise UnsupportedSpec for what a style has no form of."""
    if spec.positions != "implicit" and style != "ascending":
        raise UnsupportedSpec(f"style={style} has no {spec.positions} form: {reasons.DISTANCES['offset']}")
    if output == "shift" and style not in ("both", "chunk"):
        raise UnsupportedSpec(f"output=shift is of style=both or chunk, got {style}: its rows are of one side")
    if style == "chunk" and output == "rows" and spec.mode == "dynamic":
        raise UnsupportedSpec("rows of style=chunk are a constant: they take --baked")


def _of_frames(source: SinCosMethod, spec: Spec, two_sided: bool, stored: int | None, formula: Formula) -> Encoding:
    """Return the encoding of the distances of a call's frames."""
    d_model = source.width
    module: RelativeRows = (Both if two_sided else Descending)(source, spec, d_model, interleaved=True)
    if stored is not None:
        module = DescendingRows(source, spec, d_model, stored=stored)
    frames = replace(SEQ, most=source.end)
    x = Port("x", (BATCH, frames, fixed(d_model)), spec.torch_dtype)
    # from seq - 1 to 1 - seq
    length = Axis("-1+2*seq", "length") if two_sided else frames
    rows = relative.DistanceRows(
        module=module,
        inputs=(x,),
        output=Port("y", (fixed(1, "batch"), length, fixed(d_model)), spec.torch_dtype),
        formula=formula,
        max_distance=lambda case: max(case.max_position, (stored or 1) - 1),
        end=source.end,
    )
    return relative.encode(rows, spec)


def _chunk(spec: Spec, past: int, future: int, d_model: int, base: float) -> Encoding:
    """Return the encoding of the distances within a chunk and its context: one array."""
    # sines of a distance behind are those ahead with another sign: one table serves both
    farthest = max(past, future)
    source = sincos(replace(spec, max_len=farthest + 1), timescales(d_model, base))
    length = fixed(past + 1 + future, "length")
    rows = relative.DistanceRows(
        module=Chunk(source, spec, d_model, past=past, future=future),
        inputs=(),
        output=Port("y", (fixed(1, "batch"), length, fixed(d_model)), spec.torch_dtype),
        formula=partial(of_chunk, past=past, future=future, d_model=d_model, base=base),
        max_distance=lambda case: farthest,
        end=None,
    )
    return relative.encode(rows, spec)


def timescales(d_model: int, base: float) -> Floats:
    """Return frequencies from 1 down to 1 / base itself: (pairs,)."""
    pairs = d_model // 2
    return np.asarray(base ** (-np.arange(pairs) / max(pairs - 1, 1)))


def of_frames(call: Call, *, two_sided: bool, stored: int, d_model: int, base: float) -> tuple[Array]:
    """Return the rows of a call in float64 from the formula."""
    seq = call.sizes[SEQ.name]
    # a stored table begins at its own farthest distance
    farthest = max(seq, stored) - 1
    distance = np.arange(farthest, -seq, -1) if two_sided else farthest - np.arange(seq)
    return (waves(distance, base ** -(2.0 * np.arange(d_model // 2) / d_model), interleaved=True),)


def ascending(call: Call, *, d_model: int, base: float) -> tuple[Array]:
    """Return the rows of a call in float64 from the formula, at the positions that are wanted."""
    inv_freq = base ** -(2.0 * np.arange(d_model // 2) / d_model)
    return (waves(call.positions[0, call.picked], inv_freq, interleaved=True),)


def _shift(spec: Spec) -> Encoding:
    """Return the encoding that sends scores by distance to those by key, of a whole call."""
    some = (BATCH, Axis("head", "heads"), SEQ)
    scores = Port("scores", (*some, Axis("-1+seq+seq_k", "length")), spec.torch_dtype)
    by_key = Port("by_key", (*some, Axis("seq_k", "length")), spec.torch_dtype)
    return relative.shift(BothShift(), spec, scores, by_key, shift_reference)


def _chunk_shift(spec: Spec, columns: int, chunk: int) -> Encoding:
    """Return the encoding that sends scores by distance to those by key, of chunks."""
    some = (BATCH, Axis("head", "heads"), Axis("chunks", "length"), fixed(chunk))
    scores = Port("scores", (*some, fixed(columns)), spec.torch_dtype)
    by_key = Port("by_key", (*some, fixed(columns + chunk - 1)), spec.torch_dtype)
    return relative.shift(ChunkShift(), spec, scores, by_key, chunk_shift_reference)
