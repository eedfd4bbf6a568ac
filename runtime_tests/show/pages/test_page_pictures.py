"""Pictures of golden data: of sums what was added, of rotations their angles, of samples what lies without a gap."""

from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from helpers.shared import Cli
from posenc.ports import Floats
from posenc_export.bundle.folder import Bundle
from posenc_export.show.pages.picture import NUMBERS, best, leading, pictures_of
from posenc_export.show.pages.rotations import rotation

Layout = Literal["halves", "neighbours"]


def rotated(x: Floats, angles: Floats, layout: Layout) -> Floats:
    """Return x with pairs rotated, and features beyond them as they were."""
    count = 2 * angles.shape[-1]
    half = count // 2
    first, second = (
        (slice(0, half), slice(half, count)) if layout == "halves" else (slice(0, count, 2), slice(1, count, 2))
    )
    out = x.copy()
    out[..., first] = x[..., first] * np.cos(angles) - x[..., second] * np.sin(angles)
    out[..., second] = x[..., first] * np.sin(angles) + x[..., second] * np.cos(angles)
    return out


@pytest.mark.parametrize("layout", ["halves", "neighbours"])
@pytest.mark.parametrize("width", [8, 12])
def test_angles_are_seen(layout: Layout, width: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, width))
    angles = np.arange(5)[:, None] * 0.5 ** np.arange(4)
    pairs = rotation(x, rotated(x, angles, layout))
    assert pairs is not None
    assert pairs.layout == layout
    np.testing.assert_allclose(pairs.cosines, np.broadcast_to(np.cos(angles), pairs.cosines.shape), atol=1e-12)


def test_what_rotates_nothing_has_no_angles() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 8))
    assert rotation(x, x) is None
    assert rotation(x, x + 1) is None
    assert rotation(x, 2 * x) is None


def test_rows_without_a_gap() -> None:
    assert leading(np.array([0, 1, 2, 50, 51])) == 3
    assert leading(np.arange(4)) == 4
    assert leading(np.array([1, 2])) == 0


def test_the_picture_of_a_sum_is_what_was_added(bundle: Path) -> None:
    (picture,), problem = pictures_of(Bundle.open(bundle))
    assert problem == ""
    positions = np.arange(picture.values.shape[1])
    np.testing.assert_allclose(picture.values[0, :, 0], np.sin(positions), atol=1e-5)
    np.testing.assert_allclose(picture.values[0, :, 1], np.cos(positions), atol=1e-5)
    data = picture.data(lambda text: text)
    numbers = np.frombuffer(b64decode(str(data["numbers"])), "<f2").reshape(picture.values.shape)
    np.testing.assert_allclose(numbers, picture.values, atol=1e-3)


@pytest.mark.exhaustive
def test_of_a_sample_the_first_run_is_shown(cli: Cli) -> None:
    """2048 tokens of two heads are kept at some rows: positions 0 to 127, and others farther out."""
    made = cli(
        "export", "rope", "-p", "head_dim=64", "--positions", "explicit", "-f", "onnx", "--no-validate", "-o", "b"
    )
    assert made.exit_code == 0
    opened = Bundle.open(Path("b"))
    case = best(opened.manifest)
    assert case is not None
    assert case.sizes["seq"] == 2048
    pictures, _ = pictures_of(opened)
    first = pictures[0]
    assert "cosine of each pair's angle (halves)" in first.title
    seq = next(i for i, side in enumerate(first.sides) if side.name == "seq")
    assert first.sides[seq].places == tuple(range(len(first.sides[seq].places)))
    slowest = first.values.take(0, 0).take(0, 0)[:, 0]
    np.testing.assert_allclose(slowest, np.cos(np.arange(len(slowest))), atol=1e-3)
    assert sum(picture.values.size for picture in pictures) <= NUMBERS


def test_golden_data_that_cannot_be_read_have_no_picture(bundle: Path) -> None:
    opened = Bundle.open(bundle)
    (bundle / "golden.npz").write_bytes(b"PK nothing")
    pictures, problem = pictures_of(opened)
    assert (pictures, "is damaged" in problem) == ([], True)
    refused = tuple(replace(case, refused=True) for case in opened.manifest.cases)
    nothing = replace(opened, manifest=replace(opened.manifest, cases=refused))
    assert pictures_of(nothing) == ([], "no call has outputs that are kept whole")
