"""The largest errors by position: two bins a doubling, the worst of all cases, an element beyond its bound first."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from posenc.ports import BATCH, SEQ, Array, Port, Positions, Values, fixed
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.apart.parent import in_process
from posenc_export.proof.judging.by_position import JudgedOutput, bins_of, curves_of, positions_of_rows
from posenc_export.proof.judging.verdict import AGREES, Bin, Comparison, Curve, ValidateOptions

X = Port("x", (BATCH, SEQ, fixed(2)), "float32", Values())
IDS = Port("ids", (BATCH, SEQ), "int64", Positions(100))


def comparison(case: str) -> Comparison:
    return Comparison(case, "y", "reference", 1.0, 0.0, 0, True)


def test_bins_are_two_a_doubling() -> None:
    positions = np.arange(2**12)
    bins = bins_of(np.ones((1, 2**12, 1)), np.ones(()), 1, positions)
    edges = [one.position for one in bins]
    assert len(bins) == 1 + 2 * 12 - 1  # from 1 to 2 there is one position, and one bin
    assert edges[:8] == [0, 1, 2, 3, 4, 6, 8, 12]
    assert all(1.3 < b / a < 1.55 for a, b in pairwise(edges[4:]))


def test_a_bin_holds_its_largest_error_and_what_is_allowed_there() -> None:
    error: Array = np.zeros((2, 8, 3))
    error[1, 5, 2], error[0, 4, 0], error[0, 7, 1] = 0.5, 0.25, 0.125
    allowed = np.broadcast_to(np.arange(3) + 1.0, error.shape)
    bins = {one.position: one for one in bins_of(error, allowed, 1, np.arange(8))}
    assert (bins[5], bins[7]) == (Bin(5, 0.5, 3.0), Bin(7, 0.125, 2.0))
    assert bins[0].error == bins[1].error == 0


def test_an_element_beyond_its_bound_comes_before_a_larger_error() -> None:
    error, allowed = np.array([[[0.5], [0.4]]]), np.array([[[1.0], [0.1]]])
    (one,) = bins_of(error, allowed, 1, np.array([100, 101]))
    assert one == Bin(101, 0.4, 0.1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_the_largest_error(wrong: float) -> None:
    (one,) = bins_of(np.array([[[0.5], [wrong]]]), np.ones(()), 1, np.array([100, 101]))
    assert (one.position, one.error) == (101, np.inf)


def test_a_curve_is_the_worst_of_all_cases() -> None:
    of_cases = [
        JudgedOutput(comparison("a"), (Bin(0, 0.1, 1.0), Bin(4, 0.3, 1.0))),
        JudgedOutput(comparison("b"), (Bin(5, 0.2, 1.0), Bin(9, 0.1, 1.0))),
        JudgedOutput(comparison("c"), (Bin(5, 0.2, 0.1),)),
        JudgedOutput(comparison("d")),
    ]
    assert curves_of(of_cases) == (Curve("y", "reference", (Bin(0, 0.1, 1.0), Bin(5, 0.2, 0.1), Bin(9, 0.1, 1.0))),)
    assert curves_of([JudgedOutput(comparison("a"))]) == ()


def test_positions_are_those_that_were_fed() -> None:
    ids = np.array([[7, 3, 50], [0, 7, 3]])
    feeds = {"x": np.zeros((2, 3, 2)), "ids": ids}
    assert positions_of_rows((X, IDS), feeds, "seq", np.array([0, 2]), 0).tolist() == [7, 50]
    assert positions_of_rows((X,), feeds, "seq", np.array([0, 2]), 10).tolist() == [10, 12]
    assert positions_of_rows((X, IDS), feeds, "other", np.array([1]), 10).tolist() == [11]


def test_a_bundle_that_is_off_far_out_shows_where(bundle: Path) -> None:
    """The reference is moved at one position: the curve has its error there, above the bound."""
    from helpers.bundles import replace_array

    def moved(array: Array) -> Array:
        changed = array.copy()
        if changed.shape[1] > 20:
            changed[0, 20] += 1e-3
        return changed

    replace_array(bundle, ".reference", moved)
    options = ValidateOptions(runtimes=("ort-cpu",))
    with in_process(bundle, options, False) as validate:
        (row,) = (v for v in validate(Bundle.open(bundle)) if v.check == AGREES)
    (curve,) = row.curves
    (far,) = [one for one in curve.bins if one.error > one.allowed]
    assert (row.status, curve.against, far.position) == ("fail", "reference", 20)
    assert far.error == pytest.approx(1e-3, rel=0.01)
