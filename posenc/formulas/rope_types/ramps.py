"""Frequencies between those of the default type and those divided by a factor: yarn and llama3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from posenc.formulas.fitting import Parameter
from posenc.formulas.parts.decimals import short_decimals, shortest
from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.parts.frequency_forms import (
    USUAL_BASES,
    FrequencyForm,
    PairFrequencies,
    agree,
    digits_of,
    series_of,
)
from posenc.formulas.rope_types.llama3 import reference as llama3
from posenc.formulas.rope_types.yarn import reference as yarn
from posenc.ports import Floats

POWERS = tuple(2**k for k in range(12, 21)) + tuple(2**k for k in range(11, 3, -1))
CONTEXTS = POWERS + tuple(3 * 2**k for k in range(4, 17)) + tuple(1000 * 2**k for k in range(10))
BETAS = tuple((fast, slow) for slow in (1.0, 2.0, 4.0, 0.5) for fast in (32.0, 16.0, 64.0, 8.0, 128.0, 4.0))
RATIOS = ((1.0, 4.0), (1.0, 1.0), (1.0, 8.0), (1.0, 2.0), (1.0, 16.0), (1.0, 32.0))
UNUSUAL = 4
"""The rank of settings that are not those of the papers."""

FEWEST = 4
"""Ramps fit nearly any three pairs."""

SURVIVORS = 40
"""More settings than these that fit say that hardly anything of the ramp is seen."""


@dataclass(frozen=True)
class Ramp:
    """A way to blend, without its factor: the share of the interpolated frequency in each pair.

    Args:
        reference: the frequencies of the type, in float64.
        settings: its parameters but base and factor.
        rank: how unusual its settings are.
    """

    name: str
    reference: Callable[..., Frequencies]
    settings: dict[str, float | int | bool]
    share: Floats
    rank: int


def ramp_forms(measured: PairFrequencies) -> list[FrequencyForm]:
    """Return the yarn and llama3 settings that the frequencies have, the likeliest first."""
    if measured.certain < FEWEST:
        return []
    fits: list[tuple[int, FrequencyForm]] = []
    for theta in _bases(measured):
        fits += _at_base(measured, theta)
        if fits:
            break
    # where both fit, the amplitude says which type it is: llama3 leaves it 1
    fits.sort(key=lambda fit: (fit[0], abs((fit[1].attention_factor or 1) - measured.amplitude)))
    if fits and fits[0][0] < UNUSUAL:
        # the ramp is the same if context and both betas, or low and high, are multiplied by one number
        fits = [fit for fit in fits if fit[0] < UNUSUAL or fit[1].name != fits[0][1].name]
    return list({fitted.in_words(): fitted for _, fitted in fits}.values())


def _bases(measured: PairFrequencies) -> Iterator[float]:
    """Yield bases: of the pairs that are not scaled, of those that are scaled in full, and the usual ones."""
    seen: set[float] = set()
    pairs, certain = measured.pairs, measured.certain
    for count in range(certain, 2, -1):
        part = measured.first(count)
        fit = series_of(part, pairs, scaled=False)
        if _is_series(part, fit.theta, pairs, 0, 1.0):
            seen.update(_snapped(fit.theta, fit.theta_error))
            break
    for first in range(certain - 2):
        part = PairFrequencies(measured.inv_freq[first:certain], measured.error[first:certain])
        fit = series_of(part, pairs, first, scaled=True)
        if _is_series(part, fit.theta, pairs, first, fit.factor):
            seen.update(_snapped(fit.theta, fit.theta_error))
            break
    yield from dict.fromkeys((*(theta for theta in USUAL_BASES if theta in seen), *sorted(seen, key=digits_of)))
    yield from (theta for theta in USUAL_BASES if theta not in seen)


def _snapped(theta: float, error: float) -> list[float]:
    """Return the roundest bases within an error."""
    return [base for base in short_decimals(theta, theta * error * 1.01) if base > 1][:4]


def _is_series(part: PairFrequencies, theta: float, over: int, first: int, factor: float) -> bool:
    exact = np.exp(-np.arange(first, first + part.pairs) / over * np.log(theta)) / factor
    return agree(exact, part.inv_freq, part.error)


def _at_base(measured: PairFrequencies, theta: float) -> list[tuple[int, FrequencyForm]]:
    """Return what fits at a base, with how unusual it is."""
    pairs = measured.pairs
    unscaled = theta ** (-np.arange(pairs) / pairs)
    remaining, error = measured.inv_freq / unscaled, measured.error / unscaled
    # frequencies are never raised, and slower pairs are never scaled less
    if np.any(remaining > 1 + error) or np.any(np.diff(remaining) > error[1:] + error[:-1]):
        return []
    ramps = [*_yarn_ramps(theta, pairs), *_llama3_ramps(unscaled), *_measured_ramps(remaining, error, unscaled)]
    shares = np.stack([ramp.share for ramp in ramps])
    # 1 - kept = share (1 - 1 / factor): linear in what is not known
    # one product for all settings at once: a loop over them would take seconds
    weighed = shares / error**2
    norm = (weighed * shares).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = weighed @ (1 - remaining) / norm
        bound = np.abs(weighed) @ error / norm
    off = np.abs(1 - remaining - shares * lost[:, None])
    fits = np.flatnonzero(np.all(off <= error + shares * bound[:, None] + 1e-12, axis=1) & (lost < 1) & (lost > bound))
    survivors = sorted(fits.tolist(), key=lambda number: ramps[number].rank)[:SURVIVORS]
    tried = [(ramps[n].rank, _fitted(measured, theta, ramps[n], float(lost[n]), float(bound[n]))) for n in survivors]
    return [(rank, fitted) for rank, fitted in tried if fitted is not None]


def _fitted(measured: PairFrequencies, theta: float, ramp: Ramp, lost: float, bound: float) -> FrequencyForm | None:
    """Return the form with the factor that it needs; None where a factor fits no more once it is rounded."""
    for factor in short_decimals(1 / (1 - lost), 1.01 * bound / (1 - lost) ** 2 + 1e-9):
        parameters: dict[str, Parameter] = {"rope_theta": theta, "factor": factor, **ramp.settings}
        made = ramp.reference(2 * measured.pairs, theta, 0, factor=factor, **ramp.settings)
        if agree(made.inv_freq, measured.inv_freq, measured.error):
            return FrequencyForm(ramp.name, parameters, made.inv_freq, made.attention_factor)
    return None


def _yarn_ramps(theta: float, pairs: int) -> list[Ramp]:
    """Return yarn's ramps of usual settings."""
    made: list[Ramp] = []
    for rank, ((fast, slow), truncate) in enumerate(product(BETAS, (True, False))):
        for place, context in enumerate(CONTEXTS):
            share = _yarn_share(theta, pairs, (fast, slow), context, truncate)
            settings: dict[str, float | int | bool] = {"original_max_position_embeddings": context}
            settings |= {"beta_fast": fast, "beta_slow": slow} if rank > 1 else {}
            settings |= {} if truncate else {"truncate": False}
            # a context that is a power of two is the likelier
            made.append(Ramp("yarn", yarn, settings, share, 2 * rank + (place >= len(POWERS))))
    return made


