"""Golden data of a large model: a bundle keeps some calls, which `validate` tries; all were tried at export."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.golden import GOLDEN

WORDS = ("export", "helpers.broken:Good", "-i", "x: float32[batch, seq, 8]", "--max-len", "50", "--runtime", "ort-cpu")
LIMIT = 30_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.proof.exporter.keeping.LARGEST", LIMIT)


def test_all_calls_are_kept_of_a_small_model(cli: Cli, tmp_path: Path) -> None:
    assert cli(*WORDS, "-f", "onnx", "-o", str(tmp_path / "all")).exit_code == 0
    assert "golden data keep" not in (tmp_path / "all" / "report.md").read_text()


@pytest.mark.usefixtures("small")
def test_a_bundle_keeps_the_smallest_calls_of_each_kind(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    result = cli(*WORDS, "-f", "onnx", "-o", str(folder), "--json")
    assert result.exit_code == 0, result.output
    bundle = Bundle.open(folder, trusted=True)
    kept = {case.name for case in bundle.manifest.cases}
    report = json.loads(result.stdout)
    tried = {c["case"] for row in report["verdicts"] for c in row.get("comparisons", ())}
    assert kept < tried
    (line,) = [note for note in bundle.manifest.notes if note.startswith("golden data keep")]
    assert line in report["notes"]
    assert line.startswith(f"golden data keep {len(kept)} of ")
    with np.load(folder / GOLDEN) as arrays:
        assert {name.partition("/")[0] for name in arrays.files} == kept
        assert sum(arrays[name].nbytes for name in arrays.files) <= LIMIT
    sizes = [case.sizes for case in bundle.manifest.cases]
    assert {size["seq"] == 1 for size in sizes} == {size["batch"] == 1 for size in sizes} == {True, False}
    again = cli("validate", str(folder), "--runtime", "ort-cpu")
    assert again.exit_code == 0, again.output


@pytest.mark.usefixtures("small")
def test_the_same_model_keeps_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    for name in ("first", "second"):
        assert cli(*WORDS, "-f", "onnx", "-q", "-o", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / "first" / GOLDEN).read_bytes() == (tmp_path / "second" / GOLDEN).read_bytes()


@pytest.mark.usefixtures("small")
def test_the_replay_of_cpp_has_the_calls_that_are_kept(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    result = cli(*WORDS, "-f", "onnx", "-q", "--cpp", "-o", str(folder))
    assert result.exit_code == 0, result.output
    replayed = {path.name.partition(".")[0] for path in (folder / "cpp" / "golden").iterdir()}
    cases = Bundle.open(folder, trusted=True).manifest.cases
    assert replayed == {case.name for case in cases if not (case.unlike or case.hard)}
    assert cli("validate", str(folder), "--runtime", "ort-cpu").exit_code == 0
