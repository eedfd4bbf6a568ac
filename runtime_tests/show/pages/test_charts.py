"""Charts of a page: curves of runtimes with the same errors, what is allowed, points of old reports, calls on a map."""

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import cast

import numpy as np
import pytest

from posenc.ports import BATCH, SEQ, Axis, Mask, Port, Positions, Start, Values, fixed
from posenc_export.bundle.case import Case
from posenc_export.proof.judging.verdict import Bin, Comparison, Curve, Verdict
from posenc_export.proof.report.report import ReportParts
from posenc_export.show.pages.call_map import maps_of
from posenc_export.show.pages.content import Content
from posenc_export.show.pages.errors import DASH, MOST, charts_of
from posenc_export.show.pages.scales import WIDE, ErrorScale, PositionScale
from posenc_export.show.pages.shown import shown
from posenc_export.show.pages.tried import summary, tried_of

BINS = (Bin(0, 1e-7, 1e-6), Bin(1, 0.0, 1e-6), Bin(1000, 2e-7, 1e-6))


def row(subject: str, *curves: Curve, against: float = 1e-7) -> Verdict:
    compared = (
        Comparison("a", "y", "eager", 0.0, 0.0, None, True),
        Comparison("a", "y", "reference", against, 1.0, 7, True),
    )
    return Verdict(subject, "agrees", "pass", "", compared, curves=curves)


def test_runtimes_with_the_same_errors_are_one_curve() -> None:
    other = Curve("y", "reference", (Bin(0, 3e-7, 1e-6),))
    curve = Curve("y", "reference", BINS)
    (chart,), lines = charts_of([row("ort-cpu", curve), row("ort-cpp", curve), row("tract", other)])
    assert [group.name for group in chart.groups] == ["ort-cpu, ort-cpp", "tract"]
    assert lines == ["the same bits as eager PyTorch at every position: ort-cpu, ort-cpp, tract"]
    assert "the largest error up to position 1,000 is 3e-07, at position 0" in chart.words
    wide = chart.drawn[0]
    assert (len(wide.lines[0].points), wide.lines[0].points[1].y) == (3, wide.box.y[1]), "no error lies at the bottom"
    assert not any(point.wrong for line in wide.lines for point in line.points)


@pytest.mark.parametrize("error", [2e-6, float("nan"), float("inf")])
def test_an_error_beyond_the_bound_is_marked(error: float) -> None:
    curve = Curve("y", "reference", (*BINS, Bin(2000, error, 1e-6)))
    (chart,), _ = charts_of([row("ort-cpu", curve)])
    assert [point.wrong for point in chart.drawn[0].lines[0].points] == [False, False, False, True]


def test_of_a_report_without_curves_the_worst_positions_are_drawn() -> None:
    (chart,), _ = charts_of([row("ort-cpu")])
    assert (chart.reading.joined, chart.drawn[0].bound, chart.drawn[0].lines[0].path) == (False, "", "")
    assert [peak.position for peak in chart.groups[0].bins] == [7]


def test_outputs_beyond_the_first_few_are_counted() -> None:
    curves = [Curve(f"y{i}", "reference", BINS) for i in range(MOST + 3)]
    charts, lines = charts_of([row("ort-cpu", *curves)])
    assert (len(charts), lines[-1]) == (MOST, "3 more outputs are not drawn")


def test_scales() -> None:
    across = PositionScale(1023, WIDE.x)
    assert [across.at(p) for p in (-5, 0, 1023)] == [WIDE.x[0], WIDE.x[0], WIDE.x[1]]
    assert across.at(31) == pytest.approx(np.mean(WIDE.x))
    assert [tick.label for tick in across.ticks()] == ["0", "1", "10", "100", "1k"]
    up = ErrorScale.over([2e-7, 5e-6, 0.0, float("inf")], WIDE.y)
    assert (up.low, up.high) == (-7, -5)
    # an error of 0 has a place of its own, below the smallest power
    assert [up.at(error) for error in (1e-5, 1e-7, 0.0, float("nan"))] == [*up.powers, WIDE.y[1], WIDE.y[0]]
    assert up.powers[1] < WIDE.y[1]
    assert [tick.label for tick in up.ticks()] == ["0", "1e-7", "1e-6", "1e-5"]
    assert ErrorScale.over([2e-7], WIDE.y).powers == WIDE.y
    below = PositionScale(1023, WIDE.x, -65)
    assert [below.at(p) for p in (-100, -65, 1023)] == [WIDE.x[0], WIDE.x[0], WIDE.x[1]]
    assert below.at(-65) < below.at(-1) < below.at(0) < below.at(1)
    assert below.ticks()[0].label == "-65"


