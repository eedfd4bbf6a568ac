"""What was not judged is said: where reading stopped, what was not understood, and what no bound was held against."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from helpers.graph_files import written
from helpers.misread import NUMBERS, added, biased, codes, families, inspected, read, turned
from helpers.shared import Cli
from posenc.formulas.t5_bias import buckets
from posenc_export.read import inspect as reading
from posenc_export.read.errors import far as far_errors
from posenc_export.read.inspection import Inspection, NotJudged
from posenc_export.read.judging import unjudged_findings
from posenc_export.read.report.text import body_lines

UNKNOWN = "pf = Cast <to = 1> (n)  pu = Unsqueeze (pf, axis1)  a = Mul (pu, wide)"
WIDE = {"wide": np.repeat((1e4 ** (-np.arange(0, 16, 2) / 16)).astype(np.float32), 2)}
NOTHING = "no positional encoding was recognised: nothing that follows from positions meets data"


def answer(made: Inspection) -> str:
    return next(line for line in body_lines(made) if line)


def test_a_network_without_positions_says_so(tmp_path: Path) -> None:
    body = "plain (float[batch, 3, h, w] x) => (float[batch, 3, h, w] y) { r = Relu (x)  y = Mul (r, scale) }"
    made = read(tmp_path, body, {"scale": np.ones((3, 1, 1), np.float32)})
    assert (answer(made), made.not_judged, made.findings) == (NOTHING, (), ())


def test_a_stored_number_of_each_head_that_is_repeated_for_each_token_is_no_position(tmp_path: Path) -> None:
    """Attention sinks, as GPT-OSS has them: a further score of each query, the same at every position."""
    body = """sinks (float[batch, 3, sequence, 8] q) => (float[batch, 3, sequence, k] y) {
        n = Shape <start = 2, end = 3> (q)
        d = Concat <axis = 0> (one, three, n, one)  s = Expand (sink, d)  y = Concat <axis = 3> (q, s)
    }"""
    sink = np.array([0.3, -1.2, 0.7], np.float32).reshape(1, 3, 1, 1)
    made = read(tmp_path, body, {"sink": sink, "three": np.array([3]), "one": np.array([1])})
    assert (answer(made), made.not_judged) == (NOTHING, ())


@pytest.mark.parametrize(
    "rows",
    [f"{UNKNOWN}  r = Tanh (a)", f"{UNKNOWN}  r = Sin (a)", "r = acme.Waves (n)"],
    ids=["no formula", "sines twice", "an operator without a rule"],
)
def test_positions_that_meet_data_without_a_name_are_said_with_their_place(tmp_path: Path, rows: str) -> None:
    made = read(tmp_path, added(rows), WIDE)
    assert families(made) in ([], ["not recognised"])
    assert [entry.place for entry in made.not_judged] != []
    assert {"PE212", "PE216"} & codes(made).keys()
    assert "positions may be in what was not judged" in answer(made)
    assert made.passed, "nobody asked for a bound"
    strict = read(tmp_path, added(rows), WIDE, bound=1e-3)
    assert not strict.passed, "a bound that could not be held is none that was met"


def test_the_nodes_are_named_that_made_the_numbers(tmp_path: Path) -> None:
    made = read(tmp_path, added(f"{UNKNOWN}  r = Sin (a)"), WIDE)
    (entry,) = made.not_judged
    assert entry.reason.startswith("Sin at Sin#6 follows from the length and meets data here: float32[13, 16]")
    assert entry.place == "Add#7"


BODY = [
    helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
    helper.make_node("Mul", ["f", "wide"], ["a"]),
    helper.make_node("Sin", ["a"], ["s"]),
]


def saved(folder: Path, nodes: list[onnx.NodeProto], shape: list[str | int]) -> Path:
    """Write a graph with a loop, whose numbers are those of WIDE and NUMBERS."""
    stored = [numpy_helper.from_array(array, name) for name, array in {**NUMBERS, **WIDE}.items()]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    returned = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    made = helper.make_graph(nodes, "looped", given, returned, stored)
    path = folder / "looped.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def info(name: str, kind: int = TensorProto.FLOAT, shape: list[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize("count", ["length", "data"])
def test_positions_in_the_turns_of_a_loop(tmp_path: Path, count: str) -> None:
    turns = [helper.make_node("Add", ["h", "s"], ["h2"]), helper.make_node("Identity", ["c"], ["c2"])]
    given = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("h")]
    body = helper.make_graph([*BODY, *turns], "turn", given, [info("c2", TensorProto.BOOL, []), info("h2")])
    counted = [helper.make_node("Shape", ["x"], ["sh"]), helper.make_node("Gather", ["sh", "one"], ["n"])]
    if count == "data":
        largest = helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0)
        counted = [largest, helper.make_node("Cast", ["largest"], ["n"], to=TensorProto.INT64)]
    path = saved(tmp_path, [*counted, helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], ["b", "seq", 16])
    made = inspected(path)
    assert made.not_judged
    assert answer(made) != NOTHING


def test_positions_that_a_scan_counts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["c", "step"], ["c2"]),
        helper.make_node("Mul", ["c2", "wide"], ["a"]),
        helper.make_node("Sin", ["a"], ["s"]),
        helper.make_node("Add", ["row", "s"], ["o"]),
    ]
    step = numpy_helper.from_array(np.ones(1, np.float32), "step")
    body = helper.make_graph(
        nodes, "turn", [info("c", shape=[1]), info("row")], [info("c2", shape=[1]), info("o")], [step]
    )
    start = helper.make_node("Constant", [], ["start"], value=numpy_helper.from_array(np.zeros(1, np.float32)))
    scan = helper.make_node("Scan", ["start", "x"], ["last_one", "y"], body=body, num_scan_inputs=1)
    made = inspected(saved(tmp_path, [start, scan], ["seq", 16]))
    assert made.not_judged
    assert answer(made) != NOTHING


def test_float_ids_of_places_are_no_silence(tmp_path: Path) -> None:
    body = """flux (float[1, 2, seq, 16] q, float[seq, 1] img_ids) => (float[1, 2, seq, 16] y) {
    h = Mul (img_ids, inv_freq)  a = Concat <axis = -1> (h, h)  c = Cos (a)  y = Mul (q, c) }"""
    made = read(tmp_path, body)
    assert [(entry.place, "img_ids" in entry.reason) for entry in made.not_judged] == [("Cos#2", True)]


def test_a_temperature_that_is_one_in_a_short_call(tmp_path: Path) -> None:
    body = """cooled (float[1, 2, seq, 16] q) => (float[1, 2, seq, 16] y) {
    sh = Shape (q)  length = Gather (sh, two)  n = Range (zero, length, one)  p = Cast <to = 1> (n)
    step = Div (p, steps)  whole = Floor (step)  more = Add (whole, unit)  log = Log (more)  f = Add (log, unit)
    r = Unsqueeze (f, axis1)  y = Mul (q, r) }"""
    tables = {"steps": np.array(8192, np.float32), "unit": np.array(1, np.float32)}
    made = read(tmp_path, body, tables)
    assert [(entry.nodes, entry.scheme) for entry in made.encodings] == [
        (("Mul#10",), "attention_temperature -p beta=1 -p step=8192 -p offset=0")
    ]
    assert not made.not_judged
    (errors,) = (encoding.errors for encoding in made.encodings)
    assert errors is not None
    assert (errors.last_position, errors.exceeds_from) == (2**20 - 1, None)
    wrong = read(tmp_path, body.replace("whole = Floor (step)", "whole = Identity (step)"), tables, bound=1e-3)
    assert codes(wrong) != {}, "--fail-above 1e-3"


def test_a_temperature_with_an_offset_is_measured_at_its_places(tmp_path: Path) -> None:
    body = """cooled (float[1, 2, seq, 16] q) => (float[1, 2, seq, 16] y) {
    sh = Shape (q)  length = Gather (sh, two)  n = Range (zero, length, one)  m = Add (n, one)
    p = Cast <to = 1> (m)  step = Div (p, steps)  whole = Floor (step)  more = Add (whole, unit)  log = Log (more)
    f = Add (log, unit)  r = Unsqueeze (f, axis1)  y = Mul (q, r) }"""
    made = read(tmp_path, body, {"steps": np.array(4, np.float32), "unit": np.array(1, np.float32)}, bound=1e-3)
    (encoding,) = made.encodings
    assert (encoding.family, encoding.parameters["offset"]) == ("temperature", 1)
    assert encoding.errors is not None
    assert encoding.errors.exceeds_from is None
    assert made.findings == ()


def test_weights_of_experts_that_take_the_tokens_each_are_no_places(tmp_path: Path) -> None:
    """Llama 4 copies the tokens for each expert; rows that are added to the copies by place are some."""
    body = """experts (float[seq, 8] x) => (float[3, seq, 6] y) {
    h = MatMul (x, w)  t = Tile (h, copies)  e = Reshape (t, apart)  y = MatMul (e, weights) }"""
    random = np.random.default_rng(0)
    tables = {
        "w": random.standard_normal((8, 8)).astype(np.float32),
        "weights": random.standard_normal((3, 8, 6)).astype(np.float32),
        "copies": np.array([3, 1]),
        "apart": np.array([3, -1, 8]),
    }
    made = read(tmp_path, body, tables)
    assert (made.encodings, made.not_judged) == ((), ())
    rows = {**tables, "rows": random.standard_normal((13, 8)).astype(np.float32)}
    placed = body.replace("t = Tile (h, copies)", "g = Add (h, rows)  t = Tile (g, copies)").replace(
        "[seq, 8]", "[13, 8]"
    )
    assert read(tmp_path, placed, rows).encodings


def test_a_factor_that_no_formula_has_far_out(tmp_path: Path) -> None:
    body = """cooled (float[1, 2, seq, 16] q) => (float[1, 2, seq, 16] y) {
    sh = Shape (q)  length = Gather (sh, two)  n = Range (zero, length, one)  p = Cast <to = 1> (n)
    step = Div (p, steps)  whole = Floor (step)  more = Add (whole, unit)  f = Sqrt (more)
    r = Unsqueeze (f, axis1)  y = Mul (q, r) }"""
    tables = {"steps": np.array(8192, np.float32), "unit": np.array(1, np.float32)}
    made = read(tmp_path, body, tables)
    assert [entry.place for entry in made.not_judged] == ["Mul#9"]


def test_scores_that_are_chosen_by_distance(tmp_path: Path) -> None:
    body = """chosen (float[batch, seq, 64] x) => (float[batch, seq, seq] y) {
    sh = Shape (x)  length = Gather (sh, one)  n = Range (zero, length, one)  q = Unsqueeze (n, axis1)
    d = Sub (n, q)  far = Abs (d)  i = Unsqueeze (far, axis0)  y = GatherElements <axis = 2> (x, i) }"""
    made = read(tmp_path, body)
    assert [entry.place for entry in made.not_judged] == ["GatherElements#7"]


@pytest.mark.parametrize("far", [128, 0], ids=["by buckets of distance", "by no rule"])
def test_a_stored_bias_that_a_mask_of_data_keeps_is_not_passed_over(tmp_path: Path, far: int) -> None:
    """Chronos-Bolt: a bias of all pairs of patches, kept where neither is missing, then added to scores."""
    body = """kept (float[1, 2, 201, 201] x, float[1, 1, 1, 201] series) => (float[1, 2, 201, 201] y) {
    missing = IsNaN (series)  there = Not (missing)
    left = Where (there, bias, lowest)  a = Add (x, left)  p = Softmax (a)  y = Add (p, left) }"""
    weight = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
    relative = np.arange(201) - np.arange(201)[:, None]
    bucket = buckets(relative, 32, far, bidirectional=True, edge=0.0) if far else np.abs(relative**2) % 32
    bias = np.moveaxis(weight[bucket], -1, 0)[None]
    made = read(tmp_path, body, {"bias": bias, "lowest": np.array(-3e38, np.float32)})
    if far:
        words = "t5_bias -p heads=2 -p num_buckets=32 -p max_distance=128 -p bidirectional=true"
        assert [(entry.scheme, entry.nodes) for entry in made.encodings] == [(words, ("Where#2", "Add#3", "Add#5"))]
    else:
        assert [entry.family for entry in made.encodings if entry.family == "t5"] == []
        assert answer(made) != NOTHING


@pytest.mark.parametrize("ahead", [False, True], ids=["the last rows", "the first rows"])
def test_the_last_rows_of_a_table_that_queries_are_multiplied_by(tmp_path: Path, ahead: bool) -> None:
    """Music Transformer: rows of distances, the farthest first, of which a call takes as many as it has tokens."""
    of_last = "begin = Sub (rows, length)  end = Identity (rows)"
    of_first = "begin = Mul (length, zero)  end = Add (length, zero)"
    cut = of_first if ahead else of_last
    body = f"""skewed (float[batch, 2, seq, 16] q) => (float[batch, 2, seq, k] y) {{
    sh = Shape (q)  length = Gather (sh, two1)  {cut}  near = Slice (table, begin, end, axis0)
    t = Transpose <perm = [1, 0]> (near)  y = MatMul (q, t) }}"""
    table = np.random.default_rng(0).normal(size=(48, 16)).astype(np.float32)
    sizes = {"two1": np.array([2]), "rows": np.array([48]), "axis0": np.array([0]), "table": table}
    made = read(tmp_path, body, {**sizes, "zero": np.array([0])})
    named = [(entry.family, entry.rows, entry.parameters.get("left")) for entry in made.encodings]
    assert named == ([] if ahead else [("relative", 48, 47)]) or (ahead and families(made) == ["not recognised"])


def test_a_part_of_a_joined_weight_is_no_row_of_a_distance(tmp_path: Path) -> None:
    """PyTorch's attention cuts the weights of keys and values from one tensor, by the number of features."""
    body = """cut (float[batch, seq, 16] x) => (float[batch, seq, k] y) {
    sh = Shape (x)  width = Gather (sh, two1)  near = Slice (table, width, rows, axis0)
    t = Transpose <perm = [1, 0]> (near)  y = MatMul (x, t) }"""
    table = np.random.default_rng(0).normal(size=(48, 16)).astype(np.float32)
    sizes = {"two1": np.array([2]), "rows": np.array([48]), "axis0": np.array([0]), "table": table}
    assert "relative" not in families(read(tmp_path, body, sizes))


