"""Errors by position as charts: a curve for each group of runtimes that gave the same errors, and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from posenc_export.proof.judging.by_position import bin_of
from posenc_export.proof.judging.verdict import AGREES, Against, Bin, Curve, Verdict
from posenc_export.show.pages.scales import NARROW, WIDE, Box, ErrorScale, PositionScale, Tick, short

MOST = 6
"""Charts, at most."""
POINTS = 600
"""Points of all charts, at most."""
NAMED = 8
"""Runtimes of a curve that are named."""
COLOURS = 6
"""Colours of curves; the next curve has the first again."""
DASH = 8.0
"""Units of the line on either side of a place beside which nothing was tried."""
AGAINST: dict[Against, str] = {
    "reference": "against the float64 reference",
    "eager": "against eager PyTorch",
    "model": "against the model",
}


@dataclass(frozen=True)
class Point:
    """The largest error of a bin of positions: where it is drawn, and its words."""

    x: float
    y: float
    words: str
    wrong: bool


@dataclass(frozen=True)
class ChartLine:
    """A curve of a chart: its points, the path through them, and its number among colours."""

    path: str
    points: tuple[Point, ...]
    colour: int


@dataclass(frozen=True)
class Drawn:
    """A chart at one size."""

    box: Box
    lines: tuple[ChartLine, ...]
    bound: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


@dataclass(frozen=True)
class ErrorSeries:
    """Errors by position, and what gave them: runtimes that gave the same ones, or an encoding of a file."""

    names: tuple[str, ...]
    bins: tuple[Bin, ...]

    @property
    def name(self) -> str:
        """Their names."""
        more = f" and {len(self.names) - NAMED} more" if len(self.names) > NAMED else ""
        return ", ".join(self.names[:NAMED]) + more


@dataclass(frozen=True)
class Reading:
    """How the errors of a chart are read.

    Args:
        joined: Whether neighbouring points are joined: not where only the worst position of each case is known.
        line: What the dashed line is.
        fails: Whether an error above the line is a failure.
        number: Makes words of an error.
        place: What runs from left to right.
    """

    joined: bool = True
    line: str = "allowed"
    fails: bool = True
    number: Callable[[float], str] = short
    place: str = "position"


@dataclass(frozen=True)
class Chart:
    """Errors of an output by position.

    Args:
        title: What is compared with what.
        groups: The curves.
        reading: How they are read.
        drawn: The chart for screens, and for phones.
        words: What the chart shows, for who does not see it.
    """

    title: str
    groups: tuple[ErrorSeries, ...]
    reading: Reading
    drawn: tuple[Drawn, ...]
    words: str

    @property
    def level(self) -> float | None:
        """The height of the dashed line, where it is one."""
        heights = {peak.allowed for group in self.groups for peak in group.bins}
        return heights.pop() if len(heights) == 1 else None


def charts_of(verdicts: Sequence[Verdict], place: str = "position") -> tuple[list[Chart], list[str]]:
    """Return the charts, and lines on what needs none: outputs without any error, and charts beyond the first few.

    Args:
        verdicts: The rows of a report.
        place: What runs along the outputs.
    """
    # bundles of older versions, and results of other programs, know the worst of each call alone
    joined = any(verdict.curves for verdict in verdicts)
    curves = [(v.subject, curve) for v in verdicts for curve in (v.curves if joined else _points(v))]
    keys = dict.fromkeys((curve.output, curve.against) for _, curve in curves)
    # errors against float64 say more than those against eager, which are mostly none
    order = sorted(keys, key=lambda key: key[1] != "reference")
    charts: list[Chart] = []
    left = POINTS
    for output, against in order[:MOST]:
        groups = _groups(
            (name, curve.bins) for name, curve in curves if (curve.output, curve.against) == (output, against)
        )
        # a chart has all of its points or is left out: half of a curve would mislead
        left -= sum(len(group.bins) for group in groups)
        if left >= 0:
            charts.append(chart_of(f"{output} {AGAINST[against]}", groups, Reading(joined, place=place)))
    more = [f"{len(order) - len(charts)} more outputs are not drawn"] if len(order) > len(charts) else []
    return charts, [*_without(verdicts), *more]


def _groups(curves: Iterable[tuple[str, tuple[Bin, ...]]]) -> tuple[ErrorSeries, ...]:
    """Return the curves of runtimes, one for those that gave the same errors."""
    by_bins: dict[tuple[Bin, ...], list[str]] = {}
    for runtime, bins in curves:
        # curves that lie on each other would hide all but the last
        by_bins.setdefault(bins, []).append(runtime)
    return tuple(ErrorSeries(tuple(names), bins) for bins, names in by_bins.items())


def _points(verdict: Verdict) -> Iterator[Curve]:
    """Yield the worst position of each case, where a report has no more."""
    keys = dict.fromkeys((c.output, c.against) for c in verdict.comparisons if c.position is not None and c.max_abs)
    for output, against in keys:
        bins = (
            Bin(c.position, c.max_abs, 0.0 if c.passed else -1.0)
            for c in verdict.comparisons
            if (c.output, c.against) == (output, against) and c.position is not None
        )
        yield Curve(output, against, tuple(sorted(bins, key=lambda peak: peak.position)))


def _without(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a line on the runtimes whose outputs differ nowhere from eager's, or from the reference."""
    for against in ("eager", "reference"):
        same = [v.subject for v in verdicts if v.check == AGREES and _is_same(v, against)]
        if same:
            what = "bits" if against == "eager" else "numbers"
            yield f"the same {what} as {_other(against)} at every position: {ErrorSeries(tuple(same), ()).name}"


