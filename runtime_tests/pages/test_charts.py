"""Charts of a page: curves of runtimes with the same errors, what is allowed, points of old reports, calls on a map."""

from dataclasses import replace

import numpy as np
import pytest

from posenc_export.proof.judging.verdict import Bin, Comparison, Curve, Verdict
from posenc_export.show.pages.content import Content
from posenc_export.show.pages.errors import MOST, charts_of
from posenc_export.show.pages.scales import WIDE, ErrorScale, PositionScale
from posenc_export.show.pages.tried import tried_of

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
    assert (chart.joined, chart.drawn[0].bound, chart.drawn[0].lines[0].path) == (False, "", "")
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
    assert [up.at(error) for error in (1e-5, 1e-7, 0.0, float("nan"))] == [*WIDE.y, WIDE.y[1], WIDE.y[0]]


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