def test_points_are_joined_where_all_between_them_was_tried() -> None:
    """Ranges 0, 1, 2, 3 and 4 follow each other; nothing was tried from 6 to 999."""
    bins = tuple(Bin(p, 1e-7, 1e-6) for p in (0, 1, 2, 3, 4, 1000, 1100))
    (chart,), _ = charts_of([row("ort-cpu", Curve("y", "reference", bins))])
    drawn = chart.drawn[0]
    for path in (drawn.lines[0].path, drawn.bound):
        assert [part.count("L") for part in path.split("M")[1:]] == [4, 1]


def test_what_is_allowed_at_a_place_alone_is_a_short_line() -> None:
    bins = tuple(Bin(p, 1e-7, 1e-6) for p in (0, 1, 100, 2**20))
    (chart,), _ = charts_of([row("ort-cpu", Curve("y", "reference", bins))])
    for drawn in chart.drawn:
        runs = [[float(place.split()[0]) for place in run.split("L")] for run in drawn.bound.split("M")[1:]]
        assert [len(run) for run in runs] == [2, 3, 3]
        assert all(drawn.box.x[0] <= run[0] < run[-1] <= drawn.box.x[1] for run in runs)
        assert all(DASH <= run[-1] - run[0] <= 2 * DASH for run in runs[1:])


def test_no_line_falls_to_an_error_of_0() -> None:
    """An error of 0 is below every power of ten: what lies between it and another error was not measured."""
    errors = (0.0, 0.0, 1e-7, 2e-7, 0.0, 3e-7)
    curve = Curve(
        "y", "reference", tuple(Bin(p, error, 1e-6) for p, error in zip((0, 1, 2, 3, 4, 6), errors, strict=True))
    )
    (chart,), _ = charts_of([row("ort-cpu", curve)])
    line = chart.drawn[0].lines[0]
    assert len(line.points) == len(errors)
    heights = [[place.split()[1] for place in run.split("L")] for run in line.path.split("M")[1:]]
    assert [len(run) for run in heights] == [2, 2]
    assert len({*heights[0]}) == 1


def test_a_call_that_begins_below_0_ends_where_its_tokens_do(content: Content) -> None:
    """Of calls that must be refused none hides another: those at one place are counted."""
    manifest = content.result.manifest
    calls = [
        Case(f"at{first}", {"seq": 2}, first, 1 if first < 0 else first + 1, True) for first in (-65, -64, -1, 7)
    ] + [Case("q-seq1", {"seq": 2}, 7, 8, True), Case("right", {"seq": 2}, 0, 1)]
    tried = tried_of(replace(manifest, cases=tuple(calls)), [])
    spans = {call.name: (call.first, call.last) for call in tried}
    assert spans == {
        "at-65": (-65, -64),
        "at-64": (-64, -63),
        "at-1": (-1, 0),
        "at7": (7, 8),
        "q-seq1": (7, 8),
        "right": (0, 1),
    }
    assert summary(tried, [], manifest) == "1 call of up to 2 tokens, positions up to 1, 5 calls that must be refused"
    for drawn in maps_of(tried):
        counts = {mark.names: mark.count is not None for mark in drawn.marks}
        assert counts == {"right": False, "at-65 at-64": True, "at-1": False, "at7 q-seq1": True}


def test_signs_of_one_kind_and_numbers_lie_on_nothing(content: Content) -> None:
    """Many calls that must be refused, many others, and failed ones lie close to each other, at every edge."""
    manifest, draw = content.result.manifest, Random(7)
    for _ in range(20):
        far, tall = draw.choice((3, 100, 2**24)), draw.choice((1, 30, 4096))
        cases = tuple(
            Case(
                f"c{i}", {"seq": draw.randint(1, tall)}, first := draw.randint(-5, far), first + 9, draw.random() < 0.5
            )
            for i in range(draw.randint(1, 60))
        )
        wrong = tuple(Comparison(c.name, "y", "reference", 1.0, 1.0, 0, False) for c in cases[::3] if not c.refused)
        calls = tried_of(replace(manifest, cases=cases), [Verdict("ort-cpu", "agrees", "fail", "", wrong)])
        for drawn in maps_of(calls):
            assert sum(len(mark.calls) for mark in drawn.marks) == len(cases)
            numbers = [mark.count for mark in drawn.marks if mark.count is not None]
            assert len(numbers) == sum(len(mark.calls) > 1 for mark in drawn.marks)
            assert all(number.lies_in(drawn.box) for number in numbers)
            others = [mark.sign for mark in drawn.marks]
            assert not any(number.meets(other) for number in numbers for other in others)
            assert not any(a.meets(b) for a, b in combinations(numbers, 2))
            for a, b in combinations(drawn.marks, 2):
                same = (a.is_refusal, a.calls[0].outcome) == (b.is_refusal, b.calls[0].outcome)
                assert not (same and a.sign.meets(b.sign))


