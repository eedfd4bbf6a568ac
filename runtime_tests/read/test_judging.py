"""What a file itself shows to be wrong: numbers, ends, fixed axes, forms of operators."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from helpers.inspections import inspection, rotary, table
from posenc_export.read.errors.by_position import curve, errors_by_position
from posenc_export.read.errors.rounding import frequencies_of, rounded_rotary, rounded_table
from posenc_export.read.inspection import End, FoundEncoding, GraphInput
from posenc_export.read.judging import fixed_axes, judged
from posenc_export.read.layers import attentions_after, attentions_of, layers_of
from posenc_export.read.operator_forms import form_findings
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run, Value

FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)
FLOAT32 = np.dtype(np.float32)


def exact(positions: Any) -> Any:
    angles = np.asarray(positions, np.float64)[:, None] * FREQUENCIES
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def said(*encodings: FoundEncoding, **values: Any) -> list[tuple[str, str]]:
    return [(entry.name, entry.detail) for entry in judged(replace(inspection(*encodings), **values))]


def test_what_is_right_has_no_finding() -> None:
    assert said(rotary(range(2)), table(512)) == []


def test_a_table_that_is_in_no_order_that_of_its_form_is_a_finding() -> None:
    assert said(replace(rotary([0]), error=2.0, errors=None)) == [("off-formula", "rotary: off by 2")]
    assert said(replace(rotary([0]), error=0.002, errors=None)) == []


def test_angles_of_zeros() -> None:
    assert said(replace(rotary([0]), name="no position")) == [
        ("no-position", "rotary: every position gets the same numbers")
    ]


def test_errors_of_float32_angles_are_a_finding_where_somebody_asks() -> None:
    positions = np.arange(131072)
    angles = positions[:, None].astype(np.float32) * FREQUENCIES.astype(np.float32)
    measured = errors_by_position([np.cos(angles)[None], np.sin(angles)[None]], exact, positions, 1e-3)
    assert measured is not None
    assert measured.exceeds_from is not None
    assert 10_000 < measured.exceeds_from < 131072
    assert said(replace(rotary([0]), errors=measured)) == []
    (made,) = judged(inspection(replace(rotary([0]), errors=measured)), is_strict=True)
    name, words = made.name, made.detail
    assert (name, words.startswith("rotary: off by more than 0.001 from position ")) == ("off-formula", True)


@pytest.mark.parametrize("layout", ["pairs", "halves", "interleaved", "whole", "batch"])
def test_columns_are_found_in_every_layout(layout: str) -> None:
    positions = np.arange(101)
    rows = exact(positions).astype(np.float32)
    cos, sin = rows[:, :8], rows[:, 8:]
    arrays = {
        "pairs": [cos, sin],
        "halves": [np.tile(part, 2) for part in (cos, sin)],
        "interleaved": [np.repeat(part, 2, axis=1) for part in (cos, sin)],
        "whole": [rows],
        "batch": [np.stack([part, part])[:, None] for part in (cos, sin)],
    }[layout]
    measured = errors_by_position(arrays, exact, positions, 1e-3)
    assert measured is not None
    assert (max(measured.errors) < 1e-6, measured.exceeds_from) == (True, None)


def test_angles_that_are_noise_in_most_rows_are_measured() -> None:
    """In bfloat16 no position beyond 256 is whole: the first rows alone are like those of the form."""
    positions = np.arange(2000)
    angles = (positions.astype(bfloat16)[:, None] * FREQUENCIES.astype(bfloat16)).astype(np.float64)
    measured = errors_by_position([np.cos(angles), np.sin(angles)], exact, positions, 1e-3)
    assert measured is not None
    ((name, words),) = said(replace(rotary([0]), errors=measured))
    assert (name, "noise from about position" in words) == ("half-noise", True)


def test_other_numbers_are_not_measured() -> None:
    positions = np.arange(101)
    noise = np.random.default_rng(0).normal(size=(101, 8))
    assert errors_by_position([noise, np.zeros((7, 8))], exact, positions, 1e-3) is None


def test_a_curve_keeps_the_largest_errors_and_what_is_no_number() -> None:
    errors = np.zeros(5000)
    errors[4321], errors[4999] = 0.5, np.nan
    made = curve(np.arange(5000), errors, 0.1)
    assert made.exceeds_from == 4321
    assert (0.5 in made.errors, made.errors[-1]) == (True, np.inf)


def test_angles_in_half_are_noise_from_a_position_on() -> None:
    """A float16 holds whole numbers up to 2048, a bfloat16 up to 256: angles of the fastest pair are off by then."""
    float16, bfloat16 = rounded_rotary(exact, np.arange(70_000))
    assert float16.noise_from is not None
    assert bfloat16.noise_from is not None
    assert bfloat16.noise_from < 256 < float16.noise_from <= 2049
    assert float16.worst is None  # beyond 65504 a position is infinite
    assert all(made.noise_from is None for made in rounded_table(exact, np.arange(3000)))
    assert np.allclose(frequencies_of(exact)[0], FREQUENCIES)


def test_a_file_in_half_that_is_noise() -> None:
    positions = np.arange(4096)
    angles = (positions[:, None].astype(np.float16) * FREQUENCIES.astype(np.float16)).astype(np.float16)
    measured = errors_by_position([np.cos(angles), np.sin(angles)], exact, positions, 1e-3)
    ((name, words),) = said(replace(rotary([0]), errors=measured, dtype="float16"))
    assert (name, words.startswith("rotary angles are computed in half precision: noise from")) == ("half-noise", True)


@pytest.mark.parametrize(
    ("beyond", "name", "words"),
    [
        ("refuses", "ends", "right up to 512 along seq; longer calls are refused: 512 rows"),
        ("broadcasts", "wrong-beyond", "right up to 512 along seq; at 513 it runs on with too few positions: 512 rows"),
        ("goes on", "", ""),
    ],
)
def test_ends(beyond: Any, name: str, words: str) -> None:
    end = End("seq", 512 if name else None, 1024, "/Gather", beyond, "512 rows")
    assert said(ends=(end,)) == ([(name, words)] if name else [])


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((1, 512), "int64", "ids: batch 1, length 512"),
        (("batch", 512), "int32", "ids: length 512"),
        (("batch", 1), "int64", ""),
        (("batch", "seq"), "int64", ""),
        ((1, 3, 224, 224), "float32", ""),
    ],
)
def test_fixed_axes(shape: Any, dtype: str, words: str) -> None:
    assert [entry.detail for entry in fixed_axes([GraphInput("ids", shape, dtype)])] == ([words] if words else [])


def test_many_values_without_a_name_are_few_findings() -> None:
    unknown = replace(table(4), family="not recognised", name="", shape=(3, 4))
    findings = said(*[unknown] * 12)
    assert len(findings) == 9
    assert findings[-1] == ("not-recognised", "4 more values are none of the known forms")


# ---- nodes of a run --------------------------------------------------------------------------------------------------


def data(*shape: int) -> Data:
    return Data(shape, FLOAT32)


def node(op_type: str, *values: Value | None, domain: str = "", name: str = "") -> Meeting:
    operands = tuple(None if value is None else Operand(f"in{i}", value) for i, value in enumerate(values))
    return Meeting(name or op_type, op_type, domain, operands, ("out",))


def run_of(*nodes: Meeting) -> Run:
    return Run({}, (), {}, nodes)


def test_layers_are_counted_by_attentions() -> None:
    layer = [node("Mul", data(2, 4, 5, 8)), node("Softmax", data(2, 4, 5, 5)), node("Softmax", data(10, 8))]
    attentions = attentions_of(run_of(*layer, *layer, node("GroupQueryAttention", data(2, 5, 8))))
    assert attentions == (1, 4, 6)
    assert layers_of([0, 3, 6], attentions) == (0, 1, 2)
    assert layers_of([9], attentions) == ()


def test_layers_are_those_that_take_what_a_node_makes() -> None:
    """Weights make tables of both layers in one node, before the first attention; a rotation is of its own layer."""

    def of(op_type: str, made: str, *taken: tuple[str, Value]) -> Meeting:
        return Meeting(made, op_type, "", tuple(Operand(name, value) for name, value in taken), (made,))

    rows, weight = Position(np.zeros((7, 8))), Constant((8, 16), FLOAT32, lambda: np.zeros((8, 16)))
    x, scores = data(2, 5, 8), data(2, 4, 5, 5)
    nodes = [of("MatMul", "packed", ("rows", rows), ("weight", weight)), of("Identity", "x0", ("x", x))]
    for layer in range(2):
        tables = of("Slice", f"rows{layer}", ("packed", x))
        turned = of("Mul", f"q{layer}", (f"x{layer}", x), ("cos", rows))
        added = of("Add", f"scores{layer}", (f"q{layer}", scores), (f"rows{layer}", scores))
        weights = of("Softmax", f"weights{layer}", (f"scores{layer}", scores))
        nodes += [tables, turned, added, weights, of("Add", f"x{layer + 1}", (f"x{layer}", x), (f"weights{layer}", x))]
    run = run_of(*nodes)
    attentions = attentions_of(run)
    after = attentions_after(run, attentions)
    places = {node.node: place for place, node in enumerate(nodes)}
    found = [layers_of([places[name]], attentions, after) for name in ("packed", "q0", "q1", "rows1", "x2")]
    assert found == [(0, 1), (0,), (1,), (1,), ()]


IDS = Position(np.zeros((1, 5), np.int64))


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (node("RotaryEmbedding", data(2, 5, 8), IDS, domain="com.microsoft"), "batch-of-one"),
        (node("RotaryEmbedding", data(1, 5, 8), IDS, domain="com.microsoft"), ""),
        (node("RotaryEmbedding", data(2, 5, 8), Position(np.zeros(1, np.int64)), domain="com.microsoft"), ""),
        (node("RotaryEmbedding", data(2, 5, 8), data(2, 5, 4), data(2, 5, 4)), "rejected-form"),
        (node("RotaryEmbedding", data(2, 5, 8), data(9, 4), data(9, 4), IDS), "batch-of-one"),
        (node("Mul", data(2, 5, 8), IDS), ""),
    ],
    ids=["batch-of-one", "batch-1", "start", "no-ids", "onnx", "other"],
)
def test_forms_of_operators(made: Meeting, name: str) -> None:
    assert [entry.name for entry in form_findings(run_of(made, made))] == ([name] if name else [])