def test_masks_of_the_other_kind_are_tried(tmp_path: Path) -> None:
    # True leaves a place out here: a mask of ones would leave no place to be counted
    body = """masked (bool[batch, seq] mask, float[batch, seq, 16] x) => (float[batch, seq, 16] y) {
    kept = Not (mask)  k = Cast <to = 1> (kept)  p = CumSum (k, one)  pu = Unsqueeze (p, last)
    h = Mul (pu, inv_freq)  s = Sin (h)  c = Cos (h)  r = Concat <axis = -1> (s, c)  y = Add (x, r) }"""
    made = read(tmp_path, body)
    assert families(made) == ["sinusoidal"]


def test_an_encoding_alone_meets_the_data_of_whoever_calls_it(tmp_path: Path) -> None:
    body = """rows (float[batch, seq, 16] x) => (float[seq, 16] r) {
    sh = Shape (x)  length = Gather (sh, one)  n = Range (zero, length, one)  p = Cast <to = 1> (n)
    pu = Unsqueeze (p, axis1)  h = Mul (pu, inv_freq)  s = Sin (h)  c = Cos (h)  r = Concat <axis = -1> (s, c) }"""
    assert families(read(tmp_path, body)) == ["sinusoidal"]


REFUSED = """refused (float[batch, seq, 16] x) => (float[batch, seq, 16] y) {
    sh = Shape (x)  length = Slice (sh, axis1, ends)  shape = Concat <axis = 0> (axis3, length, sixteen)
    y = Reshape (x, shape) }"""


