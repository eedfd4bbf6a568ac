"""Fourier features of bands up to a highest one, against timm's values, Perceiver's function, and a NumPy loop."""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import posenc
from helpers.shared import Cli
from posenc.encoding import Encoding
from posenc.ports import Array, Floats
from posenc.spec import Method, Spec
from posenc_export.bundle.case import Case

TIMM = Path(__file__).parents[1] / "data" / "timm_fourier_5x6.npy"
ANY = Case("any", {})
KINDS: tuple[Literal["log", "linear"], ...] = ("log", "linear")


def built(method: Method = "exact", **params: Any) -> Encoding:
    return posenc.build("fourier_features", Spec("dynamic", method), **params)


def called(encoding: Encoding, x: Array) -> Array:
    y: Array = encoding.module(torch.from_numpy(x)).detach().numpy()
    return y


def numbers(span: float, count: int) -> Array:
    """Return coordinates over the range, with its ends, its middle and quarters."""
    drawn = np.random.default_rng(0).uniform(-span, span, (1, 3000, count))
    drawn[0, :7] = (np.array([-1, -0.5, 0, 0.25, 0.5, 1, 1e-9]) * span)[:, None]
    return drawn.astype(np.float32)


def bands(kind: str, most: float, count: int) -> list[float]:
    """Return the frequencies, by the words of timm's pixel_freq_bands and Perceiver's generate_fourier_features."""
    if kind == "linear":
        return [1 + i * (most / 2 - 1) / (count - 1) for i in range(count)]
    return [2 ** (i * math.log2(most / 2) / (count - 1)) for i in range(count)]


def by_hand(x: Array, kind: str, most: tuple[float, ...], count: int) -> Floats:
    """Return x, all sines number by number, then all cosines, of pi x times each band, in float64."""
    angles = []
    for number, highest in enumerate(most):
        for band in bands(kind, highest, count):
            angles.append(np.pi * (x[..., number].astype(np.float64) * band))
    waves = [*map(np.sin, angles), *map(np.cos, angles)]
    return np.concatenate([x.astype(np.float64), np.stack(waves, -1)], -1)


def test_they_are_those_of_timm() -> None:
    """timm 1.0.31, `build_fourier_pos_embed([5, 6], num_bands=8, max_res=64, include_grid=True)`: float32 angles."""
    golden = np.load(TIMM)
    ours = built(kind="log", features=8, max_freq=64, include_input=True)
    x = np.ascontiguousarray(golden[..., :2])  # torch.linspace(-1, 1, 5) by torch.linspace(-1, 1, 6)
    y = called(ours, x)
    # Their bands and angles are rounded: of 32 pi, four times half an eps.
    assert np.abs(y - golden).max() <= 4 * 2.0**-24 * 32 * math.pi
    assert np.abs(y - by_hand(x, "log", (64.0, 64.0), 8)).max() <= 3e-7
    np.testing.assert_array_equal(y[..., :2], x)


@pytest.mark.parametrize("most", [(64.0, 64.0), (224.0, 10.0), (3.0, 4.0, 700.0)])
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_right_to_3e_7(kind: str, most: tuple[float, ...]) -> None:
    params: dict[str, Any] = {"kind": kind, "in_features": len(most), "features": 9, "max_freq": most}
    ours = built(**params, include_input=True)
    x = numbers(1.0, len(most))
    expected = by_hand(x, kind, most, 9)
    assert np.abs(called(ours, x) - expected).max() <= 3e-7
    assert np.abs(ours.reference({"x": x}, None)["y"] - expected).max() < 1e-11
    assert ours.tolerance(ANY).atol <= (3.001e-7 if max(most) <= 224 else 1e-6)
    assert ours.eager_tolerance(ANY).bits
    trig = built("trig", **params, include_input=True)
    assert np.abs(called(trig, x) - expected).max() <= trig.tolerance(ANY).atol


@pytest.mark.parametrize(("most", "span"), [(5000.0, 1.0), (64.0, 40.0), (1e5, 2.0)])
def test_of_high_bands_the_tolerance_says_what_is_lost(most: float, span: float) -> None:
    ours = built(kind="log", in_features=1, features=20, max_freq=most, span=span)
    x = numbers(span, 1)
    off = np.abs(called(ours, x) - by_hand(x, "log", (most,), 20)[..., 1:]).max()
    assert off <= ours.tolerance(ANY).atol < 1.5e-9 * most * span


def test_whole_octaves_are_bands_too() -> None:
    x = numbers(1.0, 2)
    octaves = built(kind="log", features=6, order="halves")
    ours = built(kind="log", features=6, max_freq=2.0**6)
    assert np.abs(called(octaves, x) - called(ours, x)).max() <= 3e-7


@pytest.mark.parametrize("pi", [True, False])
@pytest.mark.parametrize("order", ["halves", "octaves", "numbers"])
def test_bands_lie_in_the_orders_of_octaves(order: str, pi: bool) -> None:
    x = numbers(1.0, 3)
    params: dict[str, Any] = {"kind": "log", "in_features": 3, "features": 5, "order": order, "pi": pi}
    ours = built(**params, max_freq=2.0**5, include_input=True, flip_sin_to_cos=True)
    octaves = built(**params, include_input=True, flip_sin_to_cos=True)
    assert np.abs(called(ours, x) - called(octaves, x)).max() <= 3e-7
    assert np.abs(ours.reference({"x": x}, None)["y"] - octaves.reference({"x": x}, None)["y"]).max() < 1e-12


def test_they_are_those_of_perceiver() -> None:
    perceiver = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    ours = built(kind="linear", features=16, max_freq=(56, 24), include_input=True)
    x = numbers(1.0, 2)
    theirs = perceiver.generate_fourier_features(torch.from_numpy(x), 16, (56, 24)).numpy()
    assert np.abs(called(ours, x) - theirs).max() <= 4 * 2.0**-24 * 28 * math.pi
    usual = built(kind="linear", include_input=True)
    theirs = perceiver.generate_fourier_features(torch.from_numpy(x), 10).numpy()
    assert np.abs(called(usual, x) - theirs).max() <= 4 * 2.0**-24 * 112 * math.pi


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("kind=log", "max_freq=2"), "max_freq must be finite numbers above 2, twice the lowest band, got 2.0"),
        (
            ("kind=linear", "max_freq=8,inf"),
            "max_freq must be finite numbers above 2, twice the lowest band, got 8.0,inf",
        ),
        (
            ("kind=log", "max_freq=8,8,8"),
            "max_freq must be one number, or one for each of 2 in_features, got 8.0,8.0,8.0",
        ),
        (("max_freq=8",), "order, pi and max_freq go with kind=log or linear"),
        (("kind=linear", "max_freq=8", "features=1"), "features must be at least 2 with max_freq, got 1"),
        (("kind=linear", "max_freq=8", "key=a"), "inputs, weights and key go with kind=gaussian"),
    ],
)
def test_bad_bands_are_one_line(cli: Cli, given: tuple[str, ...], line: str) -> None:
    words = [word for one in given for word in ("-p", one)]
    result = cli("export", "fourier_features", "--dynamic", *words, "-o", "out")
    assert (result.exit_code, result.output.strip()) == (2, f"Error: {line}")
