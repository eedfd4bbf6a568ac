"""A user's module, seen from outside: whether calls change its outputs, and how much of them is noise.

It has no reference and no derived bounds. Its graph may differ from eager by 16 eps of the scale, and by how far the
outputs move when each intermediate result moves by one ulp, as results do between libraries. Rows of masked tokens have
a tolerance of their own: nobody reads them, and where every key of a query is masked they are garbage, in float64 too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Encoding, Tolerance, eps
from posenc.ports import Array, Floats, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.common.arrays import FLOATS, same_bits
from posenc_export.common.errors import first_line
from posenc_export.common.names import in_runs
from posenc_export.proof.judging.compare import judge, measure, scale_of
from posenc_export.proof.judging.context import Behaviour
from posenc_export.proof.planning.padding import Padding, free_elements, masks_of, of_tokens, padding_of
from posenc_export.proof.recording.choices import MAX_JUMP_SHARE, NOISE
from posenc_export.proof.recording.record import at_rows
from posenc_export.proof.recording.rounding import outputs_of, ulp_sensitivity
from posenc_export.write.targets.feeds import feeds_for

EPS_OF_SCALE, ULP_MOVES = 16, 2
"""A graph may differ from eager by 16 eps of the scale, and by twice as far as one ulp per result moves the outputs."""


@dataclass(frozen=True)
class OwnCase:
    """A case with the tolerances of a module without a reference, and what rounding does to it.

    Args:
        golden: The case, with what was recorded of it.
        noise: Why its outputs are noise, in words, or nothing.
        places: Lines of code at which one ulp changes a choice.
        share: How far such choices move the outputs, as a share of the scale.
    """

    golden: GoldenCase
    noise: str = ""
    places: tuple[str, ...] = ()
    share: float = 0.0


FREE = 1e30
"""How far rows of masked tokens may be off that are not held: C++ and browsers compare them by this number."""


def own_case(encoding: Encoding, golden: GoldenCase, seed: int) -> OwnCase:
    """Return a case with the tolerances of a module without a reference, and what rounding does to it."""
    if golden.case.refused:
        return OwnCase(golden)
    padding = padding_of(encoding.inputs, encoding.outputs, golden, feeds_for(encoding.inputs, golden.case, seed))
    floats = [of_tokens(v, padding.get(name)) for name, v in golden.eager.items() if v.dtype.name in FLOATS]
    grain = max((eps(value.dtype.name) for value in floats), default=0.0)
    scale = max((scale_of(value, value.dtype.name) for value in floats), default=0.0)
    masked = [v[padding[name]] for name, v in golden.eager.items() if v.dtype.name in FLOATS and name in padding]
    masked_scale = max((scale_of(value, value.dtype.name) for value in masked), default=0.0)
    noise = max(NOISE, 4 * grain) * scale or np.inf
    moved = ulp_sensitivity(encoding, golden, padding, noise, seed)
    through_floats = moved.through_floats.of_tokens
    steady = through_floats[through_floats <= noise]
    # Where few elements jump, a choice is made at an edge: they widen no tolerance.
    noisy = through_floats.size - steady.size > MAX_JUMP_SHARE * through_floats.size
    worst = finite_peak(through_floats if noisy else steady)
    # never by the error against float64, which the module's own noise or bias would widen
    eager = Tolerance(atol=EPS_OF_SCALE * grain * scale + ULP_MOVES * worst, rtol=EPS_OF_SCALE * grain)
    masked_atol = EPS_OF_SCALE * grain * masked_scale + ULP_MOVES * finite_peak(moved.through_floats.of_masked)
    judged = _with_tolerances(without_padding(golden, padding, max(masked_atol - eager.atol, 0.0)), eager)
    share = finite_peak(through_floats if noisy else moved.freely.of_tokens) / scale if scale else 0.0
    if noisy:
        words = f"outputs move by {share:.2g} of their scale where each result moves by one ulp"
        return OwnCase(judged, f"{golden.case.name}: {words}")
    return OwnCase(judged, "", moved.places, share)


def finite_peak(moves: Floats) -> float:
    """Return the largest finite move: no tolerance is infinite."""
    return float(np.max(moves[np.isfinite(moves)], initial=0.0))


def without_padding(golden: GoldenCase, padding: Padding, farther: float) -> GoldenCase:
    """Return a case whose reference in rows of masked tokens is eager's own output, from which they may be farther."""
    reference = {
        name: np.where(padding[name], golden.eager[name].astype(np.float64), value) if name in padding else value
        for name, value in golden.reference.items()
    }
    if not farther:
        return replace(golden, reference=reference)
    masked = {name: elements for name, elements in padding.items() if elements.any()}
    return replace(golden, case=replace(golden.case, masked_atol=farther), reference=reference, masked=masked)


