"""The four faults of onnxruntime-genai#2076: tables of YaRN that its builder made wrong, and what --config says."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import posenc_export
from helpers.attention_kernels import GRAPHS
from helpers.graph_files import written
from posenc.rope_types import ROPE_TYPES
from posenc_export.read.inspection import Inspection

WIDTH, ROWS, THETA, FACTOR = 16, 4096, 1e6, 16.0
SCALING = {
    "factor": FACTOR,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 16384,
}
CONFIG = {
    "model_type": "ministral",
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": WIDTH,
    "num_hidden_layers": 1,
    # as many as the tables here have rows: 262144 of the real model
    "max_position_embeddings": ROWS,
    "rope_parameters": {"rope_type": "yarn", "rope_theta": THETA, **SCALING},
}


def inspected(folder: Path, inv_freq: NDArray[np.float64], factor: float) -> Inspection:
    """Inspect a GroupQueryAttention with these tables against the config."""
    angles = np.arange(ROWS)[:, None] * inv_freq
    tables = {"cos_cache": factor * np.cos(angles), "sin_cache": factor * np.sin(angles)}
    path = written(
        folder, GRAPHS["GroupQueryAttention"], {name: table.astype(np.float32) for name, table in tables.items()}
    )
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return posenc_export.inspect(path, config=folder)


def by_yarn(theta: float = THETA, **changed: float) -> tuple[NDArray[np.float64], float]:
    form = ROPE_TYPES["yarn"].reference(WIDTH, theta, ROWS, **{**SCALING, **changed})
    return np.asarray(form.inv_freq, np.float64), form.attention_factor


def errors(inspection: Inspection) -> list[str]:
    return [finding.detail for finding in inspection.findings if finding.severity == "error"]


def test_right_tables_have_no_error(tmp_path: Path) -> None:
    inspection = inspected(tmp_path, *by_yarn())
    assert errors(inspection) == []
    assert inspection.encodings[0].name == "yarn"


@pytest.mark.parametrize(
    ("theta", "changed", "words"),
    [
        (
            THETA,
            {"original_max_position_embeddings": 262144},
            "layer 0: original_max_position_embeddings 262144, expected 16384 by the config",
        ),
        (10000.0, {}, "layer 0: rope_theta 10000, expected 1000000 by the config"),
        (THETA, {"mscale_all_dim": 0.0}, "layer 0: attention_factor 1.27726, expected 1 by the config"),
    ],
    ids=["the length of training is not read", "theta is not read", "mscale is computed anew"],
)
def test_a_parameter_that_was_not_read_is_named(
    tmp_path: Path, theta: float, changed: dict[str, float], words: str
) -> None:
    assert errors(inspected(tmp_path, *by_yarn(theta, **changed))) == [words]


def test_frequencies_that_were_inverted_twice_are_named(tmp_path: Path) -> None:
    plain = THETA ** (-np.arange(0, WIDTH, 2) / WIDTH)
    right, factor = by_yarn()
    stays = (right - plain / FACTOR) / (plain - plain / FACTOR)
    twice = (1 - stays) / (FACTOR * plain) + stays * plain
    first = int(np.argmax(np.abs(twice / right - 1) > 1e-5))
    assert first > 0
    (words,) = errors(inspected(tmp_path, twice, factor))
    assert words.startswith(f"layer 0: frequencies from number {first + 1} on (")
    assert f"expected ({right[first]:.6g}, " in words
