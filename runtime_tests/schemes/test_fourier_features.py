"""Fourier features, against SAM's and diffusers' modules, a NumPy NeRF, and the float64 formula."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from helpers.shared import Cli, one_of_each
from posenc.encoding import Encoding
from posenc.ports import Array, Floats, Values
from posenc.sincos.octaves import digits, parts_of
from posenc.spec import Method, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case

ANY = Case("any", {})
METHODS: tuple[Method, ...] = ("exact", "trig")


def built(method: Method = "exact", **params: Any) -> Encoding:
    torch.manual_seed(0)
    return posenc.build("fourier_features", Spec("dynamic", method), **params)


def numbers(encoding: Encoding, tokens: int = 3000) -> Array:
    """Return coordinates over the range, its ends, and what lies on both sides of the places of digits."""
    port = encoding.inputs[0]
    assert isinstance(port.carries, Values)
    low, high = port.carries.low, port.carries.high
    assert low is not None
    assert high is not None
    drawn = np.random.default_rng(0).uniform(low, high, (1, tokens, port.axes[-1].size or 0))
    edges = np.array([low, high, (low + high) / 2, low + (high - low) / 4, low + (high - low) / 2048, 1e-9])
    drawn[0, : len(edges)] = np.clip(edges, low, high)[:, None]
    drawn[0, 10:20] = np.nextafter(drawn[0, :10].astype(np.float32), 0)
    return np.clip(drawn, low, high).astype(np.float32)


def called(encoding: Encoding, x: Array) -> Array:
    y: Array = encoding.module(torch.from_numpy(x)).detach().numpy()
    return y


def nerf(x: Array, octaves: int, pi: bool) -> Floats:
    """Return x and its octaves as NeRF's code lays them out: a list of functions, each of all coordinates."""
    outputs = [x.astype(np.float64)]
    for k in range(octaves):
        for wave in (np.sin, np.cos):
            outputs.append(wave(2.0**k * x.astype(np.float64) * (np.pi if pi else 1.0)))
    return np.concatenate(outputs, -1)


@pytest.mark.parametrize("pi", [True, False])
@pytest.mark.parametrize(("octaves", "span"), [(10, 1.0), (4, 4.0), (15, 2.5), (1, 0.5)])
def test_octaves_are_those_of_nerf_to_3e_7(octaves: int, span: float, pi: bool) -> None:
    encoding = built(kind="log", in_features=3, features=octaves, span=span, pi=pi, include_input=True)
    x = numbers(encoding)
    y = called(encoding, x)
    assert np.abs(y - nerf(x, octaves, pi)).max() <= 3e-7
    assert np.abs(encoding.reference({"x": x}, None)["y"] - nerf(x, octaves, pi)).max() < 1e-9
    assert encoding.tolerance(ANY).atol == pytest.approx(3e-7, rel=1e-2)
    trig = built("trig", kind="log", in_features=3, features=octaves, span=span, pi=pi, include_input=True)
    assert np.abs(called(trig, x) - nerf(x, octaves, pi)).max() <= trig.tolerance(ANY).atol


def test_an_octave_without_digits_left_is_exact_all_the_same() -> None:
    """Of 2^30 pi x, float32 has no digit left that a sine needs, and nothing is lost in taking whole circles off."""
    encoding = built(kind="log", in_features=1, features=31)
    x = numbers(encoding)
    whole = np.fmod(2.0**30 * x.astype(np.float64), 2.0)
    y = called(encoding, x)[..., -2:]
    assert np.abs(y - np.concatenate([np.sin(np.pi * whole), np.cos(np.pi * whole)], -1)).max() <= 3e-7


def test_the_three_orders_of_octaves() -> None:
    x = np.array([[[0.1, 0.3]]], np.float32)
    angle = np.pi * np.array([[1, 2, 4], [1, 2, 4]]) * x[0, 0, :, None].astype(np.float64)  # (numbers, octaves)
    s, c = np.sin(angle), np.cos(angle)
    rows: dict[str, list[float]] = {
        "octaves": [*s[:, 0], *c[:, 0], *s[:, 1], *c[:, 1], *s[:, 2], *c[:, 2]],
        "numbers": [value for n in range(2) for k in range(3) for value in (s[n, k], c[n, k])],
        "halves": [*s[0], *s[1], *c[0], *c[1]],
    }
    for order, row in rows.items():
        y = called(built(kind="log", features=3, order=order), x)
        np.testing.assert_allclose(y[0, 0], row, rtol=0, atol=3e-7)
    swapped = called(built(kind="log", features=3, order="halves", flip_sin_to_cos=True), x)
    np.testing.assert_allclose(swapped[0, 0], [*c[0], *c[1], *s[0], *s[1]], rtol=0, atol=3e-7)


@pytest.mark.parametrize("std", one_of_each([40.0, 10.0, 1.0], lambda _: ""))
@pytest.mark.parametrize("inputs", ["as_given", "centered"])
def test_random_directions_are_right_to_3e_7(inputs: str, std: float) -> None:
    encoding = built(inputs=inputs, std=std, features=256)
    x = numbers(encoding)
    torch.manual_seed(0)
    matrix = (torch.randn(2, 256) * std).double().numpy()
    at = x.astype(np.float64)
    angle = 2 * np.pi * ((2 * at - 1 if inputs == "centered" else at) @ matrix)
    y = called(encoding, x)
    assert np.abs(y - np.concatenate([np.sin(angle), np.cos(angle)], -1)).max() <= 3e-7
    assert encoding.eager_tolerance(ANY).bits
    largest = std * (2 if inputs == "centered" else 1)  # of a coordinate in 0..1 a direction is twice as long
    assert encoding.tolerance(ANY).atol <= 3.001e-7 * max(1, largest / 16)
    wide = built(inputs=inputs, std=std, features=256, flip_sin_to_cos=True, include_input=True)
    expected = np.concatenate([at, np.cos(angle), np.sin(angle)], -1)
    assert np.abs(called(wide, x) - expected).max() <= 3e-7


