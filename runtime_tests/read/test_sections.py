"""Tokens with several positions: which pairs turn by which of them, and what a config says of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.foreign.read import inspected
from helpers.small_decoders import Decoder, saved
from posenc_export.read.comparing.config import compare_config
from posenc_export.read.inspection import Finding

CONFIG: dict[str, Any] = {
    "model_type": "qwen2_vl_text",
    "hidden_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
}


class Sectioned(Decoder):
    """Each pair turns by the row of positions that `rows` says."""

    def __init__(self, rows: tuple[int, ...]) -> None:
        super().__init__(theta=1e6)
        self.rows = rows

    def angles(self, positions: Tensor) -> Tensor:
        angles = positions[..., None].float() * self.inv_freq  # type: ignore[operator]
        picked = torch.stack([angles[row, ..., pair] for pair, row in enumerate(self.rows)], -1)
        return torch.cat([picked, picked], -1)[:, None]


ROWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "sectioned": ((0, 0, 1, 1, 1, 2, 2, 2), {"sections": (2, 3, 3), "section_layout": "sectioned"}),
    "interleaved": ((0, 1, 2, 0, 1, 2, 0, 1), {"sections": (3, 3, 2), "section_layout": "interleaved"}),
    "time_last": ((1, 2, 1, 2, 1, 2, 0, 0), {"sections": (2, 3, 3), "section_layout": "time_last"}),
    "swapped": ((0, 0, 2, 2, 2, 1, 1, 1), {"sections": (2, 3, 3), "section_axes": (0, 2, 1)}),
    "others": ((0, 1, 0, 0, 2, 1, 0, 2), {"section_layout": "of each pair"}),
}


@pytest.mark.parametrize("newer", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["old", "new"])
@pytest.mark.parametrize("name", ROWS)
def test_sections_are_read(name: str, newer: bool, tmp_path: Path) -> None:
    rows, expected = ROWS[name]
    (encoding,) = inspected(saved(Sectioned(rows), tmp_path / "m.onnx", rows=3, newer=newer)).encodings
    assert (encoding.family, encoding.name) == ("rotary", "mrope")
    assert {key: encoding.parameters.get(key) for key in expected} == expected


def compared(path: Path, config: dict[str, Any]) -> list[Finding]:
    beside = path.with_suffix(".json")
    beside.write_text(json.dumps(config))
    return list(compare_config(inspected(path), beside)[0])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((0, 0, 1, 1, 1, 2, 2, 2), ""),
        ((0, 0, 2, 2, 2, 1, 1, 1), "section_axes"),
        ((0, 0, 0, 1, 1, 1, 2, 2), "sections"),
        ((0, 1, 2, 0, 1, 2, 0, 1), "section"),
        ((1, 1, 1, 1, 1, 1, 1, 1), "every pair turns by one position a token"),
    ],
    ids=["right", "swapped", "counts", "interleaved", "one-row"],
)
def test_sections_are_held_against_a_config(rows: tuple[int, ...], words: str, tmp_path: Path) -> None:
    found = compared(saved(Sectioned(rows), tmp_path / "m.onnx", rows=3), CONFIG)
    assert [entry.severity for entry in found if words in entry.detail][:1] == (["error"] if words else [])
    assert bool(found) == bool(words)


def test_one_position_a_token_is_a_note(tmp_path: Path) -> None:
    (found,) = compared(saved(Decoder(theta=1e6), tmp_path / "m.onnx"), CONFIG)
    assert (found.severity, "images cannot be placed" in found.detail) == ("note", True)


def test_sections_that_the_model_lacks_are_an_error(tmp_path: Path) -> None:
    config = {key: value for key, value in CONFIG.items() if key != "rope_scaling"} | {"model_type": "qwen2"}
    found = compared(saved(Sectioned((0, 0, 1, 1, 1, 2, 2, 2)), tmp_path / "m.onnx", rows=3), config)
    assert any("sections" in entry.detail and entry.severity == "error" for entry in found)
