"""Multimodal RoPE: a token has several positions (time, height, width), each of which rotates pairs of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Parameter
from posenc.formulas.parts import rotation
from posenc.formulas.parts.frequencies import Frequencies
from posenc.ports import Array


@dataclass(frozen=True)
class PairAxes:
    """The paper's frequencies, and the position that rotates each pair.

    Args:
        exact: makes the frequencies.
        sections: how many pairs each position rotates.
        order: "interleaved" time, height, width, time, ... as far as each goes, then time alone; "time_last" height,
            width, height, ... and then time; "sectioned" section after section; "features" runs of features.
    """

    exact: Callable[[], Frequencies]
    sections: tuple[int, ...]
    order: str

    def position_of(self, pair: int) -> int:
        """Return the index of the position that rotates a pair, as in Qwen's code.

        `apply_multimodal_rotary_pos_emb` of Qwen2-VL splits the pairs and takes piece i from position i % 3;
        `apply_interleaved_mrope` of Qwen3-VL overwrites time at 1, 4, 7, ... by height, at 2, 5, 8, ... by width;
        `recomposition_frequencies` of ERNIE 4.5 VL stacks height and width, pair by pair, and puts time behind them.
        """
        if self.order == "interleaved":
            position = pair % 3
            return position if pair < 3 * self.sections[position] else 0
        if self.order == "time_last":
            return 1 + pair % 2 if pair < sum(self.sections) - self.sections[0] else 0
        piece = 0
        while pair >= sum(self.sections[: piece + 1]):
            piece += 1
        return piece % 3


def reference(call: Call, *, axes: PairAxes, pairs: rotation.Pairs) -> tuple[Array, ...]:
    """Return the outputs in float64: each pair's own position times its frequency, at every position of seq."""
    exact = axes.exact()
    if pairs.apart:
        # features in runs, a run a position; the frequencies are those of both halves
        owners = [axis for axis, section in enumerate(axes.sections) for _ in range(2 * section)]
        twice = [*exact.inv_freq, *exact.inv_freq]
        features = [call.positions[axis] * radians for axis, radians in zip(owners, twice, strict=True)]
        return rotation.rotary(call, np.stack(features, -1), exact.attention_factor, pairs)
    # each pair of features turns by one of the three positions of a token: (batch, seq)
    angles = [call.positions[axes.position_of(pair)] * radians for pair, radians in enumerate(exact.inv_freq)]
    # (batch, seq, pairs)
    return rotation.rotary(call, np.stack(angles, -1), exact.attention_factor, pairs)


def sections_of(rows: tuple[int, ...]) -> Mapping[str, Parameter]:
    """Return the sections that pairs turn by, and their layout, from the position that turns each pair."""
    # a first position that no pair turns by is that of the text, for masks
    least = min(rows)
    rows = tuple(row - least for row in rows)
    counts = tuple(rows.count(row) for row in range(max(rows) + 1))
    for layout, expected in (
        ("sectioned", _runs(counts)),
        ("interleaved", _turns(counts)),
        ("time_last", _last(counts)),
    ):
        if rows == expected:
            return {"sections": counts, "section_layout": layout}
    runs = [(row, len(list(group))) for row, group in groupby(rows)]
    if len(runs) == len(counts):
        return {
            "sections": tuple(length for _, length in runs),
            "section_layout": "sectioned",
            "section_axes": tuple(row for row, _ in runs),
        }
    return {"sections": counts, "section_layout": "of each pair", "section_axes": rows}


def _runs(counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(row for row, count in enumerate(counts) for _ in range(count))


def _turns(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return rows by turns, as Qwen3-VL has them: height and width at every third pair, time at all others."""
    rows = [0] * sum(counts)
    for row, count in enumerate(counts[1:], 1):
        for place in range(row, min(len(counts) * count, len(rows)), len(counts)):
            rows[place] = row
    return tuple(rows)


def _last(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return height and width by turns, and then time, as ERNIE 4.5 VL has them."""
    if len(counts) != 3 or counts[1] != counts[2]:
        return ()
    return (1, 2) * counts[1] + (0,) * counts[0]