@pytest.mark.parametrize("std", [300.0, 3000.0])
def test_of_large_matrices_the_tolerance_says_what_is_lost(std: float) -> None:
    encoding = built(std=std)
    x = numbers(encoding)
    off = np.abs(called(encoding, x) - encoding.reference({"x": x}, None)["y"]).max()
    assert 3e-7 < encoding.tolerance(ANY).atol < 1e-8 * std * 2
    assert off <= encoding.tolerance(ANY).atol
    trig = built("trig", std=std)
    assert off < np.abs(called(trig, x) - trig.reference({"x": x}, None)["y"]).max() / 100


def test_beyond_the_span_errors_grow_and_nothing_breaks() -> None:
    encoding = built()
    x = 1000 * numbers(encoding)
    off = np.abs(called(encoding, x) - encoding.reference({"x": x}, None)["y"]).max()
    assert off < 1000 * 6 * 2 * math.pi * 2.0**-23 * 10


@pytest.mark.parametrize("method", METHODS)
def test_they_are_those_of_sam(method: Method, tmp_path: Path) -> None:
    sam = pytest.importorskip("transformers.models.sam.modeling_sam")
    config = pytest.importorskip("transformers").SamVisionConfig(num_pos_feats=64)
    theirs = sam.SamPositionalEmbedding(config)
    file = tmp_path / "sam.pt"
    torch.save({"shared_image_embedding.positional_embedding": theirs.positional_embedding.detach()}, file)
    key = "shared_image_embedding.positional_embedding"
    ours = built(method, inputs="centered", weights=str(file), key=key)
    x = numbers(ours)
    expected = theirs(torch.from_numpy(x)[:, None])[:, 0].detach().numpy()
    # Their float32: roundings of 2x - 1, of two products and a sum, of 2 pi and its product.
    largest = 2 * math.pi * float(theirs.positional_embedding.detach().abs().sum(0).max())
    assert np.abs(called(ours, x) - expected).max() <= 6 * 2.0**-23 * largest


@pytest.mark.parametrize("logs", [True, False])
def test_they_are_those_of_diffusers(logs: bool, tmp_path: Path) -> None:
    gaussian = pytest.importorskip("diffusers.models.embeddings").GaussianFourierProjection
    theirs = gaussian(embedding_size=32, scale=16.0, log=logs, flip_sin_to_cos=True)
    np.save(tmp_path / "weight.npy", theirs.weight.numpy())
    ours = built(
        in_features=1,
        weights=str(tmp_path / "weight.npy"),
        inputs="logs" if logs else "as_given",
        span=4.0,
        flip_sin_to_cos=True,
    )
    x = numbers(ours)
    expected = theirs(torch.from_numpy(x[0, :, 0])).numpy()
    largest = 2 * math.pi * 4 * float(theirs.weight.abs().max())
    assert np.abs(called(ours, x)[0] - expected).max() <= 6 * 2.0**-23 * largest
    off = np.abs(called(ours, x) - ours.reference({"x": x}, None)["y"]).max()
    assert off <= ours.tolerance(ANY).atol
    assert ours.eager_tolerance(ANY).bits != logs
    assert logs or off <= 3e-7


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_parts_of_a_number_have_as_many_digits_as_asked_for(bits: int) -> None:
    first, second, rest = parts_of(math.pi / 2, bits)
    assert first + second + rest == math.pi / 2
    for part in (first, second):
        assert math.frexp(part)[0] * 2**bits % 1 == 0
    assert (digits(torch.float32), digits(torch.float64)) == (24, 53)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("in_features=0",), "in_features must be 1 to 1024, got 0"),
        (("features=0",), "features must be at least 1, got 0"),
        (("kind=log", "features=65"), "features must be at most 64 octaves with kind=log, got 65"),
        (
            ("kind=log", "pi=false", "features=30"),
            "2^(features - 1) * span must be at most 65536 without pi, got 5.37e+08",
        ),
        (("span=0",), "span must be a finite number above 0, got 0.0"),
        (("std=inf",), "std must be a finite number above 0, got inf"),
        (("span=2", "inputs=centered"), "span must be 1 with inputs=centered, which maps 0..1 to -1..1, got 2.0"),
        (("kind=log", "inputs=logs"), "inputs, weights and key go with kind=gaussian"),
        (("order=octaves",), "order, pi and max_freq go with kind=log or linear"),
        (("pi=false",), "order, pi and max_freq go with kind=log or linear"),
        (("key=B",), "key names a tensor in a file: give weights=FILE beside key=B"),
        (("weights=no.npy",), "weights: no such file: no.npy"),
    ],
)
def test_a_bad_parameter_is_one_line(cli: Cli, given: tuple[str, ...], line: str) -> None:
    words = [word for one in given for word in ("-p", one)]
    result = cli("export", "fourier_features", "--dynamic", *words, "-o", "out")
    assert result.exit_code == 2
    assert result.output.strip() == f"Error: {line}"


def test_a_matrix_of_another_shape_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "B.npy"
    np.save(file, np.zeros((64, 2), np.float32))
    with pytest.raises(ValueError, match=r"weights must be \(in_features, features\) = \(2, 2\), got \(64, 2\) in "):
        built(weights=str(file))
    with pytest.raises(ValueError, match=r"= \(64, 3\), got \(64, 2\) in "):
        built(weights=str(file), in_features=64, features=3)
    with pytest.raises(UnsupportedSpec, match="between which no table has rows; use --dynamic"):
        posenc.build("fourier_features", Spec("baked"))
