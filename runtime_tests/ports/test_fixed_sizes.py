"""Modules whose inputs have fixed sizes alone: what is tried of them are numbers."""

from collections.abc import Sequence

import numpy as np
import pytest
from torch import nn

from helpers import idioms
from helpers.own_encodings import encoding_of
from posenc.ports import Port, Positions, Start, fixed
from posenc_export.bundle.case import Case
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.recording.record import record
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.module import own_encoding


def positions_of(cases: Sequence[Case]) -> set[int]:
    return {case.max_position for case in cases if not case.refused}


@pytest.mark.parametrize(
    ("module", "carries"), [(idioms.AddsRows(), Positions(64)), (idioms.AddsRowsFrom(), Start(64))]
)
def test_fixed_sizes_are_tried_at_several_numbers_and_below_the_end(module: nn.Module, carries: object) -> None:
    assert isinstance(carries, Positions | Start)
    axes = (fixed(1), fixed(10)) if isinstance(carries, Positions) else (fixed(1),)
    ports = (Port("x", (fixed(1), fixed(10), fixed(8)), "float32"), Port("p", axes, "int64", carries))
    encoding = own_encoding(module, ports, 40, 0, lambda: module)
    cases = plan(Scope(encoding, {}, 40)).cases
    assert [case.name for case in cases][:3] == ["fixed", "fixed-draw2", "fixed-draw3"]
    assert max(positions_of(cases)) == 63
    golden = record(encoding, cases, 0).cases
    assert len({one.feeds["x"].tobytes() for one in golden[:3]}) == 3


@pytest.mark.parametrize("text", ["t: float32[] in -2..7", "t: float32[1] in -2..7", "t: int64[1] in -2..7"])
def test_one_number_of_a_range_is_either_end_too(text: str) -> None:
    encoding = encoding_of(idioms.Affine(), text)
    golden = record(encoding, plan(Scope(encoding, {}, 40)).cases, 0).cases
    numbers = [float(one.feeds["t"].item()) for one in golden]
    assert -2 <= numbers[0] <= 7
    assert numbers[1:] == [-2, 7]


def test_numbers_without_an_axis_are_arrays() -> None:
    ports = parse_ports(("t: float32[] in 0..10", "x: float32[]", "i: int64[] < 5", "b: bool[]"))
    feeds = feeds_for(ports, Case("fixed", {}), 0)
    assert [(array.shape, array.dtype.name) for array in feeds.values()] == [
        ((), "float32"),
        ((), "float32"),
        ((), "int64"),
        ((), "bool"),
    ]
    assert all(isinstance(array, np.ndarray) for array in feeds.values())
