"""Rotary position embedding (RoPE, arXiv:2104.09864), with all rope types."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Form, Guess, Observation, Parameter, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.circles import (
    FIRST_ROWS,
    HALVES,
    ROUNDOFF,
    SUBNORMAL,
    Circle,
    MeasuredFrequencies,
    circle_of,
    first_errors,
    frequencies_at,
    to_half,
)
from posenc.formulas.parts.cos_sin_rows import rows_of, turned_back
from posenc.formulas.parts.decimals import shortest
from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.parts.frequency_forms import FrequencyForm, PairFrequencies
from posenc.formulas.rope_types.geometric import geometric_forms
from posenc.formulas.rope_types.longrope import longrope_forms
from posenc.formulas.rope_types.ramps import ramp_forms
from posenc.ports import Array
from posenc.spec import Spec

LAYOUTS = ("halves", "interleaved")
ALSO = 12
"""How many further forms are listed."""

FLOAT32 = 2.0**-22
"""What frequencies and angles in float32 lose together, relative to them."""

SHARP = 4
"""How many frequencies must be seen to be numbers of half precision."""


def reference(
    spec: Spec, call: Call, *, exact: Callable[[int], Frequencies], pairs: rotation.Pairs
) -> tuple[Array, ...]:
    """Return the outputs in float64 at every position, from the paper's frequencies for the length of the call.

    Args:
        exact: the length of a call -> its frequencies, by the reference of a rope type.
    """
    frequencies = exact(spec.max_len if spec.mode == "baked" else int(call.positions.max()) + 1)
    # (batch, seq, 1) * (pairs,)
    angle = call.positions[..., None].astype(np.float64) * frequencies.inv_freq
    return rotation.rotary(call, angle, frequencies.attention_factor, pairs)


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the rope type and its parameters from the frequencies of pairs that one position a token turns.

    Frequencies without a closed form are said as they are measured.
    """
    if len(seen.places) != 1 or seen.layout not in ("", *LAYOUTS):
        return
    positions = np.arange(len(seen.numbers)) if seen.positions is None else seen.positions
    circle = circle_of(seen.numbers.real, seen.numbers.imag)
    fitted = None if circle is None else frequencies_at(circle, positions)
    if circle is None or fitted is None:
        return
    measured, is_backward = measured_of(circle, fitted)
    # cosine and sine tables of a spectrogram are circles too
    if _is_transform(measured):
        return
    forms = _forms(measured)
    if seen.layout and not forms:
        return  # another formula may say what turns these pairs
    others = [form.in_words() for form in forms[1:]]
    if len(others) > ALSO:
        others = [*others[:ALSO], f"{len(others) - ALSO} more"]
    read: dict[str, Parameter] = {"inv_freq": tuple(measured.inv_freq.tolist())}
    inv_freq, amplitude, name = measured.inv_freq, measured.amplitude, "unknown frequencies"
    if forms:
        read, inv_freq, amplitude = dict(forms[0].parameters), forms[0].inv_freq, _amplitude(measured, forms[0])
        name = forms[0].name
    read["attention_factor"] = amplitude
    exact = rows_of(inv_freq, amplitude)
    if is_backward:
        read["direction"], exact = "backward", turned_back(exact)
    # later rows of half precision are noise
    cosines, sines = np.split(exact(positions[: FIRST_ROWS + 1]), 2, axis=1)
    place: dict[str, Parameter] = {}
    if seen.layout:
        # else the place where they turn tells which features are a pair, and so what is typed
        place = {"head_dim": seen.head_dim or 2 * seen.width, "rotary_dim": 2 * seen.width, "layout": seen.layout}
    read = {**place, **read}
    yield Guess(
        read,
        cosines + 1j * sines,
        name,
        typed=_scheme(name, read)[1],
        exact=exact if forms else None,
        also=tuple(others),
        tolerance=first_errors(circle, positions, fitted) * circle.amplitude,
    )


def of_heads(form: Form, place: Mapping[str, Parameter]) -> Form:
    """Return the form of a rotation with what its place in a graph tells, and the scheme that has all of it.

    Args:
        form: what its numbers say.
        place: head_dim, rotary_dim, layout and others.
    """
    parameters = {**place, **form.parameters}
    scheme, typed = _scheme(form.name, parameters)
    return replace(form, parameters=parameters, scheme=scheme, typed=typed)


NOT_OF_A_SCHEME = ("frequencies_dtype", "first_feature", "tables")
"""What no scheme has: frequencies that were rounded, features that do not begin at 0, exchanged tables."""
OF_EVERY_TYPE = ("head_dim", "rotary_dim", "layout", "attention_factor", "rope_theta", "direction")
"""Parameters that a rotation of any type has."""


@dataclass(frozen=True)
class SchemeOfType:
    """How a rotation is typed.

    Args:
        scheme: what has it.
        head: the parameters that are those of a head, in the order in which they are typed.
        has_type: whether its name is a rope type, whose parameters follow.
        has_factor: whether its type may multiply cosines and sines.
    """

    scheme: str = "rope"
    head: tuple[str, ...] = ("head_dim", "rotary_dim", "rope_theta", "layout", "direction")
    has_type: bool = True
    has_factor: bool = False


