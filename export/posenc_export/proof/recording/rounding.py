"""How far the outputs of a user's module move when each intermediate result moves by one ulp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Floats
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.common.arrays import FLOATS, call_on_arrays
from posenc_export.proof.judging.compare import scale_of
from posenc_export.proof.planning.padding import Padding
from posenc_export.proof.recording.choices import FirstChoices, HeldChoices, Unlike
from posenc_export.proof.recording.nudges import Nudges
from posenc_export.proof.recording.record import at_rows
from posenc_export.write.targets.feeds import feeds_for

DRAWS = 3
"""How often the directions of all moves are drawn: the largest move of one draw depends on its luck."""


@dataclass(frozen=True)
class Moves:
    """How far each ordinary element of the outputs moves: those of tokens, and those of masked tokens."""

    of_tokens: Floats
    of_masked: Floats


@dataclass(frozen=True)
class Rounding:
    """How far each ordinary element of the outputs moves, in all draws.

    Args:
        through_floats: With every choice held as it is when nothing moves.
        freely: With choices that may change.
        places: The lines of the module at which choices change.
    """

    through_floats: Moves
    freely: Moves
    places: tuple[str, ...] = ()


def ulp_sensitivity(encoding: Encoding, golden: GoldenCase, padding: Padding, noise: float, seed: int) -> Rounding:
    """Return how far the outputs of a case move when each intermediate result moves by one ulp.

    Args:
        encoding: The user's module.
        golden: The case.
        padding: Elements of outputs that belong to masked tokens.
        noise: Where an element of a token moves farther than this, the module is run again with its choices held.
        seed: For the inputs, and the first of those for the directions.
    """
    seeds = range(seed, seed + DRAWS)
    freely = _together([moves(encoding, golden, padding, Nudges(draw), seed) for draw in seeds])
    if not np.any(freely.of_tokens > noise):
        return Rounding(freely, freely)
    # one more run records choices without moving anything; the others move everything but hold them
    first = FirstChoices()
    outputs_of(encoding, encoding.uncalled(), golden.case, seed, Nudges(None, first))
    held = [HeldChoices(first) for _ in seeds]
    runs = zip(seeds, held, strict=True)
    try:
        through_floats = [moves(encoding, golden, padding, Nudges(*run), seed) for run in runs]
    except Unlike:  # it branches on numbers, so that the choices of two runs do not correspond
        return Rounding(freely, freely)
    places = dict.fromkeys(place for choices in held for place in choices.places)
    return Rounding(_together(through_floats), freely, tuple(places))


def _together(draws: Sequence[Moves]) -> Moves:
    """Return the moves of several draws."""
    of_tokens, of_masked = ([getattr(draw, name) for draw in draws] for name in ("of_tokens", "of_masked"))
    return Moves(np.concatenate(of_tokens), np.concatenate(of_masked))


def moves(
    encoding: Encoding, golden: GoldenCase, padding: Padding, nudges: AbstractContextManager[object], seed: int
) -> Moves:
    """Return how far each ordinary element of the outputs moves from what was recorded.

    Args:
        encoding: The user's module.
        golden: The case.
        padding: Elements of outputs that belong to masked tokens.
        nudges: A mode in which results move.
        seed: For the inputs.
    """
    outputs = rows_under(encoding, golden, seed, nudges)
    of_tokens, of_masked = [np.zeros(0)], [np.zeros(0)]
    for port in (port for port in encoding.outputs if port.name in outputs):
        expected, actual = golden.eager[port.name], outputs[port.name]
        if expected.dtype.name in FLOATS and actual.shape == expected.shape:
            masked = padding.get(port.name, np.zeros(expected.shape, bool))
            of_tokens.append(_ordinary_moves(actual[~masked], expected[~masked]))
            of_masked.append(_ordinary_moves(actual[masked], expected[masked]))
    return Moves(np.concatenate(of_tokens), np.concatenate(of_masked))


def rows_under(
    encoding: Encoding, golden: GoldenCase, seed: int, mode: AbstractContextManager[object]
) -> dict[str, Array]:
    """Return what a fresh copy of a module gives in a call under a mode of torch that moves floats: the rows kept.

    Nothing where a look-up fails. A module may compute from floats which row it looks up; a float that moved may then
    name a row that is not there, and such a run says nothing about rounding.
    """
    try:
        outputs = outputs_of(encoding, encoding.uncalled(), golden.case, seed, mode)
    except IndexError:
        return {}
    return {port.name: at_rows(port, outputs[port.name], golden.rows) for port in encoding.outputs}


def _ordinary_moves(actual: Array, expected: Array) -> Floats:
    """Return how far elements moved that are no masks, infinity for NaN: one ulp of -1e9 is larger than any output."""
    ordinary = np.abs(expected.astype(np.float64)) <= scale_of(expected, expected.dtype.name)
    moved = np.abs(actual[ordinary].astype(np.float64) - expected[ordinary].astype(np.float64))
    return np.nan_to_num(moved, nan=np.inf)


def outputs_of(
    encoding: Encoding, called: Encoding, case: Case, seed: int, mode: AbstractContextManager[object] | None = None
) -> Mapping[str, Array]:
    """Return the outputs of a copy of a module in a case."""
    feeds = feeds_for(encoding.inputs, case, seed)
    with mode or nullcontext():
        outputs = call_on_arrays(called.module, [feeds[port.name] for port in encoding.inputs])
    return {port.name: output for port, output in zip(encoding.outputs, outputs, strict=True)}
