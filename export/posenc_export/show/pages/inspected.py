"""The page of an inspection: what a file holds, on a picture of its layers, its errors by position, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from posenc_export.common.markdown import count_of, html_lines
from posenc_export.proof.judging.by_position import bin_of
from posenc_export.proof.judging.verdict import Bin
from posenc_export.read import (
    ASKED_COLUMNS,
    Finding,
    FoundEncoding,
    Inspection,
    asked_row,
    finding_words,
    parameters_in_words,
)
from posenc_export.show.pages.errors import Chart, ErrorSeries, Reading, chart_of
from posenc_export.show.pages.page import environment, template
from posenc_export.show.pages.policy import policy
from posenc_export.show.pages.scales import at_most
from posenc_export.show.pages.texts import MOST, Room
from posenc_export.show.scrolling import scrolling

MARKS_OF_SEVERITIES = {"error": "fail", "warning": "skip", "note": "skip"}
"""The style of a finding, by its severity."""
ERROR_FINDINGS = ("off-formula", "half-noise")
"""Findings on errors by position."""
FRAME = "width: 100%; height: 40rem; border: 0"
"""The style of the frame in which a notebook shows a page."""
LAYERS = 64
"""Layers that are drawn."""
ROW, CELL, LABEL, LETTER = 26.0, 15.0, 190.0, 7.0
"""Units of the picture of layers: the height of a row, the width of a layer, that of names, and of a letter."""


@dataclass(frozen=True)
class Band:
    """An encoding in the picture of layers.

    Args:
        name: what it is called.
        colour: the number of its colour.
        y: where its row is.
        cells: where the layers are before which it meets data; the first place is in front of all layers.
        words: the same in words.
    """

    name: str
    colour: int
    y: float
    cells: tuple[float, ...]
    words: str


@dataclass(frozen=True)
class LayerPicture:
    """A file's layers from left to right, and a row for each encoding: its size, its rows, and ticks under them."""

    width: float
    height: float
    bands: tuple[Band, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Advice:
    """A finding with what it means and what to do."""

    finding: Finding
    status: str
    failure: str
    remedy: str


def inspection_page(inspection: Inspection) -> str:
    """Return the page of an inspection: one HTML file that loads nothing."""
    named = inspection.named
    severities = [entry.severity for entry in inspection.findings]
    styles = (scrolling(), template("page.css"))
    room = Room()
    return (
        environment(room)
        .get_template("inspection.html.jinja")
        .render(
            inspection=inspection,
            verdict=inspection.verdict,
            mark="fail" if "error" in severities else "skip" if severities or inspection.not_judged else "pass",
            encodings=[(name_of(encoding), encoding, parameters_in_words(encoding.parameters)) for encoding in named],
            advice=[advice_on(entry) for entry in inspection.findings],
            tiles=_tiles(inspection, named),
            layers=layers_of(named, inspection.attentions),
            charts=[chart for encoding in named for chart in charts_of(encoding, inspection.findings)],
            asked_columns=ASKED_COLUMNS,
            asked_row=asked_row,
            at_most=at_most,
            count_of=count_of,
            most=MOST,
            policy=policy((), styles, {}),
            styles=[Markup(text) for text in styles],
        )
    )


def inspection_in_notebook(inspection: Inspection) -> str:
    """Return the verdict, and the page in a frame: its styles, and what a file calls its tensors, stay in there."""
    page = escape(inspection_page(inspection))
    frame = f'<iframe title="positions in an ONNX file" sandbox style="{FRAME}" srcdoc="{page}"></iframe>'
    return f"{html_lines([f'{inspection.file}: {inspection.verdict}'])}\n{frame}"


def name_of(encoding: FoundEncoding) -> str:
    """Return what an encoding is called: its kind, and the form within it."""
    return encoding.family + (f" ({encoding.name})" if encoding.name not in ("", encoding.family) else "")


def advice_on(finding: Finding) -> Advice:
    """Return a finding with the words of its code."""
    (words,) = (entry for entry in finding_words() if entry.code == finding.code)
    return Advice(finding, MARKS_OF_SEVERITIES[finding.severity], words.failure, words.remedy)


def _tiles(inspection: Inspection, named: Sequence[FoundEncoding]) -> list[tuple[str, str, str]]:
    """Return the figures at the top: a name, a figure, and a line below it."""
    measured = [(max(e.errors.errors), e) for e in named if e.errors is not None and e.errors.errors]
    worst = max(measured, key=lambda pair: pair[0], default=None)
    ends = [end.last_right for end in inspection.ends if end.last_right is not None]
    names = ", ".join(dict.fromkeys(name_of(one) for one in named))
    return [
        (
            "encodings",
            str(len(named)),
            names or "none was recognised",
        ),
        (
            "against float64",
            "not measured" if worst is None else at_most(worst[0]),
            "the largest error of a number that follows from positions" if worst is None else name_of(worst[1]),
        ),
        ("longest call", f"{min(ends):,}" if ends else "no end met", "positions along a dynamic axis"),
        ("not judged", str(len({entry.place for entry in inspection.not_judged})), "places in the file"),
    ]


def charts_of(encoding: FoundEncoding, findings: Sequence[Finding] = ()) -> list[Chart]:
    """Return the chart of an encoding's errors, or none where they were not measured or are all 0.

    Args:
        encoding: An encoding.
        findings: Those of its file: without one on its errors, none of them is wrong.
    """
    measured = encoding.errors
    if measured is None or not any(error > 0 for error in measured.errors):
        return []
    worst: dict[int, Bin] = {}
    for position, error in zip(measured.positions, measured.errors, strict=True):
        number = bin_of(position)
        if number not in worst or error > worst[number].error:
            worst[number] = Bin(position, error, measured.bound)
    bins = tuple(worst[number] for number in sorted(worst))
    about = (measured.tensor or encoding.where, encoding.where)
    fails = any(entry.name in ERROR_FINDINGS and entry.where in about for entry in findings)
    # without a finding nothing demands this: a line of `posenc inspect` says from which position on errors are larger
    line = "allowed" if fails else "reported above"
    reading = Reading(line=line, fails=fails, number=at_most, place=measured.place)
    return [chart_of(f"{name_of(encoding)} against float64", (ErrorSeries((name_of(encoding),), bins),), reading)]


def layers_of(named: Sequence[FoundEncoding], count: int) -> LayerPicture | None:
    """Return the picture of a file's layers; None where nothing has a name, or no attention is in the file.

    Args:
        named: the encodings of the file.
        count: how many attentions it has.
    """
    if not named or not count:
        return None
    drawn = min(count, LAYERS)
    label = max(LABEL, *(LETTER * len(name_of(encoding)) for encoding in named))
    places = [label + CELL * i for i in range(drawn + 1)]
    bands = tuple(_band(encoding, i, places) for i, encoding in enumerate(named))
    numbers = range(0, drawn, max(1, -(-drawn // 8)))
    ticks = ((places[0], "input"), *((places[1 + number], str(number)) for number in numbers))
    return LayerPicture(places[-1] + CELL + 40, ROW * len(named) + 30, bands, ticks)


def _band(encoding: FoundEncoding, index: int, places: Sequence[float]) -> Band:
    inside = [layer for layer in encoding.layers if layer + 1 < len(places)]
    cells = tuple(places[layer + 1] for layer in inside) if encoding.layers else (places[0],)
    where = f"before {count_of('layer', len(encoding.layers))}" if encoding.layers else "in front of all layers"
    return Band(name_of(encoding), index % 6, ROW * index + 6, cells, f"{name_of(encoding)}: {where}")
