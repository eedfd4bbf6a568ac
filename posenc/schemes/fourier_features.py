"""Fourier features of coordinates: sines and cosines of them along random directions, or of their octaves or bands.

gaussian   sin(2 pi x @ B), cos(2 pi x @ B), B drawn once (arXiv:2006.10739): SAM's points and boxes, noise levels
log        sin(2^k pi x), cos(2^k pi x), k = 0, 1, ... (arXiv:2003.08934, section 5.1): radiance fields
           sin(f pi x), cos(f pi x), f from 1 to max_freq / 2 by equal factors: timm's FourierEmbed
linear     the same, f by equal steps (arXiv:2103.03206, section 3.2): Perceiver
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc.call import Formula
from posenc.encoding import Encoding
from posenc.formulas.parts.features import FeatureParameters, banded, projected
from posenc.memory import check_room
from posenc.ports import BATCH, SEQ, Floats, Port, Values, fixed
from posenc.ranges import above, minimum
from posenc.scheme import BOUNDS, DATA, Unsupported, scheme
from posenc.sincos import sincos_of_bands, sincos_of_octaves, sincos_of_projection
from posenc.sources.features import encode as family
from posenc.spec import Spec, UnsupportedSpec
from posenc.weights import Weights

Inputs = Literal["as_given", "centered", "logs"]
Kind = Literal["gaussian", "log", "linear"]
Order = Literal["halves", "octaves", "numbers"]
NUMBERS = "coordinates are an input, numbers of each token; use --positions explicit"
MAX_NUMBERS, MAX_OCTAVES = 1024, 64
"""A graph has operators for each number of a token; no code multiplies a coordinate by 2^64."""
MAX_FREQ = 224.0
"""Pixels of an image, in Perceiver's code."""


@dataclass(frozen=True)
class Coordinates:
    """The numbers of a token, as a user gives their parameters; they, or their logarithms, are in -span..span."""

    numbers: int
    span: float
    inputs: Inputs

    def port(self, spec: Spec) -> Port:
        """Return their port, in the dtype of angles, whatever the dtype of the output is."""
        ranges = {"as_given": (-self.span, self.span), "centered": (0.0, 1.0)}
        low, high = ranges.get(self.inputs, (math.exp(-self.span), math.exp(self.span)))
        return Port("x", (BATCH, SEQ, fixed(self.numbers)), spec.angle_dtype, Values(low, high))


@dataclass(frozen=True)
class FourierSource:
    """Cosines and sines of coordinates: how many of each, how many lie together in a row, and the largest angle."""

    waves: family.FeatureWaves
    pairs: int
    block: int
    max_angle: float


NOT_READ = "its features are of numbers that come in, which an inspection does not have: it reads positions"
"""Why an inspection does not read it back."""


