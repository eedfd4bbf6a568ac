"""xPos: rotary position embedding whose scores fade with distance (Sun et al., arXiv:2212.10554, section 2)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.decimals import positive_guesses
from posenc.formulas.parts.turning import bases_of, frequencies_of
from posenc.parameters import Value
from posenc.ports import Array, Floats

ROUNDED_DOWN = "length, rounded down"
"""The center of graphs that cut half of a length: lucidrains' do, and integer division of a negative length does."""


@dataclass(frozen=True)
class XposParameters:
    """The parameters as a user gives them."""

    head_dim: int
    rope_theta: float
    gamma: float
    scale_base: float
    center: int | str


def reference(call: Call, *, parameters: XposParameters, pairs: rotation.Pairs) -> tuple[Array, Array]:
    """Return the outputs in float64, at every position."""
    positions = call.positions[..., None].astype(np.float64)
    share = 2 * np.arange(parameters.head_dim // 2) / parameters.head_dim
    # (batch, seq, 1) * (pairs,)
    angle = positions * np.power(float(parameters.rope_theta), -share)
    middle = parameters.center if isinstance(parameters.center, int) else (max(int(positions.max()), -2) + 2) // 2
    zeta = (share + parameters.gamma) / (1 + parameters.gamma)
    # (batch, seq, pairs): queries grow with their position, keys shrink, and the product decays with distance
    scale = np.power(zeta, (positions - middle) / parameters.scale_base)
    q, k = call.values
    return rotation.apply_rotary(q, angle, scale, pairs), rotation.apply_rotary(k, angle, 1 / scale, pairs)


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the base from turns, and from how pairs fade gamma, the base of the scale and the center."""
    if len(seen.places) != 1 or seen.layout not in ("halves", "interleaved"):
        return
    logs = np.log(np.abs(seen.numbers))
    slopes = np.diff(logs, axis=0).mean(0)
    if np.abs(slopes).max() < 4 * seen.spacing:
        return
    # keys fade as queries grow
    sign = 1.0 if slopes[0] < 0 else -1.0
    share = np.arange(seen.width) / seen.width
    positions = np.arange(len(logs))
    center = float(np.median(positions[0] - logs[0][:1] / slopes[:1]))
    for gamma, scale_base in _scales(sign * slopes, share):
        for base in bases_of(frequencies_of(seen.numbers / np.abs(seen.numbers)), share):
            zeta = (share + gamma) / (1 + gamma)
            middle = round(center)
            # a center in the middle of a call moves with its length
            is_half = middle == (int(positions[-1]) + 2) // 2
            is_below = not is_half and middle == len(positions) // 2
            scale = np.power(zeta, sign * (positions[:, None] - middle) / scale_base)
            expected = scale * np.exp(1j * positions[:, None] * np.power(base, -share))
            named = {"head_dim": 2 * seen.width, "rope_theta": base, "gamma": gamma, "scale_base": scale_base}
            moving = "length" if is_half else ROUNDED_DOWN if is_below else middle
            # no scheme has a center that is rounded down
            typed: dict[str, Value] | None = {} if is_below else None
            yield Guess({**named, "center": moving, "layout": seen.layout}, expected, typed=typed)


def _scales(slopes: Floats, share: Floats) -> Iterator[tuple[float, float]]:
    """Yield gamma and the base of the scale: slope = log((share + gamma) / (1 + gamma)) / base."""
    # the ratio of the first two slopes says gamma alone
    tried = np.concatenate([[0.4], np.geomspace(1e-3, 10, 4001)])
    ratio = np.log((share[1] + tried) / (1 + tried)) / np.log(tried / (1 + tried))
    nearest = float(tried[np.argmin(np.abs(ratio - slopes[1] / slopes[0]))])
    for gamma in (0.4, *positive_guesses(nearest)):
        for scale_base in positive_guesses(float(np.log(gamma / (1 + gamma)) / slopes[0])):
            yield gamma, scale_base