def test_a_file_that_refuses_every_call_is_an_error(tmp_path: Path) -> None:
    tables = {"ends": np.array([2]), "axis3": np.array([3]), "sixteen": np.array([16])}
    made = read(tmp_path, REFUSED.replace("batch", "1"), tables)
    assert codes(made) == {"PE215": "error"}
    assert [entry.place for entry in made.not_judged] == ["Reshape#3"]


def test_a_file_for_one_batch_is_no_such_error(tmp_path: Path) -> None:
    # a batch of 3 fits
    tables = {"ends": np.array([2]), "axis3": np.array([3]), "sixteen": np.array([16])}
    made = read(tmp_path, REFUSED, tables)
    assert codes(made) == {"PE216": "warning"}


def test_a_computed_row_is_judged_as_far_as_it_was_tried(tmp_path: Path) -> None:
    made = read(tmp_path, turned("p = Identity (n)"))
    assert families(made) == ["rotary"]
    (errors,) = (encoding.errors for encoding in made.encodings)
    assert errors is not None
    assert (errors.last_position, errors.sampled, made.not_judged, made.findings) == (2**20 - 1, None, (), ())


def test_signed_slopes_are_known_and_others_have_no_name(tmp_path: Path) -> None:
    slopes = {"slopes": (2.0 ** -np.arange(2, 9, 2)).astype(np.float32)[:, None, None]}
    signed = read(tmp_path, biased("bias = Mul (slopes, d)"), slopes)
    assert [(e.family, e.parameters["bias_max"]) for e in signed.encodings] == [("alibi", 8.0)]
    turned_round = read(tmp_path, biased("e = Neg (d)  bias = Mul (slopes, e)"), slopes)
    assert families(turned_round) == ["not recognised"]


