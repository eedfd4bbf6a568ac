"""Rotations in graphs are named: by products and sums, or by operators that take tables."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from helpers.rotary_graphs import DIM, HEADS, Sheet, halves, layer, neighbours, tables
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.encodings import error_by_position, exceeds_from, rotary_of

INV_FREQ = 5e5 ** (-np.arange(0, DIM, 2) / DIM)


def only(named: list[Named]) -> Named:
    assert len(named) == 1, named
    return named[0]


def computed(sheet: Sheet, inv_freq: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[str, str]:
    """Return cosines and sines that a graph computes as transformers does."""
    axes = [sheet.keep(np.array([axis], np.int64)) for axis in (2, 1)]
    ids = sheet.op("Unsqueeze", sheet.op("Cast", "position_ids", to=1), axes[0])
    angles = sheet.op("Mul", ids, sheet.keep(inv_freq.astype(np.float32), "inv_freq"))
    both = sheet.op("Unsqueeze", sheet.op("Concat", angles, angles, axis=-1), axes[1])
    return sheet.op("Cos", both), sheet.op("Sin", both)


def test_layers_that_share_angles_are_one_encoding(tmp_path: Path) -> None:
    sheet = Sheet()
    cosine, sine = computed(sheet, INV_FREQ)
    outputs = [layer(sheet, cosine, sine) for _ in range(3)]
    named = only(rotary_of(sheet.run(tmp_path, *outputs)))
    assert (named.form.name, named.form.parameters["rope_theta"]) == ("default", 5e5)
    expected = {"head_dim": DIM, "rotary_dim": DIM, "layout": "halves", "attention_factor": 1.0}
    assert {name: named.form.parameters[name] for name in expected} == expected
    assert (len(named.nodes), named.rows, named.positions, named.dtype) == (3, None, "position_ids", "float32")
    assert named.stored == ("inv_freq",)
    assert named.error is not None
    assert named.error < 1e-5


def test_layers_with_bases_of_their_own_are_several_encodings(tmp_path: Path) -> None:
    sheet = Sheet()
    outputs = []
    for theta in (1e4, 1e6, 1e4):
        cosine, sine = (sheet.looked_up(sheet.keep(table)) for table in tables(theta))
        outputs.append(layer(sheet, cosine, sine))
    named = rotary_of(sheet.run(tmp_path, *outputs))
    assert [(encoding.form.parameters["rope_theta"], len(encoding.nodes)) for encoding in named] == [(1e4, 2), (1e6, 1)]
    assert [encoding.rows for encoding in named] == [64, 64]


def test_neighbours_are_told_from_halves(tmp_path: Path) -> None:
    sheet = Sheet()
    cosine, sine = (sheet.looked_up(sheet.keep(table)) for table in tables(1e4, wide=False))
    named = only(rotary_of(sheet.run(tmp_path, neighbours(sheet, "q", cosine, sine))))
    assert named.form.parameters["layout"] == "interleaved"
    assert "direction" not in named.form.parameters


def test_pairs_that_turn_backward_are_seen(tmp_path: Path) -> None:
    sheet = Sheet()
    cosine, sine = (sheet.looked_up(sheet.keep(table)) for table in tables(1e4, wide=False))
    turned = neighbours(sheet, "q", cosine, sheet.op("Neg", sine))
    named = only(rotary_of(sheet.run(tmp_path, turned)))
    assert named.form.parameters["direction"] == "backward"
    assert named.rows == 64


@pytest.mark.parametrize("begin", [0, 8])
def test_a_partial_width_says_which_features(tmp_path: Path, begin: int) -> None:
    sheet = Sheet()
    cosine, sine = (sheet.looked_up(sheet.keep(table)) for table in tables(1e4, width=8))
    turned = halves(sheet, sheet.cut("q", begin, begin + 8), cosine, sine, 8)
    passed = sheet.cut("q", 8 - begin, 16 - begin)
    parts = [turned, passed] if begin == 0 else [passed, turned]
    form = only(rotary_of(sheet.run(tmp_path, sheet.op("Concat", *parts, axis=-1)))).form
    assert (form.parameters["head_dim"], form.parameters["rotary_dim"], form.parameters["layout"]) == (16, 8, "halves")
    assert form.parameters.get("first_feature", 0) == begin


def test_frequencies_of_zero_are_no_position(tmp_path: Path) -> None:
    sheet = Sheet()
    cosine, sine = computed(sheet, 0 * INV_FREQ)
    named = only(rotary_of(sheet.run(tmp_path, layer(sheet, cosine, sine))))
    assert (named.form.name, named.form.parameters["layout"]) == ("no position", "halves")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tables_in_half_precision_are_named(tmp_path: Path, dtype: str) -> None:
    sheet = Sheet()
    half = np.dtype({"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype])
    stored = [sheet.keep(table.astype(half)) for table in tables(1e4, 500)]
    cosine, sine = (sheet.op("Cast", sheet.looked_up(table), to=1) for table in stored)
    named = only(rotary_of(sheet.run(tmp_path, layer(sheet, cosine, sine))))
    assert (named.form.name, named.form.parameters["rope_theta"], named.rows) == ("default", 1e4, 500)
    assert named.error is not None
    assert 1e-4 < named.error < 4e-3


def test_a_quantised_table_is_named(tmp_path: Path) -> None:
    sheet = Sheet()
    scale = sheet.keep(np.array(1 / 127, np.float32))
    stored = [sheet.keep(np.round(table * 127).astype(np.int8)) for table in tables(1e4, 500)]
    cosine, sine = (sheet.looked_up(sheet.op("DequantizeLinear", table, scale)) for table in stored)
    named = only(rotary_of(sheet.run(tmp_path, layer(sheet, cosine, sine))))
    assert (named.form.name, named.rows) == ("default", 500)
    assert named.error is not None
    assert 3e-3 < named.error < 5e-3


def test_errors_are_of_every_stored_row(tmp_path: Path) -> None:
    sheet = Sheet()
    cosines, sines = tables(1e4, 300)
    sines[250:] += np.float32(0.01)
    cosine, sine = (sheet.looked_up(sheet.keep(table)) for table in (cosines, sines))
    run = sheet.run(tmp_path, layer(sheet, cosine, sine))
    named = only(rotary_of(run))
    positions, errors = error_by_position(named, run)
    assert named.error == pytest.approx(0.01, rel=1e-3)
    assert (len(positions), exceeds_from(positions, errors, 1e-3), exceeds_from(positions, errors, 1)) == (
        300,
        250,
        None,
    )


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_operators_are_named_by_their_tables(tmp_path: Path, domain: str, interleaved: int) -> None:
    sheet = Sheet()
    cosine, sine = (sheet.keep(table) for table in tables(1e6, 128, wide=False))
    inputs = ["q", cosine, sine, "position_ids"] if domain == "" else ["q", "position_ids", cosine, sine]
    named = only(
        rotary_of(sheet.run(tmp_path, sheet.op("RotaryEmbedding", *inputs, domain=domain, interleaved=interleaved)))
    )
    assert (named.form.parameters["rope_theta"], named.rows, named.positions) == (1e6, 128, "position_ids")
    assert named.form.parameters["layout"] == ("interleaved" if interleaved else "halves")
    assert named.stored == (cosine, sine)


def test_tables_of_a_call_are_read_without_ids(tmp_path: Path) -> None:
    sheet = Sheet()
    cosine, sine = (sheet.op("Gather", sheet.keep(table), "position_ids") for table in tables(1e6, 128, wide=False))
    named = only(rotary_of(sheet.run(tmp_path, sheet.op("RotaryEmbedding", "q", cosine, sine))))
    assert (named.form.parameters["rope_theta"], named.positions, named.rows) == (1e6, "position_ids", 128)


def test_two_tables_end_to_end_are_one_longrope(tmp_path: Path) -> None:
    sheet, short = Sheet(), tables(1e4, 64, wide=False)
    divisors = np.array([1.0, 1.05, 1.3, 1.75, 2.4, 3.15, 4.5, 6.85])
    angles = np.arange(64, 200)[:, None] * 1e4 ** (-np.arange(0, DIM, 2) / DIM) / divisors
    both = [
        np.concatenate(pair).astype(np.float32) for pair in zip(short, (np.cos(angles), np.sin(angles)), strict=True)
    ]
    cosine, sine = (sheet.op("Gather", sheet.keep(table), "position_ids") for table in both)
    named = only(rotary_of(sheet.run(tmp_path, sheet.op("RotaryEmbedding", "q", cosine, sine))))
    assert (named.form.name, named.rows) == ("longrope", 200)
    assert named.form.parameters["original_max_position_embeddings"] == 64
    assert named.form.parameters["long_factor"] == tuple(divisors)
    assert named.error is not None
    assert named.error < 1e-6


def test_exchanged_tables_are_said(tmp_path: Path) -> None:
    sheet = Sheet()
    cosine, sine = (sheet.keep(table) for table in tables(1e6, 128, wide=False))
    output = sheet.op("RotaryEmbedding", "q", "position_ids", sine, cosine, domain="com.microsoft")
    named = only(rotary_of(sheet.run(tmp_path, output)))
    assert named.form.parameters["tables"] == "cosines and sines exchanged"


def test_angles_that_are_added_end_with_no_table(tmp_path: Path) -> None:
    sheet = Sheet()
    low = [sheet.looked_up(sheet.keep(table)) for table in tables(1e4)]
    high = [sheet.op("Mul", part, sheet.keep(np.ones((1, 1, 1, DIM), np.float32))) for part in low]
    zero, one = (sheet.keep(np.full((1, 1, 1, DIM), number, np.float32)) for number in (0, 1))
    cosine = sheet.op("Sub", sheet.op("Mul", high[0], one), sheet.op("Mul", low[1], zero))
    sine = sheet.op("Add", sheet.op("Mul", high[1], one), sheet.op("Mul", low[0], zero))
    named = only(rotary_of(sheet.run(tmp_path, layer(sheet, cosine, sine))))
    assert (named.form.parameters["rope_theta"], named.rows) == (1e4, None)


@pytest.mark.parametrize("packed", [False, True])
def test_attention_that_turns_by_caches_is_named(tmp_path: Path, packed: bool) -> None:
    sheet = Sheet()
    flat = sheet.keep(np.array([0, 0, HEADS * DIM], np.int64))
    query = sheet.op("Reshape", sheet.op("Transpose", "q", perm=[0, 2, 1, 3]), flat)
    query, key = (sheet.op("Concat", *[query] * 3, axis=-1), "") if packed else (query, query)
    last, total = sheet.keep(np.array([12], np.int32)), sheet.keep(np.array(13, np.int32))
    outputs = []
    for theta in (1e4, 1e4, 1e6):
        caches = [sheet.keep(table) for table in tables(theta, 128, wide=False)]
        inputs = [query, key, key, "", "", last, total, *caches]
        outputs.append(
            sheet.op(
                "GroupQueryAttention",
                *inputs,
                domain="com.microsoft",
                num_heads=HEADS,
                kv_num_heads=HEADS,
                do_rotary=1,
                rotary_interleaved=1,
            )
        )
    named = rotary_of(sheet.run(tmp_path, *outputs))
    assert [(encoding.form.parameters["rope_theta"], len(encoding.nodes)) for encoding in named] == [(1e4, 2), (1e6, 1)]
    assert [encoding.form.parameters["layout"] for encoding in named] == ["interleaved"] * 2
    assert [encoding.form.parameters["head_dim"] for encoding in named] == [DIM] * 2


def test_what_is_not_a_rotation_is_not_named(tmp_path: Path) -> None:
    sheet = Sheet()
    rng = np.random.default_rng(0)
    cosine, sine = (sheet.looked_up(sheet.keep(table)) for table in tables(1e4))
    random = [sheet.looked_up(sheet.keep(rng.normal(size=(64, DIM)).astype(np.float32))) for _ in range(2)]
    gain = [sheet.keep(rng.normal(size=DIM).astype(np.float32)) for _ in range(2)]
    wave = sheet.op("Sin", "q")
    outputs = [
        halves(sheet, "q", random[0], random[1]),
        halves(sheet, "q", gain[0], gain[1]),
        # added, multiplied alone, of two tensors, mirrored
        sheet.op("Add", "q", cosine),
        sheet.op("Mul", wave, sine),
        sheet.op("Add", sheet.op("Mul", "q", cosine), sheet.op("Mul", "k", sine)),
        sheet.op("Add", sheet.op("Mul", "q", cosine), sheet.op("Mul", "q", sine)),
        halves(sheet, "q", cosine, cosine),
    ]
    assert rotary_of(sheet.run(tmp_path, *outputs)) == []