def _other(against: str) -> str:
    return "eager PyTorch" if against == "eager" else "the float64 reference"


def _is_same(verdict: Verdict, against: str) -> bool:
    errors = [c.max_abs == 0 and c.passed for c in verdict.comparisons if c.against == against]
    return bool(errors) and all(errors)


def chart_of(title: str, groups: tuple[ErrorSeries, ...], reading: Reading) -> Chart:
    """Return a chart of the errors of runtimes, or of encodings, by position."""
    worst = max((peak for group in groups for peak in group.bins), key=lambda peak: _size(peak.error))
    far = max(peak.position for group in groups for peak in group.bins)
    largest = f"{reading.number(worst.error)}, at {reading.place} {worst.position:,}"
    words = f"{title}: the largest error up to {reading.place} {far:,} is {largest}"
    return Chart(title, groups, reading, tuple(_drawn(groups, reading, box) for box in (WIDE, NARROW)), words)


def _size(error: float) -> float:
    return error if isfinite(error) else float("inf")


def _drawn(groups: Sequence[ErrorSeries], reading: Reading, box: Box) -> Drawn:
    bins = [peak for group in groups for peak in group.bins]
    across = PositionScale(max(peak.position for peak in bins), box.x)
    up = ErrorScale.over([number for peak in bins for number in (peak.error, peak.allowed)], box.y)
    lines = tuple(_line(group, i % COLOURS, reading, (across, up)) for i, group in enumerate(groups))
    return Drawn(box, lines, _bound(bins, across, up), tuple(across.ticks()), tuple(up.ticks()))


def _line(group: ErrorSeries, colour: int, reading: Reading, scales: tuple[PositionScale, ErrorScale]) -> ChartLine:
    across, up = scales
    points = tuple(
        Point(across.at(peak.position), up.at(peak.error), _words(group, peak, reading), _is_wrong(peak, reading))
        for peak in group.bins
    )
    if not reading.joined:
        return ChartLine("", points, colour)
    # a log scale has no 0: a line to it would be a fall through every power of ten, which nobody measured
    kinds = [peak.error == 0 for peak in group.bins]
    gaps = _gaps([peak.position for peak in group.bins])
    breaks = sorted({*gaps, *(i for i in range(1, len(points)) if kinds[i] != kinds[i - 1])})
    runs = [points[start:end] for start, end in pairwise([0, *breaks, len(points)])]
    path = "".join(_path([(point.x, point.y) for point in run]) for run in runs if len(run) > 1)
    return ChartLine(path, points, colour)


def _gaps(positions: Sequence[int]) -> list[int]:
    """Return the indices of positions in front of which nobody tried a whole range, where no line may be."""
    numbers = [bin_of(position) for position in positions]
    return [i for i in range(1, len(numbers)) if numbers[i] > numbers[i - 1] + 1]


def _is_wrong(peak: Bin, reading: Reading) -> bool:
    if not reading.joined:
        return peak.allowed < 0
    return reading.fails and not peak.error <= peak.allowed


def _words(group: ErrorSeries, peak: Bin, reading: Reading) -> str:
    allowed = f", {reading.line} {reading.number(peak.allowed)}" if reading.joined else ""
    return f"{reading.place} {peak.position:,}: {reading.number(peak.error)}{allowed} ({group.name})"


def _bound(bins: Sequence[Bin], across: PositionScale, up: ErrorScale) -> str:
    """Return the path of what is allowed: the least at each position that a curve has, and nothing between others."""
    least: dict[int, float] = {}
    for peak in bins:
        if peak.allowed > 0 and isfinite(peak.allowed):
            least[peak.position] = min(peak.allowed, least.get(peak.position, peak.allowed))
    tried = sorted(least)
    places = [(across.at(position), up.at(least[position])) for position in tried]
    runs = [places[start:end] for start, end in pairwise([0, *_gaps(tried), len(places)])]
    return "".join(_path(_widened(run, across)) for run in runs if run)


def _widened(run: Sequence[tuple[float, float]], across: PositionScale) -> list[tuple[float, float]]:
    """Return places with some room on both sides where they are a single one, or nearly: else they show nothing."""
    (first, start), (last, end) = run[0], run[-1]
    if last - first >= DASH:
        return [*run]
    low, high = across.edges
    return [(max(first - DASH, low), start), *run, (min(last + DASH, high), end)]


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in places) if places else ""
