"""A user's module, seen from outside: whether calls change what it gives, and how much of that is noise.

It has no reference and no derived bounds. What its graph may differ by follows from what eager PyTorch itself would: by
16 eps of its scale, and by how far its outputs move when each result on the way moves by one ulp, as they do between
libraries. Rows of tokens that a mask leaves out have no part in that: nobody reads them, and where every key of a query
is masked they are garbage, in float64 too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Encoding, Tolerance, eps
from posenc.ports import Array, Floats, Port
from posenc_export.arrays import FLOATS
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.errors import first_line
from posenc_export.validation.judging.compare import judge, measure, scale_of
from posenc_export.validation.judging.context import Behaviour
from posenc_export.validation.planning.feeds import feeds_for
from posenc_export.validation.planning.padding import Padding, masks_of, of_tokens, padding_of
from posenc_export.validation.recording.choices import JUMPS, NOISE
from posenc_export.validation.recording.record import at_rows
from posenc_export.validation.recording.rounding import outputs_of, rounding

OWN_EPS, MOVES = 16, 2
"""A graph may differ from its eager module by 16 eps of the scale, and twice how far one ulp a result moves that."""


@dataclass(frozen=True)
class OwnCase:
    """A case with the tolerances of a module without a reference, and what rounding does to it.

    noise: in words, where the outputs are noise. places: where one ulp chooses something else; share: of the scale, by
    which that moves the outputs.
    """

    golden: GoldenCase
    noise: str = ""
    places: tuple[str, ...] = ()
    share: float = 0.0


def own_case(encoding: Encoding, golden: GoldenCase, seed: int) -> OwnCase:
    """Return a case with the tolerances of a module without a reference, and what rounding does to it."""
    if golden.case.refused:
        return OwnCase(golden)
    padding = padding_of(encoding.inputs, encoding.outputs, golden, feeds_for(encoding.inputs, golden.case, seed))
    floats = [of_tokens(v, padding.get(name)) for name, v in golden.eager.items() if v.dtype.name in FLOATS]
    grain = max((eps(value.dtype.name) for value in floats), default=0.0)
    scale = max((scale_of(value, value.dtype.name) for value in floats), default=0.0)
    noise = max(NOISE, 4 * grain) * scale or np.inf
    moved = rounding(encoding, golden, padding, noise, seed)
    steady = moved.through_floats[moved.through_floats <= noise]
    noisy = moved.through_floats.size - steady.size > JUMPS * moved.through_floats.size
    worst = _finite_peak(moved.through_floats if noisy else steady)
    eager = Tolerance(atol=OWN_EPS * grain * scale + MOVES * worst, rtol=OWN_EPS * grain)
    judged = _with_tolerances(_without_padding(golden, padding), eager)
    share = _finite_peak(moved.through_floats if noisy else moved.freely) / scale if scale else 0.0
    if noisy:
        words = f"outputs move by {share:.2g} of their scale where each result moves by one ulp"
        return OwnCase(judged, f"{golden.case.name}: {words}")
    return OwnCase(judged, "", moved.places, share)


def _finite_peak(moves: Floats) -> float:
    """Return the largest move that is a number: no tolerance is infinite."""
    return float(np.max(moves[np.isfinite(moves)], initial=0.0))


def _without_padding(golden: GoldenCase, padding: Padding) -> GoldenCase:
    """Return a case whose reference, in rows of tokens that a mask leaves out, is what the eager module gives there."""
    reference = {
        name: np.where(padding[name], golden.eager[name].astype(np.float64), value) if name in padding else value
        for name, value in golden.reference.items()
    }
    return replace(golden, reference=reference)


def _with_tolerances(golden: GoldenCase, eager: Tolerance) -> GoldenCase:
    """Return a case with a tolerance against eager, and against float64 with the module's own error more."""
    errors = [measure(golden.eager[name], value).max_abs for name, value in golden.reference.items()]
    own = max((error for error in errors if np.isfinite(error)), default=0.0)
    case = replace(golden.case, eager_tolerance=eager, tolerance=replace(eager, atol=eager.atol + own))
    return replace(golden, case=case)


def of_rounding(
    shown: Behaviour, inputs: tuple[Port, ...], outputs: tuple[Port, ...], cases: Sequence[OwnCase]
) -> Behaviour:
    """Return what calls showed with what rounding does: whether outputs are noise, and where an ulp chooses.

    What is random anyway has no noise beside.
    """
    places = ", ".join(dict.fromkeys(place for one in cases for place in one.places))
    jump = max((one for one in cases if one.places), key=lambda one: one.share, default=None)
    of_masks = (f"{port.name} by {mask.name}" for port in outputs for mask in masks_of(inputs, port))
    return replace(
        shown,
        noise="" if shown.random else next((one.noise for one in cases if one.noise), ""),
        choices=f"{places}: {jump.golden.case.name}: outputs move by {jump.share:.2g} of their scale" if jump else "",
        padding=tuple(of_masks),
    )


def behaviour(encoding: Encoding, called: Encoding, cases: Sequence[GoldenCase], seed: int) -> Behaviour:
    """Call one copy in every case, ascending and descending; return what that showed.

    On the way down each call comes after one of the same sizes with other numbers: what is kept by its size shows.
    """
    usable = [golden for golden in cases if not golden.case.refused]
    for place, golden in enumerate((*usable, *reversed(usable))):
        if place >= len(usable):
            _call_with_others(encoding, called, golden.case, seed)
        words = _other(encoding, called, golden, seed)
        if words:  # the longest calls show best whether it would be so without any call before
            alone = (_other(encoding, encoding.uncalled(), one, seed) for one in (golden, *reversed(usable)))
            difference = next(filter(None, alone), "")
            both = f"two copies of the module give other outputs of the same inputs: {difference}"
            return Behaviour(random=both) if difference else Behaviour(order=words)
    return Behaviour()


def _call_with_others(encoding: Encoding, called: Encoding, case: Case, seed: int) -> None:
    """Call a module at the sizes of a case with other numbers and another mask; one that it refuses changes nothing."""
    with suppress(Exception):
        outputs_of(encoding, called, replace(case, padding="right" if case.padding == "left" else "left"), seed + 1)


def _other(encoding: Encoding, called: Encoding, golden: GoldenCase, seed: int) -> str:
    """Return in words where a module gives other outputs in a case than were recorded; nothing where it does not."""
    try:
        outputs = outputs_of(encoding, called, golden.case, seed)
    except Exception as error:
        return f"{golden.case.name}: {type(error).__name__}: {first_line(error)}"
    for port in encoding.outputs:
        actual = at_rows(port, outputs[port.name], golden.rows)
        expected = golden.eager[port.name]
        judgement = judge(measure(actual, expected), _of_the_same(expected))
        if not judgement.passed:
            return f"{golden.case.name}: {judgement.reason}"
    return ""


def _of_the_same(expected: Array) -> Tolerance:
    """Return what two calls of one module may differ by: sums whose order follows from where in memory they lie."""
    if expected.dtype.name not in FLOATS:
        return Tolerance()
    grain = OWN_EPS * eps(expected.dtype.name)
    return Tolerance(atol=grain * scale_of(expected, expected.dtype.name), rtol=grain)
