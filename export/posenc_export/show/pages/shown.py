"""The values that the templates of a page are filled with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from posenc.ports import Port, Values
from posenc_export.bundle.carries import kind_of, name_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.rules import rules_of
from posenc_export.proof.judging.verdict import AGREES, Verdict, failed, worst
from posenc_export.proof.report.report import parts_of
from posenc_export.proof.report.rows import MARKS, MEANINGS, figure
from posenc_export.show.pages.call_map import maps_of
from posenc_export.show.pages.checks import checks_of
from posenc_export.show.pages.content import Content
from posenc_export.show.pages.errors import charts_of
from posenc_export.show.pages.snippets import loading_of
from posenc_export.show.pages.texts import MOST
from posenc_export.show.pages.tried import TO_TRY, TRIED, WORDS, has_grid, longest, runtimes_of, summary, tried_of

OUTCOMES = {"skip": "not validated", "fail": "FAILED", "pass": "passed"}
"""What a page says of a bundle, by how it came out."""
NO_COMPARISON = "nothing compared"
"""What it says where checks passed, and no runtime has run the files."""
WHOLE_NUMBER = re.compile(r"(?<!\w)(?<!\d\.)\d{4,}(?!\w|\.\d)")
"""A whole number that takes commas."""


def shown(content: Content) -> Mapping[str, object]:
    """Return the values by the names that templates know them by."""
    result = content.result
    manifest, verdicts = result.manifest, result.verdicts
    # figures are made here, since templates should only lay out
    charts, same = charts_of(verdicts, "place" if has_grid(manifest) else "position")
    calls = tried_of(manifest, verdicts)
    ran = runtimes_of(verdicts)
    mark = "fail" if failed(verdicts) else "pass" if ran else "skip"
    return {
        "parts": parts_of(manifest, verdicts, result.basis),
        "mark": mark,
        "status": NO_COMPARISON if verdicts and mark == "skip" else OUTCOMES[mark],
        "is_validated": bool(verdicts),
        "tiles": _tiles(manifest, verdicts, longest(calls, manifest)),
        "manifest": manifest,
        "subject": _subject(manifest),
        "meanings": MEANINGS,
        "marks": MARKS,
        "checks": checks_of(verdicts),
        "ports": _ports(manifest),
        "charts": charts,
        "same": same,
        "tried": calls,
        "tried_title": TRIED if ran else TO_TRY,
        "tried_words": summary(calls, verdicts, manifest),
        "is_grid": has_grid(manifest),
        "maps": maps_of(calls),
        "outcomes": list(dict.fromkeys(call.outcome for call in calls)),
        "outcome_words": WORDS,
        "loading": loading_of(manifest),
        "graph": content.graph,
        "pictures": content.pictures,
        "unpictured": content.unpictured,
        "shape": _shape,
        "most": MOST,
    }


def _subject(manifest: Manifest) -> str:
    """Return what is proved, in words."""
    if manifest.is_whole:
        return "model"
    return "positional encoding" if rules_of(manifest.family).registered else "module"


def _tiles(manifest: Manifest, verdicts: Sequence[Verdict], longest_call: str) -> list[tuple[str, str, str]]:
    """Return the figures at the top: a name, a figure, and a line below it."""
    ran = [v for v in verdicts if v.check == AGREES and v.status != "skip"]
    compared = [c for v in ran for c in v.comparisons]
    eager, reference = figure(worst(compared, "eager")), figure(worst(compared, "reference"))
    agreed = sum(v.status == "pass" for v in ran)
    return [
        (
            "runtimes",
            f"{agreed} of {len(ran)} agree" if ran else "none ran",
            ", ".join(v.subject for v in ran[:4]) + (", ..." if len(ran) > 4 else ""),
        ),
        ("against eager", eager or "not compared", "the largest difference from the PyTorch module"),
        ("against float64", reference or "not compared", "the largest difference from the reference"),
        ("cases", str(sum(not case.refused for case in manifest.cases)), f"lengths up to {longest_call}"),
    ]


def _ports(manifest: Manifest) -> list[tuple[Port, str, str, str]]:
    """Return each port with its direction, its axes and what it carries, in words."""
    sides = ((port, "in") for port in manifest.inputs), ((port, "out") for port in manifest.outputs)
    return [(port, goes, _axes(port), _carries(port)) for side in sides for port, goes in side]


def _axes(port: Port) -> str:
    # a fixed size of what is no features has that kind, too: it has no other
    is_plain = not isinstance(port.carries, Values)
    axes = (str(axis) if is_plain and not axis.name else f"{axis} ({axis.kind})" for axis in port.axes)
    return ", ".join(axes) or "none: a number"


def _carries(port: Port) -> str:
    """Return what a port carries, with the words for its limits that the C++ class has, and commas in their numbers."""
    words = f"{name_of(port.carries)}{kind_of(port.carries).documented(port.carries, port)}"
    return WHOLE_NUMBER.sub(lambda number: f"{int(number[0]):,}", words)


def _shape(sizes: Sequence[int]) -> str:
    """Return a shape as Python writes it."""
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