def with_free_padding(encoding: Encoding, golden: GoldenCase, seed: int) -> GoldenCase:
    """Return a case in which rows of masked tokens are any finite numbers, as a fused operator gives them."""
    if golden.case.refused:
        return golden
    padding = free_elements(encoding.inputs, encoding.outputs, golden, feeds_for(encoding.inputs, golden.case, seed))
    return without_padding(golden, padding, FREE) if any(places.any() for places in padding.values()) else golden


def _with_tolerances(golden: GoldenCase, eager: Tolerance) -> GoldenCase:
    """Return a case with a tolerance against eager, and one against float64 that adds the module's own error."""
    errors = [measure(golden.eager[name], value).max_abs for name, value in golden.reference.items()]
    float64_error = max((error for error in errors if np.isfinite(error)), default=0.0)
    case = replace(golden.case, eager_tolerance=eager, tolerance=replace(eager, atol=eager.atol + float64_error))
    return replace(golden, case=case)


def of_rounding(
    shown: Behaviour, inputs: tuple[Port, ...], outputs: tuple[Port, ...], cases: Sequence[OwnCase]
) -> Behaviour:
    """Return a behaviour with what rounding does: whether outputs are noise, and where one ulp changes a choice.

    A module that is random is not said to be noise as well.
    """
    places = ", ".join(dict.fromkeys(place for case in cases for place in case.places))
    jump = max((case for case in cases if case.places), key=lambda case: case.share, default=None)
    of_masks: dict[str, list[str]] = {}
    for port in outputs:
        for mask in masks_of(inputs, port):
            of_masks.setdefault(mask.name, []).append(port.name)
    return replace(
        shown,
        noise="" if shown.random else next((case.noise for case in cases if case.noise), ""),
        choices=f"{places}: {jump.golden.case.name}: outputs move by {jump.share:.2g} of their scale" if jump else "",
        padding=tuple(f"{in_runs(names)} by {mask}" for mask, names in of_masks.items()),
    )


def behaviour(encoding: Encoding, called: Encoding, cases: Sequence[GoldenCase], seed: int) -> Behaviour:
    """Call one copy in every case, in ascending and then in descending order, and compare the outputs.

    On the way down, each call follows one of the same sizes with other numbers, which shows what is cached by size.
    """
    usable = [golden for golden in cases if not golden.case.refused]
    for place, golden in enumerate((*usable, *reversed(usable))):
        if place >= len(usable):
            _call_with_others(encoding, called, golden.case, seed)
        words = _difference(encoding, called, golden, seed)
        if words:  # if a fresh copy differs too, the module is random; the longest calls show that best
            fresh = (_difference(encoding, encoding.uncalled(), case, seed) for case in (golden, *reversed(usable)))
            difference = next(filter(None, fresh), "")
            random = f"two copies of the module give other outputs of the same inputs: {difference}"
            return Behaviour(random=random) if difference else Behaviour(order=words)
    return Behaviour()


def _call_with_others(encoding: Encoding, called: Encoding, case: Case, seed: int) -> None:
    """Call a module at the sizes of a case with other numbers and another mask; it may refuse that call."""
    with suppress(Exception):
        outputs_of(encoding, called, replace(case, padding="right" if case.padding == "left" else "left"), seed + 1)


def _difference(encoding: Encoding, called: Encoding, golden: GoldenCase, seed: int) -> str:
    """Return, in words, how the outputs of a module differ from those recorded, or nothing."""
    try:
        outputs = outputs_of(encoding, called, golden.case, seed)
    except Exception as error:
        return f"{golden.case.name}: {type(error).__name__}: {first_line(error)}"
    for port in encoding.outputs:
        actual = at_rows(port, outputs[port.name], golden.rows)
        expected = golden.eager[port.name]
        if actual.shape == expected.shape and actual.dtype == expected.dtype and same_bits(actual, expected):
            continue
        judgement = judge(measure(actual, expected), _repeat_tolerance(expected))
        if not judgement.passed:
            return f"{golden.case.name}: {judgement.reason}"
    return ""


def _repeat_tolerance(expected: Array) -> Tolerance:
    """Return how far two calls of one module may differ: the order of a sum can depend on its place in memory."""
    if expected.dtype.name not in FLOATS:
        return Tolerance()
    grain = EPS_OF_SCALE * eps(expected.dtype.name)
    return Tolerance(atol=grain * scale_of(expected, expected.dtype.name), rtol=grain)
