"""A quick plan: few calls, which take no longer than three of the longest length."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import pytest

from posenc.ports import Axis, Port, fixed
from posenc_export.bundle.case import Case, Padding
from posenc_export.common.errors import NoReference
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.planning.plan import Plan
from posenc_export.proof.planning.quick import absent_reference, cost, covering, quick_plan, shortest
from posenc_export.write.inputs.ports import parse_ports

INPUTS = parse_ports(("input_ids: int64[batch, seq] < 32", "attention_mask: int64[batch, past+seq] mask"))


def case(name: str, batch: int, seq: int, past: int, **more: object) -> Case:
    return Case(name, {"batch": batch, "seq": seq, "past": past}, **more)  # type: ignore[arg-type]


CASES = (
    case("one", 1, 1, 1, padding="none"),
    case("step", 3, 1, 20, padding="left"),
    case("prompt", 1, 64, 64, padding="none"),
    case("batch", 3, 64, 64, padding="right"),
    case("half", 1, 32, 32, padding="left"),
    case("wrong", 1, 2, 2, padding="none", refused=True),
    *(case(f"more{n}", 3, n, n, padding="none") for n in range(8, 60, 4)),
)


def total(cases: Sequence[Case]) -> int:
    return sum(cost(one, INPUTS) for one in cases)


def test_a_quick_plan_takes_three_of_the_longest_calls() -> None:
    few = quick_plan(Plan(CASES, ("large: needs more",)), INPUTS)
    names = [one.name for one in few.cases]
    assert total(few.cases) <= 3 * 128 < total(CASES)
    assert {"one", "step", "prompt", "wrong", "half"} <= set(names), "each property, and the longest"
    assert names == [one.name for one in CASES if one.name in names], "in the order of the plan"
    left = len(CASES) - len(names)
    assert few.not_tried == (
        "large: needs more",
        f"{left} of {len(CASES)} calls, since the proof is quick: --proof full tries them",
    )


@pytest.mark.parametrize("cases", [(CASES[0], CASES[5]), CASES[2:3], ()])
def test_a_plan_that_is_quick_already_stays(cases: tuple[Case, ...]) -> None:
    assert quick_plan(Plan(cases, ()), INPUTS) == Plan(cases, ())


def test_a_large_batch_does_not_take_the_place_of_all_other_calls() -> None:
    cases = (case("batch", 3, 60, 60), case("shorter", 1, 50, 60), case("one", 1, 1, 1), case("step", 1, 1, 60))
    assert [one.name for one in quick_plan(Plan(cases, ()), INPUTS).cases] == ["shorter", "one", "step"]


def test_a_call_without_pictures_costs_what_it_costs() -> None:
    """Of an axis of pictures there may be none, which is no sequence of a batch by which a cost is divided."""
    none = Port("grids", (Axis("images", "batch", least=0), fixed(3)), "int64")
    cases = tuple(replace(one, sizes={**one.sizes, "images": 0}) for one in CASES[:4])
    few = quick_plan(Plan(cases, ()), (*INPUTS, none))
    assert [one.name for one in few.cases] == [one.name for one in quick_plan(Plan(CASES[:4], ()), INPUTS).cases]


def test_few_calls_have_every_pair_of_properties() -> None:
    paddings: tuple[Padding, ...] = ("none", "left", "right")
    cases = [
        case(f"{padding}-{batch}-{seq}-{past}", batch, seq, past, padding=padding)
        for padding, batch, seq, past in product(paddings, (1, 3), (1, 9), (1, 9))
    ]
    few = covering(cases, lambda one: cost(one, INPUTS))
    seen = {
        pair
        for one in few
        for pair in combinations((one.padding, *(f"{name}{size}" for name, size in one.sizes.items())), 2)
    }
    assert len(seen) == 3 * 2 * 3 + 2 * 2 * 3
    assert len(few) <= 8, "of 24 calls, a third has every pair"


def test_where_every_call_has_one_length_three_of_them_are_tried() -> None:
    ports = parse_ports(("pixel_values: float32[batch, 3, 16, 16]",))
    cases = tuple(Case(f"batch{n}", {"batch": n}) for n in (1, 2, 3, 5))
    assert [one.name for one in quick_plan(Plan(cases, ()), ports).cases] == ["batch1", "batch2"]


def test_the_shortest_call_that_is_answered_is_tried_alone() -> None:
    one = shortest(Plan((CASES[5], *CASES[:4]), ("large: needs more",)), INPUTS)
    assert [case.name for case in one.cases] == ["one"]
    assert one.not_tried[1] == "4 of 5 calls, and no tokens: --proof quick or full tries them"
    with pytest.raises(NoReference, match="the proof is of one call"):
        absent_reference({})


@pytest.mark.parametrize(
    ("options", "whole", "large", "proof"),
    [
        (ExportOptions(), True, False, "full"),
        (ExportOptions(), True, True, "quick"),
        (ExportOptions(validate=False), True, True, "one"),
        (ExportOptions(validate=False), False, False, "full"),
        (ExportOptions(validate=False, cpp=True), True, False, "full"),
        (ExportOptions(validate=False, proof="full"), True, False, "full"),
        (ExportOptions(proof="one"), False, False, "one"),
    ],
)
def test_a_whole_model_that_is_not_validated_records_one_call(
    options: ExportOptions, whole: bool, large: bool, proof: str
) -> None:
    assert options.proof_of(whole, large) == proof
