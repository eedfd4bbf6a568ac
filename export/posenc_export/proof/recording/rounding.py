"""How far the outputs of a user's module move when each intermediate result moves by one ulp."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Floats
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.common.arrays import FLOATS, call_on_arrays
from posenc_export.proof.judging.compare import scale_of
from posenc_export.proof.planning.padding import Padding, of_tokens
from posenc_export.proof.recording.choices import FirstChoices, HeldChoices, Unlike
from posenc_export.proof.recording.nudges import Nudges
from posenc_export.proof.recording.record import at_rows
from posenc_export.write.targets.feeds import feeds_for


@dataclass(frozen=True)
class Rounding:
    """How far each ordinary element of the outputs moves.

    Args:
        through_floats: With every choice held as it is when nothing moves.
        freely: With choices that may change.
        places: The lines of the module at which choices change.
    """

    through_floats: Floats
    freely: Floats
    places: tuple[str, ...] = ()


def ulp_sensitivity(encoding: Encoding, golden: GoldenCase, padding: Padding, noise: float, seed: int) -> Rounding:
    """Return how far the outputs of a case move when each intermediate result moves by one ulp.

    Args:
        encoding: The user's module.
        golden: The case.
        padding: Elements of outputs that belong to masked tokens, which do not count.
        noise: Where an element moves farther than this, the module is run again with its choices held.
        seed: For the inputs, and for the directions.
    """
    freely = moves(encoding, golden, padding, Nudges(seed), seed)
    if not np.any(freely > noise):
        return Rounding(freely, freely)
    # a second run records choices without moving anything, a third moves everything but holds them
    first = FirstChoices()
    outputs_of(encoding, encoding.uncalled(), golden.case, seed, Nudges(None, first))
    held = HeldChoices(first)
    try:
        through_floats = moves(encoding, golden, padding, Nudges(seed, held), seed)
    except Unlike:  # it branches on numbers, so that the choices of two runs do not correspond
        return Rounding(freely, freely)
    return Rounding(through_floats, freely, tuple(held.places))


def moves(
    encoding: Encoding, golden: GoldenCase, padding: Padding, nudges: AbstractContextManager[object], seed: int
) -> Floats:
    """Return how far each ordinary element of the outputs moves from what was recorded.

    Args:
        encoding: The user's module.
        golden: The case.
        padding: Elements of outputs that belong to masked tokens, which do not count.
        nudges: A mode in which results move.
        seed: For the inputs.
    """
    outputs = outputs_of(encoding, encoding.uncalled(), golden.case, seed, nudges)
    moves = []
    for port in encoding.outputs:
        expected, actual = golden.eager[port.name], at_rows(port, outputs[port.name], golden.rows)
        if expected.dtype.name in FLOATS and actual.shape == expected.shape:
            expected, actual = (of_tokens(array, padding.get(port.name)) for array in (expected, actual))
            # masks such as -1e9 are not ordinary: one ulp of them is larger than any output
            ordinary = np.abs(expected.astype(np.float64)) <= scale_of(expected, expected.dtype.name)
            moves.append(np.abs(actual[ordinary].astype(np.float64) - expected[ordinary].astype(np.float64)))
    return np.nan_to_num(np.concatenate(moves), nan=np.inf) if moves else np.zeros(0)


def outputs_of(
    encoding: Encoding, called: Encoding, case: Case, seed: int, mode: AbstractContextManager[object] | None = None
) -> Mapping[str, Array]:
    """Return the outputs of a copy of a module in a case."""
    feeds = feeds_for(encoding.inputs, case, seed)
    with mode or nullcontext():
        outputs = call_on_arrays(called.module, [feeds[port.name] for port in encoding.inputs])
    return {port.name: output for port, output in zip(encoding.outputs, outputs, strict=True)}