def _yarn_share(theta: float, pairs: int, betas: tuple[float, float], context: float, truncate: bool) -> Floats:
    """Return yarn's ramp, 0 for pairs that stay, 1 for those that are interpolated."""
    low, high = (pairs * np.log(context / (2 * np.pi * beta)) / np.log(theta) for beta in betas)
    if truncate:
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    return np.asarray(np.clip((np.arange(pairs) - low) / (high - low if high != low else 0.001), 0, 1))


def _llama3_ramps(unscaled: Floats) -> list[Ramp]:
    """Return llama3's ramps of usual settings."""
    ramps = []
    for rank, (low, high) in enumerate(RATIOS):
        for place, context in enumerate(CONTEXTS):
            settings, share = _llama3_settings(low, high, context), _llama3_share(unscaled, low, high, context)
            ramps.append(Ramp("llama3", llama3, settings, share, 2 * rank + (place >= len(POWERS))))
    return ramps


def _llama3_share(unscaled: Floats, low: float, high: float, context: int) -> Floats:
    """Return llama3's ramp, 0 for pairs that stay, 1 for those that are divided by the factor."""
    rotations = context * unscaled / (2 * np.pi)
    return np.asarray(1 - np.clip((rotations - low) / max(high - low, 1e-30), 0, 1))


def _llama3_settings(low: float, high: float, context: int) -> dict[str, float | int | bool]:
    return {"low_freq_factor": low, "high_freq_factor": high, "original_max_position_embeddings": context}


def _measured_ramps(remaining: Floats, error: Floats, unscaled: Floats) -> list[Ramp]:
    """Return ramps whose settings are measured: pairs between both ends, on a line by frequency or by place."""
    lowest = remaining[-1]
    inside = np.flatnonzero((remaining < 1 - 2 * error) & (remaining > lowest + 2 * error))
    if inside.size == 0 and 0 < lowest < 1:
        return _steps(remaining, unscaled)
    if inside.size < 2 or not 0 < lowest < 1:
        return []
    share = (1 - remaining[inside]) / (1 - lowest)
    width = error[inside] / (1 - lowest)
    return _measured_llama3(1 - share, width, unscaled[inside], unscaled)


def _steps(remaining: Floats, unscaled: Floats) -> list[Ramp]:
    """Return Llama 4's step, with a round context that puts it between the pairs where it is."""
    slow = int(np.argmax(remaining < (1 + remaining[-1]) / 2))
    if slow == 0:
        return []
    low, high = 2 * np.pi / unscaled[slow - 1], 2 * np.pi / unscaled[slow]
    middle = float(np.sqrt(low * high))
    context = round(shortest(middle, min(middle - low, high - middle)))
    share = (np.arange(unscaled.size) >= slow).astype(np.float64)
    return [Ramp("llama3", llama3, _llama3_settings(1.0, 1.0, context), share, UNUSUAL)]


def _measured_llama3(blend: Floats, width: Floats, inside: Floats, unscaled: Floats) -> list[Ramp]:
    """Fit blend = (context f / (2 pi) - low) / (high - low), low being 1."""
    # a straight line over frequencies
    solver = np.linalg.pinv(np.stack([inside, np.ones_like(inside)], axis=1) / width[:, None]) / width
    slope, start = solver @ blend
    if start >= 0 or slope <= 0:
        return []
    span, bound = -1 / start, float((np.abs(solver) @ width)[1]) / start**2
    high = shortest(1 + span, bound * 1.01)
    context = round(slope * 2 * np.pi * (high - 1))
    settings, share = _llama3_settings(1.0, high, context), _llama3_share(unscaled, 1.0, high, context)
    return [Ramp("llama3", llama3, settings, share, 1)]
