"""Positions far out: errors at all of them, where they get the numbers of others, and where they begin."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from helpers.foreign.files import foreign_files
from helpers.misread import FREQUENCIES, angles, codes, families, inspected, read, turned
from posenc_export.cli.commands.inspect import fails
from posenc_export.common.rounding import ceiling
from posenc_export.read.report.text import body_lines

TABLES = {"cos": np.cos(angles(512)).astype(np.float32), "sin": np.sin(angles(512)).astype(np.float32)}
LOOKED_UP = "c = Gather (cos, p)  s = Gather (sin, p)"
WRAPPED = {
    "modulo": ("p = Mod (n, m)", 128),
    "uint8": ("e = Cast <to = 2> (n)  p = Cast <to = 7> (e)", 256),
    "int8": ("e = Cast <to = 3> (n)  p = Cast <to = 7> (e)", 128),
    "clipped": ("p = Min (n, m)", 129),
}
"""Nodes that make positions of counted places, and how many of them are right."""


@pytest.mark.parametrize("table", [LOOKED_UP, ""], ids=["table", "computed"])
@pytest.mark.parametrize("kind", WRAPPED)
def test_positions_that_wrap_end_there(tmp_path: Path, kind: str, table: str) -> None:
    nodes, last = WRAPPED[kind]
    made = read(tmp_path, turned(nodes, table), {"m": np.array(128, np.int64), **(TABLES if table else {})})
    assert families(made) == ["rotary"]
    assert [(end.last_right, end.beyond) for end in made.ends] == [(last, "repeats")]
    assert codes(made) == {"PE202": "error"}


def test_learned_rows_that_wrap_end_there(tmp_path: Path) -> None:
    body = """added (float[batch, seq, 16] x) => (float[batch, seq, 16] y) {
    sh = Shape (x)  length = Gather (sh, one)  n = Range (zero, length, one)
    p = Mod (n, m)  r = Gather (rows, p)  y = Add (x, r) }"""
    rows = np.random.default_rng(0).standard_normal((300, 16)).astype(np.float32)
    made = read(tmp_path, body, {"m": np.array(100, np.int64), "rows": rows})
    assert [(end.last_right, end.beyond) for end in made.ends] == [(100, "repeats")]


def test_the_largest_error_is_never_below_the_truth() -> None:
    """The cosines of a file that counts positions itself, by ONNX Runtime against float64."""
    # each file is there as long as it is looked at
    for path, _ in foreign_files(["llama"], ["transformers.exporters"], [""]):
        made = inspected(path, bound=1e-3)
        (encoding,) = made.encodings
        session = onnxruntime.InferenceSession(_up_to(path, encoding.tensors).SerializeToString())
    assert encoding.errors is not None
    inv_freq = 1e4 ** (-np.arange(0, 32, 2) / 32)
    points = list(zip(encoding.errors.positions, encoding.errors.errors, strict=True))
    for length in (8_001, 100_001):
        feeds = {entry.name: np.ones((1, length), np.int64) for entry in session.get_inputs()}
        given = np.squeeze(session.run(None, feeds)[0])[:, :16].astype(np.float64)
        angle = np.outer(np.arange(length), inv_freq)
        truth = min(np.abs(given - wave).max() for wave in (np.cos(angle), np.sin(angle)))
        measured = max(error for p, error in points if p < 2 * length)
        assert truth <= measured, length
    assert truth > 2.5e-3
    assert fails(made, (), 1e-3), "--fail-above 1e-3"
    assert any("of positions 0 to 1,048,575" in line for line in body_lines(made))


def _up_to(path: Path, targets: tuple[str, ...]) -> onnx.ModelProto:
    """Return a model that ends in some of its tensors."""
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    needed: set[str] = set()
    waiting = list(targets)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += list(makers[name].input) if name in makers else []
    nodes = [node for node in model.graph.node if needed & set(node.output)]
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in targets]
    stored = [entry for entry in model.graph.initializer if entry.name in needed]
    graph = onnx.helper.make_graph(nodes, "cut", list(model.graph.input), outputs, stored)
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def test_half_precision_is_noise_and_no_wrap(tmp_path: Path) -> None:
    halves = """p = Cast <to = 10> (n)  pu = Unsqueeze (p, axis1)  f = Cast <to = 10> (inv_freq)  h = Mul (pu, f)
    hf = Cast <to = 1> (h)  a = Concat <axis = -1> (hf, hf)  c = Cos (a)  s = Sin (a)"""
    made = read(tmp_path, turned("", halves))
    assert codes(made) == {"PE205": "error"}


@pytest.mark.parametrize("table", [LOOKED_UP, ""], ids=["table", "computed"])
def test_positions_that_begin_at_one_are_said(tmp_path: Path, table: str) -> None:
    made = read(tmp_path, turned("p = Add (n, one)", table), TABLES if table else {})
    assert codes(made)["PE219"] == "warning"


@pytest.mark.parametrize("counted", [True, False])
def test_a_past_that_is_not_counted_is_an_error(tmp_path: Path, counted: bool) -> None:
    start = "psh = Shape (past_key)  start = Gather (psh, two)  p = Add (n, start)" if counted else "p = Identity (n)"
    body = turned(start).replace("q) =>", "q, float[batch, 2, past, 16] past_key) =>")
    body = body.replace("seq, 16] y) {", "seq, 16] y, float[batch, 2, total, 16] present) {")
    body = body.replace("y = Add (qc, qs) }", "y = Add (qc, qs)  present = Concat <axis = 2> (past_key, y) }")
    made = read(tmp_path, body)
    assert codes(made).get("PE219") == (None if counted else "error")


def test_rows_behind_a_first_table_are_those_of_position_0_again(tmp_path: Path) -> None:
    from helpers.misread import operator

    stretch = np.linspace(1, 4, 8)
    long = np.outer(np.arange(256), FREQUENCIES / stretch)
    both = np.concatenate([angles(64)[:, :8], long])
    made = read(tmp_path, operator(), {"c": np.cos(both).astype(np.float32), "s": np.sin(both).astype(np.float32)})
    assert [(end.last_right, end.beyond) for end in made.ends] == [(64, "repeats")]


def test_numbers_are_rounded_up() -> None:
    assert [ceiling(number) for number in (0.0, 2.71e-3, 3e-3, 0.0049, 1.0001)] == [
        "0",
        "0.0028",
        "0.003",
        "0.0049",
        "1.1",
    ]
