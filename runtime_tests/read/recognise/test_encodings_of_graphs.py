"""Graphs of a few nodes: tables, biases and ids that are named, and constants that are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from helpers.encodings_named import named
from helpers.graph_files import written
from posenc_export import inspect
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.encodings import encodings_of


def graph(tmp_path: Path, body: str, opset: int = 17, **tables: np.ndarray) -> Path:
    """Return the file of a graph from features x (1, sequence, 16) to y, in ONNX's text syntax, with stored tables."""
    ports = "(float[1, sequence, 16] x) => (float[a, b, c] y)"
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> g {ports} {{ {body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(table, name) for name, table in tables.items())
    onnx.save(model, tmp_path / "graph.onnx")
    return tmp_path / "graph.onnx"


RANGE = """
    shape = Shape(x)
    zero = Constant<value_int=0>()
    one = Constant<value_int=1>()
    length = Gather(shape, one)
    ids = Range(zero, length, one)
"""
COLUMN = """
    places = Cast<to=1>(ids)
    axes = Constant<value_ints=[1]>()
    column = Unsqueeze(places, axes)
"""


def test_rows_without_a_name_are_not_recognised(tmp_path: Path) -> None:
    body = RANGE + COLUMN + "root = Sqrt(column) rows = Mul(root, scale) y = Add(x, rows)"
    (encoding,) = named(graph(tmp_path, body, scale=np.linspace(1, 2, 16, dtype=np.float32)))
    assert (encoding.form.family, encoding.form.name) == ("not recognised", "Range at Range#4 and Gather at Gather#3")
    assert encoding.shape[-1] == 16
    assert encoding.stored == ("scale",)


def test_shifts_of_a_norm_are_no_encoding(tmp_path: Path) -> None:
    body = "s = Constant<value_ints=[1, 6, 16]>() w = Reshape(x, s) z = Add(w, t) a, y = Split<axis=1>(z)"
    path = graph(tmp_path, body, t=np.random.default_rng(0).normal(size=(6, 16)).astype(np.float32))
    assert named(path, 6) == []


def test_a_row_of_types_is_no_encoding(tmp_path: Path) -> None:
    body = RANGE + "none = Mul(ids, zero) rows = Gather(types, none) y = Add(x, rows)"
    table = np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32)
    assert named(graph(tmp_path, body, types=table)) == []


@pytest.mark.parametrize("offset", [0, 3])
def test_rows_of_a_stored_table_have_the_offset_of_the_first(offset: int, tmp_path: Path) -> None:
    body = RANGE + f"first = Constant<value_int={offset}>() at = Add(ids, first) rows = Gather(t, at) y = Add(x, rows)"
    table = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    (encoding,) = named(graph(tmp_path, body, t=table))
    assert (encoding.form.family, encoding.rows, encoding.form.parameters["offset"]) == ("learned", 500, offset)
    assert encoding.stored == ("t",)


@pytest.mark.parametrize("masked", [True, False])
def test_biases_of_operators_of_attention_are_named(masked: bool, tmp_path: Path) -> None:
    slopes = (2.0 ** -np.arange(2, 9, 2)).astype(np.float32).reshape(4, 1, 1)
    heads = "sizes = Constant<value_ints=[1, -1, 4, 4]>() h = Reshape(x, sizes) q = Transpose<perm=[0, 2, 1, 3]>(h)"
    steps = (
        "query = Unsqueeze(places, axes) key = Unsqueeze(places, zeros) d = Sub(key, query) far = Abs(d) n = Neg(far)"
    )
    body = f"""{RANGE} {COLUMN} {heads} zeros = Constant<value_ints=[0]>() {steps} three = Mul(n, slopes)
        bias = Unsqueeze(three, zeros) hidden = Greater(d, least) mask = Where(hidden, low, least)
        all = {"Add(bias, mask)" if masked else "Identity(bias)"} y = Attention(q, q, q, all)"""
    constants = {"slopes": slopes, "least": np.float32(0), "low": np.float32(-np.inf)}
    path = graph(tmp_path, body, opset=23, **{name: np.asarray(array) for name, array in constants.items()})
    (encoding,) = named(path)
    assert (encoding.form.family, encoding.form.name, encoding.error) == ("alibi", "distance", 0)
    assert encoding.form.parameters["heads"] == 4


@pytest.mark.parametrize("keys", [40, 200])
def test_buckets_of_a_single_query_are_named(keys: int, tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32)
    far = np.arange(keys)[::-1]
    large = np.minimum(16 + np.log(np.maximum(far, 16) / 16) / np.log(8) * 16 + 1e-6, 31).astype(np.int64)
    body = RANGE + "at = Gather(buckets, ids) rows = Gather(t, at) y = Mul(x, rows)"
    path = graph(tmp_path, body, t=table, buckets=np.where(far < 16, far, large))
    (encoding,) = named(path, keys)
    assert (encoding.form.family, encoding.form.parameters["bidirectional"]) == ("t5", False)
    assert encoding.form.parameters["max_distance"] == 128


@pytest.mark.parametrize("lookup", [True, False])
def test_sinusoids_of_eight_bits_are_named(lookup: bool, tmp_path: Path) -> None:
    angle = np.arange(64)[:, None] * 1e4 ** -(np.arange(8) / 8)
    table = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(64, 16)
    scale = (np.abs(table).max(1) / 127).astype(np.float32)
    stored = {"q": np.rint(table / scale[:, None]).astype(np.int8), "scale": scale, "none": np.zeros(64, np.int8)}
    take = "rows = Gather(t, ids)" if lookup else "rows = Identity(t)"
    body = RANGE + f"t = DequantizeLinear<axis=0>(q, scale, none) {take} y = Add(x, rows)"
    (encoding,) = named(graph(tmp_path, body, **stored), None if lookup else 64)
    assert (encoding.form.family, encoding.form.parameters["base"]) == ("sinusoidal", 1e4)
    assert encoding.error is not None
    assert 1e-3 < encoding.error < 5e-3


def test_layers_that_share_a_table_are_named_once(tmp_path: Path) -> None:
    body = RANGE + "rows = Gather(t, ids) a1 = Add(x, rows) a2 = Relu(a1) y = Add(a2, rows)"
    table = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    (encoding,) = named(graph(tmp_path, body, t=table))
    assert len(encoding.nodes) == 2


@pytest.mark.parametrize("shape", [(16,), (1, 1, 16), (8400, 2), (1, 16, 16)])
def test_constants_that_are_added_are_no_encoding(shape: tuple[int, ...], tmp_path: Path) -> None:
    # a norm's bias, anchors of a detector, and coordinates as straight lines, beside data of the same sizes
    table = np.broadcast_to(np.linspace(0, 1, shape[-1]), shape).astype(np.float32)
    sizes = [1, *shape[-2:]] if max(shape[:-1], default=1) > 1 else [1, 16, 16]
    body = f"s = Constant<value_ints={sizes}>() w = Reshape(x, s) y = Add(w, t)"
    run = interpret(read_graph(graph(tmp_path, body, t=table)), {"sequence": int(np.prod(sizes)) // 16})
    assert run.stopped is None
    assert encodings_of(run) == []


def test_ids_that_are_cut_or_dequantized_stay_within_their_table(tmp_path: Path) -> None:
    words = "b = DequantizeLinear(words, scale, none) w = Gather(b, cut)"
    body = f"zero = Constant<value_int=0>() cut = Gather<axis=2>(input_ids, zero) {words} y = Add(w, w)"
    inputs = "int64[1, sequence, 4] input_ids"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[1, sequence, 8] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    tables = {"words": np.ones((7, 8), np.int8), "scale": np.float32(1), "none": np.int8(0)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(table), name) for name, table in tables.items())
    onnx.save(model, tmp_path / "ids.onnx")
    assert named(tmp_path / "ids.onnx") == []


@pytest.mark.parametrize("channels", ["last", "first"])
def test_a_stored_grid_that_is_added_to_a_map_is_a_table_of_its_places(channels: str, tmp_path: Path) -> None:
    """SAM has the features of its patches last, PiT first, behind a convolution."""
    ports = "g (float[batch, 3, 32, 32] x) => (float[batch, a, b, c] y)"
    patches = "p = Conv <kernel_shape = [8, 8], strides = [8, 8]> (x, w)"
    added = {"last": "m = Transpose <perm = [0, 2, 3, 1]> (p) y = Add (m, t)", "first": "y = Add (p, t)"}[channels]
    rng = np.random.default_rng(0)
    sides = (1, 4, 4, 16) if channels == "last" else (1, 16, 4, 4)
    tables = {"w": rng.normal(size=(16, 3, 8, 8)).astype(np.float32), "t": rng.normal(size=sides).astype(np.float32)}
    (encoding,) = named(written(tmp_path, f"{ports} {{ {patches} {added} }}", tables))
    assert (encoding.form.family, encoding.rows, encoding.form.parameters["d_model"]) == ("learned", 16, 16)


def test_rows_of_which_the_first_is_taken_apart_are_places(tmp_path: Path) -> None:
    """TimeSformer takes the token of its class, and the patches, out of the sum with its table."""
    ports = "g (float[batch, 17, 16] x) => (float[batch, 1, 16] y, float[batch, 16, 16] z)"
    parts = "s = Add (x, t) parts = Constant <value_ints = [1, 16]> () y, z = Split <axis = 1> (s, parts)"
    table = np.random.default_rng(0).normal(size=(1, 17, 16)).astype(np.float32)
    (encoding,) = named(written(tmp_path, f"{ports} {{ {parts} }}", {"t": table}))
    assert (encoding.form.family, encoding.rows) == ("learned", 17)


def test_turns_by_stored_numbers_beside_another_encoding_are_said(tmp_path: Path) -> None:
    """A grid of one size has its cosines stored: rows that are named elsewhere are no reason for silence."""
    ports = "g (float[batch, 16, 16] x) => (float[batch, 16, 16] y)"
    turn = "s = Add (x, t) c = Mul (s, cosine) n = Neg (s) d = Mul (n, sine) y = Add (c, d)"
    rng = np.random.default_rng(0)
    angles = rng.normal(size=(16, 16))
    tables = {"t": rng.normal(size=(1, 16, 16)), "cosine": np.cos(angles), "sine": np.sin(angles)}
    made = {name: array.astype(np.float32) for name, array in tables.items()}
    found = named(written(tmp_path, f"{ports} {{ {turn} }}", made))
    assert [entry.form.family for entry in found] == ["learned", "not recognised"]
    assert found[1].form.name == "turns by numbers stored in cosine and sine"


def test_waves_of_two_inputs_that_are_joined_are_said(tmp_path: Path) -> None:
    """Flux joins the places of its words and those of its image."""
    ports = "g (float[6, 3] txt_ids, float[8, 3] img_ids, float[1, 14, 4] x) => (float[1, 14, 4] y)"
    body = """ids = Concat <axis = 0> (txt_ids, img_ids) column = Constant <value_ints = [1]> ()
        place = Gather <axis = 1> (ids, column) angles = Mul (place, frequencies)
        turned = Cos (angles) y = Mul (x, turned)"""
    frequencies = (1e4 ** (-np.arange(4) / 4)).astype(np.float32)
    (entry,) = named(written(tmp_path, f"{ports} {{ {body} }}", {"frequencies": frequencies}))
    assert (entry.form.family, entry.positions) == ("not recognised", "img_ids and txt_ids")


def test_features_of_numbers_that_a_graph_returns_are_named(tmp_path: Path) -> None:
    """torch_geometric's encoding of numbers is a graph of its own, with no weight behind it."""
    ports = "g (float[nodes] t) => (float[nodes, 16] y)"
    body = """last = Constant <value_ints = [1]> () column = Unsqueeze (t, last) angles = Mul (column, frequencies)
        s = Sin (angles) c = Cos (angles) y = Concat <axis = 1> (s, c)"""
    frequencies = (1e4 ** (-np.arange(8) / 7)).astype(np.float32)
    (entry,) = inspect(written(tmp_path, f"{ports} {{ {body} }}", {"frequencies": frequencies})).encodings
    assert (entry.family, entry.parameters["dim"], entry.parameters["downscale_freq_shift"]) == ("timestep", 16, 1.0)


@pytest.mark.parametrize("own", [True, False])
def test_rows_that_are_tokens_themselves_are_no_positions(own: bool, tmp_path: Path) -> None:
    """Pegasus-X has tokens of no word, which attend to the others: what comes of that is added to them."""
    ports = "g (float[1, sequence, 16] x) => (float[1, 4, 16] y)"
    asked = "t" if own else "other"
    body = f"""q = MatMul ({asked}, w) turned = Transpose <perm = [0, 2, 1]> (x) scores = MatMul (q, turned)
        shares = Softmax <axis = -1> (scores) seen = MatMul (shares, x) given = MatMul (seen, w) y = Add (t, given)"""
    rng = np.random.default_rng(0)
    tables = {name: rng.normal(size=(1, 4, 16)).astype(np.float32) for name in ("t", "other")}
    path = written(tmp_path, f"{ports} {{ {body} }}", {**tables, "w": rng.normal(size=(16, 16)).astype(np.float32)})
    assert any(entry.form.family == "learned" for entry in named(path)) is not own


def test_rows_by_distance_that_an_exporter_has_unfolded_are_named(tmp_path: Path) -> None:
    """SAM's rows of each difference of two rows of a window are stored once for each pair, and multiply queries."""
    ports = "g (float[batch, 4, 5, 8] q) => (float[batch, 4, 5, 4] y)"
    table = np.random.default_rng(0).normal(size=(7, 8)).astype(np.float32)
    pairs = table[np.arange(4)[:, None] - np.arange(4) + 3]
    body = 'y = Einsum <equation = "bhwc,hkc->bhwk"> (q, pairs)'
    (entry,) = named(written(tmp_path, f"{ports} {{ {body} }}", {"pairs": pairs}))
    assert (entry.form.family, entry.form.name, entry.rows) == ("relative", "distances", 7)
    weights = np.random.default_rng(0).normal(size=(4, 4, 8)).astype(np.float32)
    other = named(written(tmp_path, f"{ports} {{ {body} }}", {"pairs": weights}, name="weights.onnx"))
    assert all(entry.form.family == "not recognised" for entry in other)


def test_rows_of_which_all_are_taken_are_places(tmp_path: Path) -> None:
    """A slice from the first to the last takes nothing apart."""
    ports = "g (float[batch, 16, 16] x) => (float[batch, 16, 16] y)"
    body = """s = Add (x, t) first = Constant <value_ints = [0]> () last = Constant <value_ints = [9999]> ()
        axis = Constant <value_ints = [1]> () y = Slice (s, first, last, axis)"""
    table = np.random.default_rng(0).normal(size=(1, 16, 16)).astype(np.float32)
    (encoding,) = named(written(tmp_path, f"{ports} {{ {body} }}", {"t": table}))
    assert (encoding.form.family, encoding.rows) == ("learned", 16)


def test_frames_beyond_an_end_that_are_multiplied_by_zero_hold_no_encoding(tmp_path: Path) -> None:
    body = RANGE + COLUMN + "low = Less (ids, kept) m = Cast <to = 1> (low)"
    body += " factors = Unsqueeze (m, axes) y = Mul (x, factors)"
    assert inspect(graph(tmp_path, body, kept=np.array(4099))).encodings == ()


def test_networks_that_leave_one_token_of_a_short_call_are_read_in_a_longer_one(tmp_path: Path) -> None:
    """Speech is shortened by strides: of 13 frames one token is left, and one position says nothing of sines."""
    ports = "g (float[1, frames, 8] x) => (float[1, s, 16] y)"
    body = """a = Transpose <perm = [0, 2, 1]> (x) b = Conv <kernel_shape = [3], strides = [12]> (a, w)
        h = Transpose <perm = [0, 2, 1]> (b) shape = Shape (h) n = Gather (shape, one) ids = Range (zero, n, one)
        p = Cast <to = 1> (ids) last = Constant <value_ints = [1]> () column = Unsqueeze (p, last)
        angles = Mul (column, frequencies) s = Sin (angles) c = Cos (angles) rows = Concat <axis = 1> (s, c)
        y = Add (h, rows)"""
    tables = {"one": np.array(1), "zero": np.array(0), "frequencies": (1e4 ** (-np.arange(8) / 8)).astype(np.float32)}
    tables["w"] = np.random.default_rng(0).normal(size=(16, 8, 3)).astype(np.float32)
    (entry,) = inspect(written(tmp_path, f"{ports} {{ {body} }}", tables)).encodings
    assert (entry.family, entry.parameters["base"], entry.parameters["layout"]) == ("sinusoidal", 1e4, "halves")


def test_steps_that_are_multiplied_by_a_thousand_are_given_as_fractions(tmp_path: Path) -> None:
    """Flux takes steps from 0 to 1: their angles go to a thousand, and are no less exact than those of others."""
    ports = "g (float[batch] timestep) => (float[batch, 4] y)"
    body = """t = Mul (timestep, thousand) last = Constant <value_ints = [1]> () column = Unsqueeze (t, last)
        angles = Mul (column, frequencies) s = Sin (angles) c = Cos (angles) rows = Concat <axis = 1> (s, c)
        y = MatMul (rows, w)"""
    tables = {"thousand": np.array(1000, np.float32), "frequencies": (1e4 ** (-np.arange(8) / 8)).astype(np.float32)}
    tables["w"] = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    inspection = inspect(written(tmp_path, f"{ports} {{ {body} }}", tables))
    (entry,) = inspection.encodings
    assert (entry.family, entry.parameters["scale"], inspection.passed) == ("timestep", 1000.0, True)
    assert entry.error is not None
    assert 0 < entry.error < 1e-3
