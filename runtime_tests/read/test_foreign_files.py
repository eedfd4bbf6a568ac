"""The checked-in files of other people's exporters are those of the table, and the table says what models hold."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet

from helpers.foreign.built import TRACED, config_of, make
from helpers.foreign.files import FOLDER, archive_of, digest_of, foreign_files, foreign_table
from helpers.foreign.models import ROTARY, ROWS
from helpers.foreign.towers import TINY
from helpers.foreign.truth import FAMILIES, Held, read_table, write_table
from posenc.rope_types import ROPE_TYPES

MODELS = sorted({truth.model for truth in foreign_table().truths})
LARGEST = 3_000_000
"""Bytes that may be checked in."""
OF_TABLE = {"head_dim", "rotary_dim", "layout", "attention_factor", "rope_theta", "rows"}
"""Parameters of a rotary encoding beside those of its rope type."""


def test_archives_are_small_and_each_has_a_model() -> None:
    archives = sorted(path.name for path in FOLDER.glob("*.tar.xz"))
    assert archives == sorted(archive_of(model).name for model in MODELS)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LARGEST


@pytest.mark.parametrize("model", MODELS)
def test_an_archive_holds_the_files_of_the_table(model: str) -> None:
    truths = {truth.file: truth for truth in foreign_table().truths if truth.model == model}
    with tarfile.open(archive_of(model)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            content, truth = file.read(), truths.pop(member.name)
            assert (len(content), digest_of(content)) == (truth.size, truth.sha256)
            assert b"site-packages" not in content  # no traces of the machine that made it
    assert not truths


def test_files_are_unpacked_one_at_a_time() -> None:
    names = []
    for path, truth in foreign_files(models=["bert"], exporters=["plain old"], optimizers=[""]):
        assert digest_of(path.read_bytes()) == truth.sha256
        names.append(path)
    assert [path.name for path in names] == ["bert.plain-old.onnx"]
    assert not names[0].exists()


def test_records_are_sound() -> None:
    for truth in foreign_table().truths:
        assert truth.model in (*TINY, "two-thetas")
        assert all(held.family in FAMILIES for held in (*truth.held, *truth.in_file))
        assert truth.exporter in truth.versions or "torch" in truth.versions, truth.file
        end = truth.end
        assert end.first is None or end.first <= TRACED, truth.file
        assert (end.last is None) == (not end.beyond) or end.first is None, truth.file
        assert bool(truth.must_find) or end.first is not None, truth.file


def test_the_table_is_written_as_it_is_read(tmp_path: Path) -> None:
    write_table(foreign_table(), tmp_path / "truth.json")
    assert read_table(tmp_path / "truth.json") == foreign_table()
    assert (tmp_path / "truth.json").read_text() == (FOLDER / "truth.json").read_text()
    assert json.loads((FOLDER / "truth.json").read_text())["measured"] >= len(foreign_table().truths)


def by_formula(held: Held) -> tuple[np.ndarray, float]:
    """Return the frequencies and the factor that a record stands for, by this project's formulas in float64."""
    parameters = {name: value for name, value in held.parameters.items() if name not in OF_TABLE}
    width, theta = held.parameters["rotary_dim"], held.parameters["rope_theta"]
    form = ROPE_TYPES[held.form].reference(width, theta, TRACED, **parameters)
    return form.inv_freq, form.attention_factor


def after_the_first(models: list[str]) -> list[ParameterSet]:
    """Return parameters of which the first alone is in the quick run."""
    return [pytest.param(model, marks=[pytest.mark.exhaustive] if row else []) for row, model in enumerate(models)]


def test_configs_are_those_of_the_models() -> None:
    config = config_of(TINY["smollm3"])
    assert (config["model_type"], config["no_rope_layers"]) == ("smollm3", [1, 0])
    assert config["max_position_embeddings"] == ROWS


@pytest.mark.parametrize("model", after_the_first([*reversed(list(ROTARY)), "qwen2", "smollm3", "phi3"]))
def test_rotary_records_are_what_the_models_compute(model: str) -> None:
    (held,) = TINY[model].held
    modules = [part for part in make(TINY[model]).bare.modules() if "RotaryEmbedding" in type(part).__name__]
    inv_freq, factor = by_formula(held)
    torch.testing.assert_close(modules[0].inv_freq.double(), torch.from_numpy(inv_freq), rtol=1e-6, atol=0)
    assert modules[0].attention_scaling == pytest.approx(factor, rel=1e-12)
    assert held.parameters["attention_factor"] == pytest.approx(factor, rel=1e-12)
