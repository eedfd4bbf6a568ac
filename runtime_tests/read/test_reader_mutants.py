"""A sample of the files that were broken on purpose: each change that matters is an error that names it."""

import re
from pathlib import Path

import pytest

from helpers.foreign.files import foreign_files
from helpers.foreign.read import config
from helpers.made_parts import part_of
from helpers.reader_mutants import Right, broken, held, outcome
from helpers.shared import ROOT

AT_LEAST = 0.98
QUICK = {"gptj": "gptj.plain-old.onnx", "opt": "opt.plain-old.onnx", "mpt": "mpt.plain-new.onnx"}
MORE = {
    "gemma3": "gemma3.plain-new.onnx",
    "whisper": "whisper.transformers.exporters.onnx",
    "phi3": "phi3.plain-new.onnx",
    "t5": "t5.plain-old.onnx",
    "swin": "swin.plain-old.onnx",
    "gpt_neox": "gpt_neox.transformers.exporters-ort_fusions.onnx",
}
SAMPLE = [*QUICK.items(), *(pytest.param(*item, marks=pytest.mark.exhaustive) for item in MORE.items())]


@pytest.mark.parametrize(("model", "file"), SAMPLE)
def test_what_is_broken_is_found_and_named(model: str, file: str, tmp_path: Path) -> None:
    beside = tmp_path / "config.json"
    beside.write_text(config(model), encoding="utf-8")
    (path,) = [path for path, truth in foreign_files([model]) if truth.file == file and _kept(path, tmp_path)]
    right = Right(tmp_path / path.name)
    assert [entry.detail for entry in held(right.path, beside) if entry.severity == "error"] == []
    made = [outcome(right, entry, beside, tmp_path) for entry in broken(right)]
    # trained rows can only be left out: nothing says what is right in them
    assert sum(entry.matters for entry in made) >= (4 if model in QUICK else 2)
    survivors = part_of(ROOT / "docs" / "reference" / "measured" / "reading.md", "mutants")
    missed = [entry for entry in made if entry.matters and not entry.named]
    assert [entry for entry in missed if f"* {file}: {entry.kind} (" not in survivors] == []


def _kept(path: Path, folder: Path) -> bool:
    """Copy a file that goes when the next one comes."""
    (folder / path.name).write_bytes(path.read_bytes())
    return True


def test_the_written_table_reaches_the_figure() -> None:
    text = part_of(ROOT / "docs" / "reference" / "measured" / "reading.md", "mutants")
    row = next(line for line in text.splitlines() if line.startswith("| all |"))
    _, matter, found, named = (int(cell) for cell in re.split(r" *\| *", row.strip("| "))[1:])
    assert min(found, named) >= AT_LEAST * matter > 500
    assert "on which 0 errors are reported" in text