SCHEME_OF_TYPE: Mapping[str, SchemeOfType] = {
    "default": SchemeOfType(has_type=False),
    "linear": SchemeOfType(),
    "proportional": SchemeOfType(),
    "llama3": SchemeOfType(),
    "yarn": SchemeOfType(has_factor=True),
    "mrope": SchemeOfType("mrope", ("sections", "head_dim", "section_layout", "rope_theta", "layout"), has_type=False),
}
"""By the name of a rotation, how it is typed; others switch by the length of a call, or have no scheme."""


def _scheme(name: str, parameters: Mapping[str, Parameter]) -> tuple[str, dict[str, Parameter]]:
    """Return the scheme of a rotation and its parameters as they are typed; nothing where no scheme has them."""
    how = SCHEME_OF_TYPE.get(name)
    if how is None or parameters.get("layout") not in LAYOUTS or not {"head_dim", "rope_theta"} <= parameters.keys():
        return "", {}
    factor = parameters.get("attention_factor", 1.0)
    if not parameters.keys().isdisjoint(NOT_OF_A_SCHEME) or (factor != 1.0 and not how.has_factor):
        return "", {}
    # a share of the head is a parameter of its own
    is_whole = parameters.get("rotary_dim") == parameters["head_dim"] or "partial_rotary_factor" in parameters
    typed = _kept(parameters, tuple(key for key in how.head if not (is_whole and key == "rotary_dim")))
    if how.has_type:
        typed |= {"rope_type": name, **{key: value for key, value in parameters.items() if key not in OF_EVERY_TYPE}}
    return how.scheme, typed | ({"attention_factor": factor} if how.has_factor else {})


def _kept(parameters: Mapping[str, Parameter], names: tuple[str, ...]) -> dict[str, Parameter]:
    return {name: parameters[name] for name in names if name in parameters}


def _forms(measured: PairFrequencies) -> list[FrequencyForm]:
    """Return the closed forms of frequencies at or above 0, the likeliest first; none where they have none."""
    if not np.any(measured.inv_freq > measured.error):
        return [FrequencyForm("no position", {}, np.zeros(measured.pairs))]
    # a series that half precision rounded comes before settings that would explain what rounding did
    for forms_of in (geometric_forms, ramp_forms, longrope_forms):
        for rounded_to, tried in _roundings(measured):
            if forms := forms_of(tried):
                notes: dict[str, Parameter] = {"frequencies_dtype": rounded_to} if rounded_to else {}
                return [replace(forms[0], parameters={**forms[0].parameters, **notes}), *forms[1:]]
    return []


def _is_transform(measured: PairFrequencies) -> bool:
    """Return whether frequencies rise by equal steps: the matrices of Fourier and cosine transforms are so."""
    steps = np.diff(measured.inv_freq)
    return measured.pairs > 3 and bool(np.any(steps)) and float(np.ptp(steps)) <= 4 * float(measured.error.max())


def measured_of(circle: Circle, fit: MeasuredFrequencies) -> tuple[PairFrequencies, bool]:
    """Return frequencies at or above 0 with all that may have rounded them, and whether pairs turn backward."""
    certain = fit.inv_freq[np.abs(fit.inv_freq) > 2 * fit.error]
    backward = bool(certain.size) and bool(np.all(certain < 0))
    inv_freq = -fit.inv_freq if backward else fit.inv_freq
    # those that cannot be told from 0 may be measured below it
    inv_freq = np.where(np.abs(inv_freq) <= fit.error, np.maximum(inv_freq, 0.0), inv_freq)
    error = fit.error + np.abs(inv_freq) * FLOAT32
    amplitude_error = (2 * circle.relative + circle.absolute) * circle.amplitude
    return PairFrequencies(inv_freq, error, circle.amplitude, amplitude_error, circle.held_in), backward


def _roundings(measured: PairFrequencies) -> list[tuple[str, PairFrequencies]]:
    """Return the frequencies as measured, and as what half precision may have made of others."""
    halves = [(name, _rounded(measured, name)) for name in reversed(HALVES) if _are_halves(measured, name)]
    if measured.held_in == "float32":
        return [("", measured), *halves]
    # what is held in half precision was mostly computed in it too, seen or not
    return halves or [("", _rounded(measured, measured.held_in))]


def _are_halves(measured: PairFrequencies, name: str) -> bool:
    """Tell whether frequencies are numbers of a half precision, known so well that they are not so by chance."""
    sharp = (measured.error <= ROUNDOFF[name] / 4 * measured.inv_freq) & (measured.inv_freq > 0)
    held = to_half(measured.inv_freq, name)
    return int(np.count_nonzero(sharp)) >= SHARP and bool(np.all(np.abs(held - measured.inv_freq) <= measured.error))


def _rounded(measured: PairFrequencies, name: str) -> PairFrequencies:
    """Return the frequencies with what rounding them to half precision may have changed."""
    changed = 1.01 * ROUNDOFF[name] * measured.inv_freq
    least = SUBNORMAL if name == "float16" else 0.0
    return replace(measured, error=measured.error + np.where(measured.inv_freq > 0, np.maximum(changed, least), 0.0))


def _amplitude(measured: PairFrequencies, fitted: FrequencyForm) -> float:
    """Return what the type says, 1, or a short decimal, whichever the amplitude is."""
    for value in (fitted.attention_factor, 1.0):
        if value is not None and abs(value - measured.amplitude) <= measured.amplitude_error:
            return value
    return shortest(measured.amplitude, measured.amplitude_error)