@scheme(
    "fourier_features",
    paper="arXiv:2006.10739 (gaussian), arXiv:2003.08934 (log), arXiv:2103.03206 (linear)",
    formula="gaussian: sin(2 pi x @ B), cos(2 pi x @ B); log: sin(2^k pi x), cos(2^k pi x), k = 0..features-1; "
    "of bands: sin(f pi x), cos(f pi x), f from 1 to max_freq / 2",
    models=("SAM", "SAM 2", "EdgeTAM", "NCSN++", "NeRF", "Perceiver"),
    not_held={"_matrix": DATA, "_gaussian": BOUNDS, "_projection": BOUNDS, "_banded": BOUNDS},
    samples=(
        {"features": 4},
        {"kind": "log", "in_features": 3, "features": 4, "include_input": True},
        {"kind": "linear", "features": 3, "max_freq": (16.0, 11.0), "include_input": True},
    ),
    positions="explicit",
    unsupported=Unsupported(
        reading={"dynamic": NOT_READ},
        modes={"baked": "coordinates are numbers between which no table has rows; use --dynamic"},
        positions={"implicit": NUMBERS, "offset": NUMBERS, "mask": NUMBERS},
    ),
)
def fourier_features(
    spec: Spec,
    *,
    in_features: int = 2,
    kind: Kind = "gaussian",
    features: Annotated[int | None, minimum(1)] = None,
    max_freq: float | tuple[float, ...] | None = None,
    std: Annotated[float, above(0)] = 1.0,
    weights: str | None = None,
    key: str | None = None,
    inputs: Inputs = "as_given",
    span: Annotated[float, above(0)] = 1.0,
    pi: bool = True,
    include_input: bool = False,
    order: Order | None = None,
    flip_sin_to_cos: bool = False,
) -> Encoding:
    """Sines and cosines of numbers along random directions ("gaussian"), or of their octaves or bands.

    Args:
        in_features: numbers of a token.
        kind: "gaussian" 2 pi (x @ B), B random or from a file; "log" 2^k pi x, or bands by factors, "linear" by steps.
        features: columns of B [default: those of the weights, or 128], or octaves or bands of each number [default:
            10].
        max_freq: twice the highest band, where the lowest is 1; one for each number, or for all (timm's and Perceiver's
            max_res) [default: octaves; 224 of "linear"].
        std: standard deviation of the random B, where no weights are given.
        weights: a file or a model's folder that holds B, (in_features, features), or (features) of one number.
        key: the name of B in a file that holds several tensors.
        inputs: "as_given", "centered" 2x - 1 of x in 0..1 (SAM), "logs" of x above 0 (noise levels).
        span: numbers, or their logs, are in -span..span; beyond, errors grow.
        pi: octaves and bands are of pi x (the paper), or else of x (its code).
        include_input: x itself comes first.
        order: "halves" all sines, then all cosines; "numbers" all pairs of a number together, "octaves" all of an
            octave or a band [default: octaves of octaves, halves of bands].
        flip_sin_to_cos: cosines before sines.
    """
    coordinates = Coordinates(in_features, span, inputs)
    _check(coordinates)
    parameters = FeatureParameters(
        in_features, kind, features, max_freq, inputs, pi, include_input, order, flip_sin_to_cos
    )
    if kind == "gaussian":
        source, formula = _gaussian(spec, coordinates, parameters, Weights(weights, key, std))
    else:
        _refuse(inputs != "as_given" or weights is not None or key is not None, "inputs, weights and key", "gaussian")
        source, formula = _banded(spec, kind, parameters, span), partial(banded, parameters=parameters)
    include, max_angle = in_features if include_input else 0, math.ceil(source.max_angle)
    layout = family.ColumnLayout(source.pairs, source.block, cos_first=flip_sin_to_cos, include=include)
    x = coordinates.port(spec)
    return family.encode(source.waves, spec, x, layout, formula=formula, largest=lambda _: max_angle)


def _gaussian(
    spec: Spec, coordinates: Coordinates, parameters: FeatureParameters, weights: Weights
) -> tuple[FourierSource, Formula]:
    """Return waves along random or trained directions, and their reference."""
    alone = parameters.order in (None, "halves") and parameters.pi and parameters.max_freq is None
    _refuse(not alone, "order, pi and max_freq", "log or linear")
    matrix = _matrix(coordinates, parameters.features, weights).astype(spec.angle_dtype).astype(np.float64)
    return _projection(spec, coordinates, matrix), partial(projected, matrix=matrix, parameters=parameters)


def _banded(spec: Spec, kind: Kind, parameters: FeatureParameters, span: float) -> FourierSource:
    """Return waves of octaves or bands of each number."""
    octaves = parameters.max_freq is None and kind != "linear"
    max_freq = MAX_FREQ if parameters.max_freq is None and not octaves else parameters.max_freq
    frequencies = _frequencies(kind, parameters.features or 10, max_freq, parameters.in_features)
    order = parameters.order or ("octaves" if octaves else "halves")
    # a row of one number after another, or of one octave after another
    waves = _bands(spec, frequencies, span, octaves=octaves, pi=parameters.pi, by_number=order != "octaves")
    blocks = {"halves": frequencies.size, "octaves": parameters.in_features, "numbers": 1}
    max_angle = float(frequencies.max()) * span * (math.pi if parameters.pi else 1)
    return FourierSource(waves, frequencies.size, blocks[order], max_angle)


