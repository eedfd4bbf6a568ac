"""Nothing passes in silence: ways in which positions enter a graph, and what must be said of each."""

from pathlib import Path

import onnx
import pytest

from helpers.entrances import SAID, Entrance, all_entrances, model_of
from helpers.misread import inspected
from posenc_export.read.inspection import Inspection

QUICK = {
    "stored rows: behind Cast",
    "rows at clipped places",
    "stored rows join: gates",
    "rows that a scan takes with tokens",
    "sines join: Max",
    "places through a weight of one column",
    "a bias of all pairs",
    "queries by rows that are skewed",
    "a matrix of each place",
    "MultiHeadAttention: a bias of all pairs",
    "no position: a bias of tokens that are mixed",
    "no position: registers",
    "no position: layers that a scan takes",
}
"""One of each kind, which the quick run reads."""
ENTRANCES = [
    pytest.param(entry, id=entry.name, marks=[] if entry.name in QUICK else [pytest.mark.exhaustive])
    for entry in all_entrances()
]
BESIDE = "beside_sum"


def said(made: Inspection) -> set[str]:
    """Return what is said of a graph: families, and whether something was not recognised."""
    families = {entry.family for entry in made.encodings if BESIDE not in entry.nodes}
    # errors of a short call are known: what is said of them is no answer
    places = [entry for entry in made.not_judged if not entry.reason.startswith("errors of ")]
    return families | ({SAID} if places else set())


def read(folder: Path, entrance: Entrance, is_beside: bool) -> Inspection:
    path = folder / "entered.onnx"
    onnx.save(model_of(entrance, is_beside), path)
    return inspected(path)


@pytest.mark.parametrize("is_beside", [False, True], ids=["alone", "beside a named table"])
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_enters_is_said(tmp_path: Path, entrance: Entrance, is_beside: bool) -> None:
    made = read(tmp_path, entrance, is_beside)
    words = said(made)
    assert words <= set(entrance.families), "a false name"
    assert bool(words) == bool(entrance.families), "silence, or a word about nothing"
    assert made.passed
    assert any(BESIDE in entry.nodes for entry in made.encodings) == is_beside


def test_the_quick_ones_are_there() -> None:
    assert {entry.name for entry in all_entrances()} >= QUICK


def test_a_kind_has_one_name() -> None:
    names = [entry.name for entry in all_entrances()]
    assert len(names) == len(set(names))