def test_a_call_that_is_refused_for_its_numbers_has_the_positions_of_its_tokens(content: Content) -> None:
    port = Port("x", (BATCH, SEQ), "float32", Values(0, 1, strict=True))
    cases = (Case("right", {"batch": 1, "seq": 3}, 0, 2), Case("wrong", {"batch": 1, "seq": 2}, 2, 3, True))
    right, wrong = sorted(
        tried_of(replace(content.result.manifest, inputs=(port,), cases=cases), []), key=lambda call: call.name
    )
    assert (right.positions, wrong.positions) == ("0 to 2", "0 to 1")
    assert (right.fed, wrong.fed) == ("batch 1, seq 3", "batch 1, seq 2, every number 2")


def test_the_longest_call_is_one_number_everywhere(content: Content) -> None:
    """64 tokens beside as many in a cache are 128 along the axis of both; places of an image have no positions."""
    cached = Port("mask", (BATCH, Axis("past+seq", "length")), "int64", Mask())
    image = Port("x", (BATCH, Axis("height", "grid"), Axis("width", "grid")), "float32", Values())
    tokens = Port("ids", (BATCH, SEQ), "int64", Values())
    expected = {
        (tokens, cached): (
            "64 (128 along past+seq)",
            "1 call of up to 64 (128 along past+seq) tokens, positions up to 127",
        ),
        (image,): ("12", "1 call of up to 12 places along a side"),
    }
    for inputs, (length, words) in expected.items():
        sizes = {"seq": 64, "past": 64} if inputs[0] is tokens else {"height": 12, "width": 5}
        case = Case("a", sizes, 0, 127 if inputs[0] is tokens else 11)
        manifest = replace(content.result.manifest, inputs=inputs, cases=(case,))
        values = shown(replace(content, result=replace(content.result, manifest=manifest, verdicts=())))
        assert values["tried_words"] == words
        assert cast(list[tuple[str, str, str]], values["tiles"])[-1][-1] == f"lengths up to {length}"


def test_ports_say_a_range_once_and_large_numbers_with_commas(content: Content) -> None:
    ports = (
        Port("positions", (BATCH, SEQ), "int64", Positions(2**24)),
        Port("start", (fixed(1),), "int64", Start(2**24)),
        Port("x", (BATCH, fixed(3)), "float32", Values(-2048, 2048, strict=True)),
    )
    manifest = replace(content.result.manifest, inputs=ports, outputs=(), max_len=2048)
    values = shown(replace(content, result=replace(content.result, manifest=manifest)))
    rows = [(axes, carries) for _, _, axes, carries in cast(list[tuple[Port, str, str, str]], values["ports"])]
    assert rows == [
        ("batch (batch), seq (length)", "positions < 16,777,216"),
        ("1", "start < 16,777,216"),
        ("batch (batch), 3 (features)", "values in -2,048..2,048"),
    ]
    assert cast(ReportParts, values["parts"]).facts["validated up to length"] == "2,048"


def test_calls_with_their_outcomes(content: Content) -> None:
    manifest, verdicts = content.result.manifest, content.result.verdicts
    calls = {call.name: call for call in tried_of(manifest, verdicts)}
    assert {call.outcome for call in calls.values()} == {"pass", "refused"}
    assert {name for name, call in calls.items() if call.outcome == "refused"} == {
        case.name for case in manifest.cases if case.refused
    }
    refused = next(case.name for case in manifest.cases if case.refused)
    answered = Verdict("ort-cpu", "refusal", "fail", f"{refused}: gave an answer, expected an error")
    again = {call.name: call.outcome for call in tried_of(manifest, [*verdicts, answered])}
    assert again == {**{name: call.outcome for name, call in calls.items()}, refused: "fail"}
    nothing = {call.outcome for call in tried_of(replace(manifest), [])}
    assert nothing == {"skip"}