def _check(coordinates: Coordinates) -> None:
    if not 1 <= coordinates.numbers <= MAX_NUMBERS:
        raise ValueError(f"in_features must be 1 to {MAX_NUMBERS}, got {coordinates.numbers}")
    if coordinates.inputs == "centered" and coordinates.span != 1:
        raise ValueError(f"span must be 1 with inputs=centered, which maps 0..1 to -1..1, got {coordinates.span}")


def _refuse(wrong: bool, names: str, kind: str) -> None:
    if wrong:
        raise UnsupportedSpec(f"{names} go with kind={kind}")


def _matrix(coordinates: Coordinates, features: int | None, weights: Weights) -> Floats:
    """Return the directions, drawn at random or from a file: (numbers, features)."""
    numbers, sizes = coordinates.numbers, {"features": features}
    if numbers > 1:  # files for one number, such as a noise level, hold (features,)
        sizes = {"in_features": numbers, **sizes}
    check_room("a matrix", (numbers, features or 128), "float64")
    matrix = weights.table(sizes, (numbers, 128)[-len(sizes) :])
    return matrix.double().reshape(numbers, -1).numpy()


def _projection(spec: Spec, coordinates: Coordinates, matrix: Floats) -> FourierSource:
    """Return the source of angles 2 pi (x @ matrix)."""
    logs, centered, pairs = coordinates.inputs == "logs", coordinates.inputs == "centered", matrix.shape[1]
    waves = sincos_of_projection(spec, matrix, coordinates.span, logs=logs, centered=centered)
    return FourierSource(waves, pairs, pairs, 2 * math.pi * coordinates.span * float(np.abs(matrix).sum(0).max()))


def _frequencies(kind: Kind, count: int, max_freq: float | tuple[float, ...] | None, numbers: int) -> Floats:
    """Return powers of two, or bands from 1 to half of max_freq, for each number: (count, numbers)."""
    check_room("a token", (count, numbers), "float64")
    if max_freq is None:
        if count > MAX_OCTAVES:
            raise ValueError(f"features must be at most {MAX_OCTAVES} octaves with kind=log, got {count}")
        return np.repeat(2.0 ** np.arange(count)[:, None], numbers, 1)
    highest, share = _highest(max_freq, count, numbers), np.linspace(0, 1, count)[:, None]
    return np.asarray(1 + share * (highest - 1) if kind == "linear" else highest**share)


def _highest(max_freq: float | tuple[float, ...], count: int, numbers: int) -> Floats:
    """Return the highest band of each number: (numbers,)."""
    limits = max_freq if isinstance(max_freq, tuple) else (max_freq,)
    text = ",".join(map(str, limits))
    if len(limits) not in (1, numbers):
        raise ValueError(f"max_freq must be one number, or one for each of {numbers} in_features, got {text}")
    if not all(2 < limit < math.inf for limit in limits):
        raise ValueError(f"max_freq must be finite numbers above 2, twice the lowest band, got {text}")
    if count < 2:
        raise ValueError(f"features must be at least 2 with max_freq, got {count}")
    return np.broadcast_to(np.asarray(limits) / 2, numbers)


def _bands(
    spec: Spec, frequencies: Floats, span: float, *, octaves: bool, pi: bool, by_number: bool
) -> family.FeatureWaves:
    if octaves:
        return sincos_of_octaves(spec, len(frequencies), span, pi=pi, by_number=by_number)
    return sincos_of_bands(spec, frequencies, span, pi=pi, by_number=by_number)
