"""Ranges of integers: `ids: int64[batch, seq] in 2..98` feeds nothing else, anywhere."""

import numpy as np
import pytest
from torch import Tensor, nn

from posenc.encoding import Encoding, Tolerance, no_tables
from posenc.ports import BATCH, SEQ, Port, Values
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.consistency import misfits
from posenc_export.write.cpp.example import _vector
from posenc_export.write.formats.calls import calls_of
from posenc_export.write.inputs.ports import parse_port
from posenc_export.write.targets.feeds import feeds_for

CASE = Case("call", {"batch": 3, "seq": 200})


def ids(low: int, high: int, dtype: str = "int64") -> Port:
    return Port("ids", (BATCH, SEQ), dtype, Values(low, high))


@pytest.mark.parametrize(
    ("low", "high", "dtype"), [(2, 98, "int64"), (-7, 3, "int32"), (-(2**63) + 1, 2**63 - 1, "int64")]
)
def test_integers_of_a_range_are_fed_with_both_ends(low: int, high: int, dtype: str) -> None:
    feed = feeds_for((ids(low, high, dtype),), CASE, 0)["ids"]
    assert feed.dtype == np.dtype(dtype)
    assert (int(feed.min()), int(feed.max())) == (low, high)
    assert len(np.unique(feed)) > 5


def test_an_integer_may_be_the_same_in_every_call() -> None:
    port = parse_port("attention_mask: int64[batch, seq] in 1..1")
    assert (feeds_for((port,), CASE, 0)["attention_mask"] == 1).all()


def test_integers_without_a_range_are_0_and_1() -> None:
    assert set(feeds_for((Port("ids", (BATCH, SEQ), "int64"),), CASE, 0)["ids"].flat) == {0, 1}


class NoPadding(nn.Module):
    """Refuses id 0 and 1, as models do that read a position off them."""

    def forward(self, ids: Tensor) -> Tensor:
        if ids.min() < 2:
            raise ValueError("padding")
        return ids


def test_sizes_are_tried_with_integers_of_the_range() -> None:
    port = ids(2, 98)
    encoding = Encoding(
        "module", NoPadding(), (port,), (port,), lambda *_: {}, lambda _: Tolerance(), lambda _: Tolerance(),
        no_tables("none"),
    )  # fmt: skip
    assert calls_of(encoding).taken([{"batch": 2, "seq": 5}]) == [{"batch": 2, "seq": 5}]


def test_the_example_for_cpp_fills_in_the_least_and_the_class_says_the_range() -> None:
    fractions = Port("t", (BATCH,), "float32", Values(0, 1))
    assert "(Model::ids_size(axes), 2)" in _vector(ids(2, 98), {})
    documented = [kind_of(port.carries).documented(port.carries, port) for port in (ids(2, 98), fractions)]
    assert documented == [" in 2..98", ""]


@pytest.mark.parametrize(
    ("values", "dtype", "fits"),
    [
        (Values(2, 98), "int64", True),
        (Values(), "int64", True),
        (Values(0.5, 9), "int64", False),
        (Values(9, 2), "int64", False),
        (Values(1, 1), "int64", True),
        (Values(1, 1), "float32", False),
        (Values(0, 2.0**31), "int32", False),
        (Values(0, 1e300), "int64", False),
        (Values(0.5, 9), "float32", True),
    ],
)
def test_a_manifest_says_a_range_that_the_dtype_holds(values: Values, dtype: str, fits: bool) -> None:
    port = Port("ids", (BATCH, SEQ), dtype, values)
    lines = [line for line in misfits((port,), (), [CASE]) if "must be a range" in line]
    assert (lines == []) == fits
