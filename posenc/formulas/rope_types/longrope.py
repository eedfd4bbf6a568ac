"""LongRoPE: each pair has a divisor."""

import numpy as np

from posenc.formulas.fitting import Exact, Form, Parameter
from posenc.formulas.parts.cos_sin_rows import formula_of
from posenc.formulas.parts.frequencies import Frequencies, context_ratio, rope_frequencies
from posenc.formulas.parts.frequency_forms import USUAL_BASES, FrequencyForm, PairFrequencies
from posenc.ports import Floats, Integers


def reference(
    dim: int,
    rope_theta: float,
    length: int,
    *,
    short_factor: tuple[float, ...],
    long_factor: tuple[float, ...],
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
) -> Frequencies:
    """Return 1 / (lambda_i theta^(2 i / d)), equation 2, and sqrt(1 + ln s / ln L), section 3.3 of the authors' code.

    Source: https://github.com/microsoft/LongRoPE, `LongRoPEScaledRotaryEmbedding`.
    """
    context = original_max_position_embeddings
    factors = short_factor if length <= context else long_factor
    wavelengths = np.asarray(factors) / rope_frequencies(dim, rope_theta)
    s = context_ratio(factor, max_position_embeddings, context)
    usual = 1.0 if s <= 1 else (1 + np.log2(s) / np.log2(context)) ** 0.5
    return Frequencies(1 / wavelengths, float(usual) if attention_factor is None else attention_factor)


BY_CHANCE = 1e-9
"""How likely it may be that frequencies of no such form look like it."""


def longrope_forms(measured: PairFrequencies) -> list[FrequencyForm]:
    """Return longrope with the divisors of one side of its switch, where they are short decimals for a usual base."""
    # in half precision any divisor is near a short decimal
    if measured.held_in != "float32" or measured.pairs < 4 or not np.all(measured.inv_freq > 0):
        return []
    forms = [fitted for theta in USUAL_BASES if (fitted := _at_base(measured, theta)) is not None]
    return forms[:1]


def _at_base(measured: PairFrequencies, theta: float) -> FrequencyForm | None:
    base = rope_frequencies(2 * measured.pairs, theta)
    divisors = base / measured.inv_freq
    width = divisors * measured.error / measured.inv_freq
    for digits in range(5):
        step = 10.0**-digits
        rounded = np.round(divisors, digits)
        # each divisor lies so near to a decimal by chance with the share of numbers that do
        chance = float(np.prod(np.minimum(2 * width / step, 1.0)))
        # with few pairs, or coarse numbers, anything would be a short decimal
        if chance > BY_CHANCE:
            return None
        if np.all(rounded >= 1 - 1e-12) and np.all(np.abs(rounded - divisors) <= width):
            return FrequencyForm("longrope", {"rope_theta": theta, "divisors": tuple(rounded.tolist())}, base / rounded)
    return None


def two_tables(first: Form, second: Form, seam: int, start: int) -> Form:
    """Return longrope with both sides of its switch; unknown frequencies where the tables have no base together."""
    theta, pairs = first.parameters.get("rope_theta"), formula_of(first)(np.zeros(1, np.int64)).size // 2
    short, long = _divisors(first, pairs), _divisors(second, pairs)
    parameters: dict[str, Parameter] = {
        "original_max_position_embeddings": seam,
        "attention_factor": second.parameters["attention_factor"],
        "short_attention_factor": first.parameters["attention_factor"],
        "long_first_position": start,
    }
    exact = _piecewise(formula_of(first), formula_of(second), seam, start)
    # each side alone might be named by chance
    if theta is None or theta != second.parameters.get("rope_theta") or not (short and long):
        return Form("rotary", "unknown frequencies", {**parameters, "short": first.name, "long": second.name})
    parameters |= {"rope_theta": theta, "short_factor": short, "long_factor": long}
    return Form("rotary", "longrope", parameters, exact)


def two_sides(short: Form, long: Form, context: int) -> Form | None:
    """Return longrope of the forms of calls within a context and of longer ones; None where they have no base together.

    Its formula is that of the longer calls.
    """
    theta, pairs = short.parameters.get("rope_theta"), formula_of(short)(np.zeros(1, np.int64)).size // 2
    divisors = _divisors(short, pairs), _divisors(long, pairs)
    if theta is None or theta != long.parameters.get("rope_theta") or not all(divisors):
        return None
    # what the place in the graph says is the same on both sides
    placed = {name: value for name, value in short.parameters.items() if name not in ("divisors", "factor")}
    factor = long.parameters["attention_factor"]
    parameters: dict[str, Parameter] = {**placed, "short_factor": divisors[0], "long_factor": divisors[1]}
    parameters |= {"original_max_position_embeddings": context, "attention_factor": factor}
    if short.parameters["attention_factor"] != factor:
        parameters["short_attention_factor"] = short.parameters["attention_factor"]
    return Form("rotary", "longrope", parameters, long.exact)


def _divisors(form: Form, pairs: int) -> tuple[float, ...]:
    """Return by what each pair is divided; nothing where that is not known."""
    if form.name == "default":
        return (1.0,) * pairs
    divisors = form.parameters.get({"longrope": "divisors", "linear": "factor"}.get(form.name, ""), ())
    if isinstance(divisors, float):
        return (divisors,) * pairs
    return tuple(float(divisor) for divisor in divisors) if isinstance(divisors, tuple) else ()


def _piecewise(short: Exact, long: Exact, seam: int, start: int) -> Exact:
    """Return the formula of the rows of two tables end to end, by row."""

    def exact(rows: Integers) -> Floats:
        after = rows >= seam
        shifted = np.where(after, rows - seam + start, 0)
        return np.where(after[:, None], long(shifted), short(np.where(after, 0, rows)))

    return exact
