"""The hash grid of Instant-NGP: its hash at figures computed by hand, nerfstudio's formula, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from helpers.shared import Cli
from posenc.encoding import Encoding
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.targets.scheme import scheme_target


def built(**params: Any) -> Encoding:
    return posenc.build("hash_grid", Spec("dynamic"), **params)


def features(encoding: Encoding, x: Array) -> Array:
    """Return the features of points: (points, coordinates) -> (points, levels * features)."""
    with torch.no_grad():
        made: Array = encoding.module(torch.from_numpy(x.astype(np.float32))[None])[0].numpy()
    return made


def numbered(tmp_path: Path, rows: int) -> str:
    """Write tables whose rows hold their own numbers; return the path."""
    np.save(tmp_path / "rows.npy", np.arange(rows, dtype=np.float32)[:, None])
    return str(tmp_path / "rows.npy")


# Corner, cells along a side, log2 of T, and the row: the products modulo 2^32, their xor, and that modulo T.
BY_HAND = [
    # 3, 387276917, 1343251731: 1191511397
    ((3, 5, 7), 16, 19, 329061),
    # 100, 2606174792, 1119789724: 3655970992
    ((100, 200, 300), 512, 19, 110768),
    # 524288, 3668339987, 4027299305: 715512058; its products modulo T do not fit an int32
    ((524288, 3, 5), 524288, 20, 383226),
    # 3, 387276917: 387276918
    ((3, 5), 8, 6, 54),
]


@pytest.mark.parametrize(("corner", "cells", "log2_size", "row"), BY_HAND)
def test_a_corner_has_the_row_of_its_hash(
    corner: tuple[int, ...], cells: int, log2_size: int, row: int, tmp_path: Path
) -> None:
    encoding = built(
        in_features=len(corner),
        levels=1,
        min_resolution=cells,
        log2_size=log2_size,
        dense=False,
        weights=numbered(tmp_path, 2**log2_size),
    )
    x = np.array([corner]) / cells
    assert features(encoding, x).tolist() == [[row]]
    assert encoding.reference({"x": x[None].astype(np.float32)}, None)["y"].tolist() == [[[row]]]


def test_a_coarse_level_has_a_row_for_each_corner(tmp_path: Path) -> None:
    """Two levels of 4 and 8 cells: 25 corners, the first coordinate fastest, and 81, which 64 rows do not hold."""
    encoding = built(
        in_features=2, levels=2, min_resolution=4, growth=2.0, log2_size=6, weights=numbered(tmp_path, 25 + 64)
    )
    corners = np.array([(i, j) for j in range(5) for i in range(5)])
    assert features(encoding, corners / 4)[:, 0].tolist() == list(range(25))
    fine = [25 + ((2 * i) ^ (2 * j * 2654435761 % 2**32)) % 64 for i, j in corners.tolist()]
    assert features(encoding, corners / 4)[:, 1].tolist() == fine


def test_between_corners_it_is_linear_along_each_axis() -> None:
    """tiny-cuda-nn has corners at (i - 0.5) / (N - 1), where this formula has none."""
    encoding = built(in_features=2, levels=1, min_resolution=4, log2_size=6, std=1.0)
    low, high = features(encoding, np.array([[0.25, 0.5], [0.5, 0.5]]))
    inner = features(encoding, np.array([[0.3125, 0.5], [0.375, 0.5]]))
    assert np.allclose(inner, [0.75 * low + 0.25 * high, 0.5 * low + 0.5 * high], atol=1e-6)


def nerfstudio(x: Array, table: Array, first: int, growth: float, levels: int) -> Array:
    """Return what HashEncoding.pytorch_fwd computes: all corners are hashed, each level has as many rows."""
    rows = len(table) // levels
    scaled = x[:, None] * np.floor(first * growth ** np.arange(levels))[:, None]
    low, high = np.floor(scaled).astype(np.int64), np.ceil(scaled).astype(np.int64)
    made = np.zeros((len(x), levels, table.shape[1]))
    for sides in np.ndindex(2, 2, 2):
        corner = np.where(sides, high, low) * np.array([1, 2654435761, 805459861])
        row = np.bitwise_xor.reduce(corner, -1) % rows + np.arange(levels) * rows
        made += np.where(sides, scaled - low, 1 - (scaled - low)).prod(-1)[..., None] * table[row]
    return made.reshape(len(x), -1)


def test_nerfstudios_tables_are_read_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, (4 * 256, 2)).astype(np.float32)
    np.save(tmp_path / "hash_table.npy", table)
    growth = float(np.exp((np.log(50) - np.log(3)) / 3))
    encoding = built(
        levels=4,
        min_resolution=3,
        growth=growth,
        log2_size=8,
        dense=False,
        weights=str(tmp_path / "hash_table.npy"),
    )
    x = rng.uniform(0, 1, (500, 3)).astype(np.float32)
    expected = nerfstudio(x.astype(np.float64), table, 3, growth * (1 + 1e-12), 4)  # the last has 50 cells, not 49
    assert np.abs(features(encoding, x) - expected).max() <= 2e-5


def test_a_growth_that_is_a_root_gives_whole_resolutions() -> None:
    """16 * cbrt(2)^3 is 31.999999999999996 in float64: 32 cells are meant."""
    encoding = built(in_features=1, levels=4, min_resolution=16, growth=2 ** (1 / 3), log2_size=10)
    assert encoding.module.cells.flatten().tolist() == [16, 20, 25, 32]  # type: ignore[operator]


@pytest.mark.parametrize("wrong", [-1e-6, 1 + 1e-6, 1e30, -np.inf, np.nan])
def test_coordinates_beyond_0_to_1_are_refused(wrong: float) -> None:
    encoding = built(in_features=2, levels=2, log2_size=6)
    with pytest.raises(IndexError, match=r"coordinates must be in 0\.\.1, got"):
        features(encoding, np.array([[0.5, 0.5], [0.5, wrong]]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("in_features=4", "in_features must be 1 to 3, got 4"),
        ("features=0", "features must be 1 to 1048576, got 0"),
        ("levels=0", "levels must be 1 to 64, got 0"),
        ("log2_size=0", "log2_size must be 1 to 31, got 0"),
        ("min_resolution=0", "min_resolution must be 1 to 1048576, got 0"),
        ("growth=0.5", "growth must be at least 1, and min_resolution * growth^(levels - 1) at most 1048576, got 0.5"),
        ("growth=1e300", "at most 1048576, got 1e+300"),
        ("growth=nan", "at most 1048576, got nan"),
    ],
)
def test_what_it_refuses(cli: Cli, tmp_path: Path, words: str, message: str) -> None:
    result = cli("export", "hash_grid", "--dynamic", "-p", words, "-o", str(tmp_path / "out"))
    assert (result.exit_code, message in " ".join(result.output.split())) == (2, True), result.output


def test_weights_of_other_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"weights must be \(rows, features\) = \(64, 1\), got \(60, 1\) in "):
        built(levels=1, log2_size=6, weights=numbered(tmp_path, 60))


@pytest.mark.exhaustive
@pytest.mark.parametrize("log2_size", [8, 20])
def test_every_runtime_that_has_its_operators_gives_the_same_bits(log2_size: int, tmp_path: Path) -> None:
    """Where products are below 2^31 integers are int32: tract has no xor of int64, OpenVINO no int64."""
    params = {"levels": 2, "min_resolution": 2**10, "growth": 2.0, "features": 1, "log2_size": log2_size}
    options = ExportOptions(
        ("onnx",), validation=ValidateOptions(runtimes=("ort-cpu", "openvino", "tract", "onnxruntime-web"))
    )
    target = scheme_target("hash_grid", Spec("dynamic", max_len=20), params, 0)
    result = export_target(lambda: target, options, tmp_path / "bundle")
    assert not result.failed, [verdict for verdict in result.verdicts if verdict.status == "fail"]
    assert RUNTIMES["mnn"]  # which has no BitwiseXor
