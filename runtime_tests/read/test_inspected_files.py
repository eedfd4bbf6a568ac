"""`posenc inspect` of small files that hold a known fault: what it says, from the file to the exit status."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.rotated_graphs import HEAD_DIM, HEADS, WIDTH, Decoder
from helpers.shared import Cli

TWO_BASES = (1e4, 1e6)
SIZES = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "head_dim": HEAD_DIM, "max_position_embeddings": 64}
GEMMA = {
    **SIZES,
    "model_type": "gemma3_text",
    "num_hidden_layers": 2,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
    "layer_types": ["sliding_attention", "full_attention"],
}
LLAMA = {**SIZES, "model_type": "llama", "num_hidden_layers": 2, "rope_theta": 1e4}


def inspected(cli: Cli, decoder: Decoder, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and what is said of a decoder's file."""
    path = decoder.save(Path("model.onnx"))
    result = cli("inspect", str(path), "--json", *words)
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)


def said(data: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["code"], entry["detail"]) for entry in data["findings"]]


def config(content: dict[str, Any]) -> str:
    Path("config.json").write_text(json.dumps(content))
    return "config.json"


def test_right_files_are_named_and_have_no_finding(cli: Cli) -> None:
    status, data = inspected(cli, Decoder(TWO_BASES), "--config", config(GEMMA))
    assert (status, said(data)) == (0, [])
    encodings = [(e["name"], e["parameters"]["rope_theta"], e["layers"], e["positions"]) for e in data["encodings"]]
    assert encodings == [("default", 1e4, [0], "position_ids"), ("default", 1e6, [1], "position_ids")]
    assert all(e["error"] < 0.02 and max(e["errors"]["positions"]) > 100_000 for e in data["encodings"])


def test_one_table_for_layers_of_two_bases(cli: Cli) -> None:
    status, data = inspected(cli, Decoder((1e4, 1e4), rows=64), "--config", config(GEMMA))
    words = "one table, rope_theta 10000, is used by layers 0-1; by the config layer 1 has 1000000"
    assert (status, ("PE207", words) in said(data)) == (1, True), said(data)


@pytest.mark.exhaustive
def test_one_table_for_layers_that_had_two_before(cli: Cli) -> None:
    Decoder(TWO_BASES, rows=64).save(Path("before.onnx"))
    status, data = inspected(cli, Decoder((1e4, 1e4), rows=64), "--against", "before.onnx")
    words = "one table, rope_theta 10000, is used by layers 0-1; layer 1 had 1000000 before"
    assert (status, ("PE207", words) in said(data)) == (1, True), said(data)


@pytest.mark.exhaustive
def test_angles_of_zeros(cli: Cli) -> None:
    status, data = inspected(cli, Decoder((0.0, 0.0)))
    assert (status, [code for code, _ in said(data)]) == (1, ["PE206"]), said(data)


@pytest.mark.exhaustive
def test_a_table_that_ends(cli: Cli) -> None:
    status, data = inspected(cli, Decoder((1e4, 1e4), rows=48), "--config", config(LLAMA))
    assert (status, [entry["last_right"] for entry in data["ends"]]) == (1, [48])
    assert [e["rows"] for e in data["encodings"]] == [48]
    shorter = ("PE201", "the table has 48 rows, and the model 64 positions by the config")
    assert shorter in said(data), said(data)
    assert cli("inspect", "model.onnx", "--fail-on", "PE201").exit_code == 1


@pytest.mark.exhaustive
def test_angles_in_half_precision(cli: Cli) -> None:
    status, data = inspected(cli, Decoder((1e4,), dtype=np.float16))
    assert (status, "PE205" in dict(said(data))) == (1, True), data


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("thetas", "words"),
    [
        ((1e4, 1e4, 1e4, None), None),
        ((None, None, None, 1e4), "layer 3 rotate, and should not by the config; layers 0-2 do not rotate"),
    ],
    ids=["right", "inverted"],
)
def test_layers_without_rotation(cli: Cli, thetas: Sequence[float | None], words: str | None) -> None:
    smollm3 = {**LLAMA, "model_type": "smollm3", "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0]}
    status, data = inspected(cli, Decoder(thetas, rows=64), "--config", config(smollm3))
    layers = [detail for code, detail in said(data) if code == "PE214"]
    assert (status, len(layers)) == ((0, 0) if words is None else (1, 1)), said(data)
    assert words is None or layers[0].startswith(words)


def test_ids_for_a_batch_of_one(cli: Cli) -> None:
    status, data = inspected(cli, Decoder((1e4, 1e4), rows=64, fused=True))
    assert (status, "PE209" in dict(said(data))) == (1, True), data
    assert [(e["family"], e["parameters"]["rope_theta"]) for e in data["encodings"]] == [("rotary", 1e4)]
