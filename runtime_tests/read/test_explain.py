"""`--explain` says what is seen at a node, which formulas were asked about it, and how near each came."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest

from helpers.foreign.files import foreign_files
from helpers.graph_files import written
from helpers.misread import NUMBERS, biased
from helpers.shared import Cli, Once, sample_bundle
from posenc.formulas.fitting import FITS, KINDS, Answer, Guess, Kind, Observation, find_scheme, heard, looked_at
from posenc.scheme import SCHEMES
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inspection import Explained, Inspection
from posenc_export.read.report.schema import inspection_json, inspection_read

SPACING = 2.0**-23
CUBES = -0.01 * np.abs(np.arange(12)[:, None] - np.arange(12)) ** 3 * np.array([1.0, 0.5])[:, None, None]
"""A bias that no formula gives: it falls with the cube of the distance."""
HOW = Examining("model.onnx", None, 120.0, lambda _: None)


def examined(path: Path, *names: str) -> Inspection:
    """Return what is said of a file, and of nodes there."""
    graph = read_graph(path)
    return examine(graph, facts_of(graph, path.name), replace(HOW, explain=names))


def fits_of(told: Explained) -> set[str]:
    """Return the schemes whose formulas were asked."""
    return {fit.scheme for seen in told.observed for fit in seen.fits}


def cubes(tmp_path: Path) -> Path:
    """Write a file with a bias that no formula gives."""
    slopes = np.array([-0.01, -0.005], np.float32).reshape(2, 1, 1)
    used = {name: NUMBERS[name] for name in ("zero", "one", "two", "axis1")}
    return written(
        tmp_path,
        biased("s = Mul (d, d)  a = Abs (d)  t = Mul (s, a)  bias = Mul (t, slopes)", 2),
        {**used, "slopes": slopes},
    )


def test_each_kind_has_a_line_and_a_fit() -> None:
    assert set(KINDS) == set(get_args(Kind))
    assert {kind for fit in FITS.values() for kind in fit.kinds} == set(KINDS)


def test_a_listener_hears_what_fits_answer() -> None:
    with heard() as asked, looked_at("bias"):
        assert find_scheme(Observation("bias", CUBES, SPACING)) is None
    find_scheme(Observation("bias", CUBES, SPACING))
    (one,) = asked
    assert one.places == {"bias"}
    assert {answer.scheme for answer in one.answers} >= {"alibi", "swin_bias", "kerple"}
    assert not any(answer.agrees for answer in one.answers)


def test_the_nearest_of_several_guesses_is_kept() -> None:
    seen, answer = Observation("factor", np.array([1.0, 2.0, 4.0]), SPACING), Answer("any")
    for off in (0.5, 0.125, 0.25):
        assert answer.take(seen, Guess({"off": off}, seen.numbers + off)) is None
    assert answer.take(seen, Guess({"off": 0}, seen.numbers[:2])) is None
    assert (answer.guesses, answer.off, answer.nearest and answer.nearest.parameters) == (4, 0.125, {"off": 0.125})
    assert answer.take(seen, Guess({}, seen.numbers)) is not None


def test_what_is_not_recognised_is_explained_without_being_asked_for(tmp_path: Path) -> None:
    made = examined(cubes(tmp_path))
    assert [entry.family for entry in made.encodings] == ["not recognised"]
    (told,) = made.explained
    assert not told.is_asked
    (bias,) = (seen for seen in told.observed if seen.kind == "bias")
    assert bias.shapes == ("2x13x13",)
    assert bias.numbers[:2] == pytest.approx((0.0, -0.01))
    assert bias.stored == ("slopes float32[2, 1, 1]",)
    assert "kerple" in fits_of(told)
    assert inspection_read(json.dumps(inspection_json(made))).explained == made.explained


def test_a_name_that_the_file_has_not_gets_one_line_with_near_names(tmp_path: Path, cli: Cli) -> None:
    result = cli("inspect", str(cubes(tmp_path)), "--explain", "biass")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "no node, and no value, of the file is called 'biass': near ones are bias" in line


def test_a_table_says_how_near_each_formula_came(tmp_path: Path, cli: Cli) -> None:
    result = cli("inspect", str(cubes(tmp_path)), "--explain", "y", "--explain", "q")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    first, second = lines.index(next(line for line in lines if line.startswith("y, Add"))), lines.index("")
    assert second < first
    assert "  takes x float32[1, 2, 13, 13] (data)" in lines
    assert any(line.split()[:2] == ["kerple", "0"] for line in lines)
    # of a value on the way it says where it was asked about
    assert any(line.startswith("q, Unsqueeze: asked about what") for line in lines)


def test_several_files_cannot_be_explained_at_once(tmp_path: Path, cli: Cli) -> None:
    result = cli("inspect", str(cubes(tmp_path)), str(tmp_path / "other.onnx"), "--explain", "y")
    assert result.exit_code == 2
    assert "--explain is for one file: got 2" in result.stderr


def outputs(once: Once, name: str) -> Iterator[Explained]:
    """Yield what is said of the outputs of a scheme's own file, in its first mode that can be read."""
    none = {**SCHEMES[name].unsupported.modes, **SCHEMES[name].unsupported.reading}
    mode = next(mode for mode in ("dynamic", "baked") if mode not in none)
    path = sample_bundle(once, f"{name} {mode}") / "model.onnx"
    names = [output.name for output in onnx.load(path, load_external_data=False).graph.output]
    yield from (one for one in examined(path, *names).explained if one.is_asked)


def is_read(name: str) -> bool:
    """Return whether a mode of a scheme is read back."""
    none = {**SCHEMES[name].unsupported.modes, **SCHEMES[name].unsupported.reading}
    return not {"dynamic", "baked"} <= set(none)


QUICK = ("alibi", "fire", "swin_cpb", "t5_bias")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.exhaustive]) for name in SCHEMES if is_read(name)],
)
def test_fits_are_asked_about_the_outputs_of_every_scheme(once: Once, name: str) -> None:
    for told in outputs(once, name):
        assert fits_of(told), told


NODES = 5
"""Nodes of a foreign file that are explained."""


@pytest.mark.parametrize("model", ["gpt2", pytest.param("llama", marks=pytest.mark.exhaustive), "swin", "t5"])
def test_nodes_of_foreign_files_that_are_not_recognised_say_what_is_there(model: str) -> None:
    for path, _ in foreign_files(models=[model], exporters=["plain new"], optimizers=[""]):
        made = examined(path)
        known = {node for entry in made.encodings for node in entry.nodes}
        others = [node.name for node in read_graph(path).nodes if node.name not in known]
        names = others[:: len(others) // NODES + 1]
        told = examined(path, *names).explained
        assert [entry.name for entry in told if entry.is_asked] == names
        for entry in told:
            assert entry.words or fits_of(entry), entry
            assert all("float32[" in line or "int64[" in line or "bool[" in line for line in entry.operands), entry
