"""What inspect says of foreign files is the truth: a sample of the sweep, and the table that the sweep has written."""

import re

import pytest

from helpers.foreign.files import foreign_files, foreign_table
from helpers.foreign.read import scored
from helpers.misread import inspected
from helpers.shared import ROOT

AT_LEAST = 0.95
SAMPLE = {
    "llama": ("fault-zero", "fault-traced-table", "fault-bfloat16-angles", "plain-new.ORT-float16"),
    "llama-yarn": ("fault-no-attention-factor", "fault-yarn-no-truncate", "onnxruntime-genai"),
    "smollm3": ("fault-nope-inverted",),
    "gptj": ("fault-halves",),
    "gpt_neox": ("fault-last-features",),
    "two-thetas": ("plain-old", "fault-one-table", "fault-ids-of-batch-1", "fault-three-inputs"),
    "phi3": ("plain-new", "onnxruntime-genai", "mobius"),
    "mpt": ("plain-old.rows-int8",),
    "conformer": ("plain-old.MatMulNBits", "transformers.exporters-ort_fusions"),
    "vit": ("optimum",),
    "whisper": ("transformers.exporters",),
    "dinov3": ("plain-old",),
    "unet": ("plain-new",),
}
"""Files by their models: every fault that one interpretation shows, and those that were misread before."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", SAMPLE)
def test_a_sample_is_read_as_it_is(model: str) -> None:
    names = {f"{model}.{name}.onnx" for name in SAMPLE[model]}
    found = {truth.file: scored(path, truth).misses for path, truth in foreign_files([model]) if truth.file in names}
    assert found == dict.fromkeys(names, ())


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", sorted({*SAMPLE, "detr", "conformer-rotary"}))
def test_what_follows_a_formula_is_measured(model: str) -> None:
    """Nothing of other people's files fails a bound because nobody looked."""
    for path, truth in foreign_files([model], optimizers=[""], faulty=False):
        encodings = [entry for entry in inspected(path).encodings if entry.family != "not recognised"]
        assert encodings, truth.file
        assert [entry.name for entry in encodings if entry.errors is None and not entry.is_trained] == [], truth.file


def test_the_written_table_is_of_all_files_and_reaches_the_figures() -> None:
    page = (ROOT / "docs" / "reference" / "measured" / "reading.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| all |"))
    files, *counts, false = re.split(r" *\| *", row.strip("| "))[1:]
    truths = foreign_table().truths
    totals = [
        sum(len(truth.in_file) for truth in truths),
        sum(truth.end.first is not None for truth in truths),
        sum(bool(truth.must_find) for truth in truths),
    ]
    pairs = [tuple(map(int, count.split(" of "))) for count in counts]
    assert (int(files), [total for _, total in pairs], int(false)) == (len(truths), totals, 0)
    assert all(right >= AT_LEAST * total for right, total in pairs)
    assert pairs[2][0] == totals[2]