@pytest.mark.parametrize("words", [(), ("--fail-above", "1e-3"), ("--config",)])
def test_a_limit_that_ran_out_is_no_disagreement(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    why = "where positions end was not known within 1 s: give more with --timeout"
    honest = reading._read

    def late(path: Path, options: reading.InspectOptions) -> Inspection:
        inspection, entry = honest(path, options), NotJudged(str(path), why)
        findings = tuple(unjudged_findings([entry], options.bound is not None))
        return replace(inspection, encodings=(), ends=(), stopped=why, not_judged=(entry,), findings=findings)

    monkeypatch.setattr(reading, "_read", late)
    path = written(tmp_path, "g (float[b, s, 4] x) => (float[b, s, 4] y) { y = Neg (x) }")
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    given = (*words, str(tmp_path)) if words == ("--config",) else words
    result = cli("inspect", str(path), *given)
    assert result.exit_code == (3 if words else 0), result.output
    assert " error " not in result.output
    assert "give more with --timeout" in result.output


@pytest.mark.parametrize("words", [(), ("--fail-above", "1"), ("--config",)])
def test_time_for_measuring_that_ran_out_is_no_disagreement(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    seconds = itertools.count()  # one passes with each turn
    monkeypatch.setattr(far_errors, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    made = read(tmp_path, turned("p = Identity (n)"), bound=1.0 if "--fail-above" in words else None)
    monkeypatch.setattr(reading, "_read", lambda path, options: made)
    (entry,) = made.not_judged
    assert entry.reason.startswith("errors of rotary were measured up to position ")
    assert entry.reason.endswith(": time for measuring ran out")
    assert codes(made) == ({"PE216": "warning"} if "--fail-above" in words else {})
    config = {"model_type": "llama", "head_dim": 16, "hidden_size": 32, "num_attention_heads": 2, "rope_theta": 1e4}
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    given = (*words, str(tmp_path)) if words == ("--config",) else words
    result = cli("inspect", str(next(tmp_path.glob("*.onnx"))), *given)
    assert result.exit_code == (3 if "--fail-above" in words else 0), result.output
    assert "1 place not judged" in result.output
