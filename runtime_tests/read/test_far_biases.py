"""ALiBi far out: its errors at all distances that a call can have, computed or stored, and what half precision does."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from helpers.graph_files import written
from helpers.misread import biased, codes, inspected, read
from helpers.shared import Cli
from posenc.formulas.alibi import in_bfloat16, slopes_of
from posenc.ports import Array
from posenc_export.cli.commands.inspect import fails
from posenc_export.read.inspection import Errors, Inspection
from posenc_export.read.report.text import body_lines

LAST = 2**20 - 1
POWERS = slopes_of(4, 8.0).astype(np.float32)[:, None, None]
"""Slopes that are powers of two: products with whole numbers are exact."""
COUNTED = "a = Neg (length)  b = Add (a, one)  ends = Range (b, one, one)"
FORMS = {
    "distance": "f = Abs (d)  e = Neg (f)  bias = Mul (slopes, e)",
    "distance, of negative slopes": "f = Abs (d)  s = Neg (slopes)  bias = Mul (f, s)",
    "distance, by a sum": "o = Neg (k)  r = Unsqueeze (o, axis1)  g = Add (k, r)  f = Abs (g)  e = Neg (f)  "
    "bias = Mul (slopes, e)",
    "distance, query first": "g = Sub (q, k)  f = Abs (g)  e = Neg (f)  bias = Mul (slopes, e)",
    "signed": "bias = Mul (slopes, d)",
    "key": "u = Unsqueeze (k, zero1)  bias = Mul (slopes, u)",
    "last_key": f"{COUNTED}  l = Cast <to = 1> (ends)  u = Unsqueeze (l, zero1)  bias = Mul (slopes, u)",
    "last_key, of a count from 0": "m = Sub (length, one)  l = Cast <to = 1> (m)  v = Sub (k, l)  "
    "u = Unsqueeze (v, zero1)  bias = Mul (slopes, u)",
}
"""Biases as graphs compute them, by the form and how."""


def seen(made: Inspection) -> Errors:
    """Return the errors of the one encoding, which is ALiBi's."""
    (encoding,) = made.encodings
    assert (encoding.family, made.not_judged) == ("alibi", ())
    assert encoding.errors is not None
    return encoding.errors


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_measured_as_far_as_calls_go(tmp_path: Path, form: str) -> None:
    tables = {"slopes": POWERS, "zero1": np.array([0])}
    made = read(tmp_path, biased(FORMS[form]), tables, bound=1e-3)
    errors = seen(made)
    assert made.encodings[0].name == form.partition(",")[0]
    assert (errors.last_position, errors.sampled, errors.slope) == (LAST, None, 0.25)
    assert errors.positions[0] == 0
    assert max(errors.errors) == 0.0
    assert not fails(made, (), 1e-3), "--fail-above 1e-3"


def test_rounded_slopes_lose_digits_far_out(tmp_path: Path) -> None:
    slopes = {"slopes": slopes_of(12, 8.0).astype(np.float32)[:, None, None]}
    body = biased(FORMS["distance"], 12)
    made = read(tmp_path, body, slopes)
    assert made.findings == (), "nobody asked for more than float32 gives"
    strict = read(tmp_path, body, slopes, bound=1e-3)
    assert codes(strict) == {"PE204": "error"}
    first = seen(strict).exceeds_from
    assert first is not None
    assert 2**13 < first < 2**17


def test_slopes_of_bfloat16_are_those_of_the_form(tmp_path: Path) -> None:
    """Falcon rounds its slopes: they are the form's own, and no error."""
    slopes = {"slopes": in_bfloat16(slopes_of(12, 8.0)).astype(np.float32)[:, None, None]}
    made = read(tmp_path, biased(FORMS["distance"], 12), slopes)
    assert made.encodings[0].parameters["bfloat16_slopes"] is True
    assert made.findings == ()
    # a product with 8 binary digits has 24 of them up to here
    assert (seen(made).exceeds_from or LAST) > 2**16


def test_half_precision_is_measured_and_runs_out(tmp_path: Path) -> None:
    """A float16 has no odd numbers above 2,048, and no number above 65,504."""
    made = read(tmp_path, in_half(FORMS["distance"]), {"slopes": POWERS.astype(np.float16)})
    assert seen(made).exceeds_from == 2049
    assert codes(made) == {"PE218": "warning"}
    assert "from distance 65,520 on" in made.findings[0].detail
    lines = "\n".join(body_lines(made))
    assert "at most inf, at distance 65,520 of distances 0 to 1,048,575; above 0.001 from distance 2,049 on" in lines
    strict = read(tmp_path, in_half(FORMS["distance"]), {"slopes": POWERS.astype(np.float16)}, bound=1e-3)
    assert codes(strict) == {"PE204": "error"}


def in_half(bias: str) -> str:
    """Return a graph in float16 that adds a bias to scores."""
    return biased(bias).replace("float[", "float16[").replace("Cast <to = 1>", "Cast <to = 10>")


AMID = "f = Abs (d)  e = Neg (f)  h = Cast <to = 10> (e)  s = Cast <to = 10> (slopes)  m = Mul (s, h)  "
AMID += "bias = Cast <to = 1> (m)"
"""A bias in half precision amid float32."""


def test_half_precision_amid_float32_is_an_error(tmp_path: Path) -> None:
    made = read(tmp_path, biased(AMID), {"slopes": POWERS})
    assert codes(made) == {"PE204": "error"}
    assert "off by more than 0.001 from distance 2,049 on, by inf at 65,520" in made.findings[0].detail


def test_the_errors_are_those_of_ieee_754(tmp_path: Path) -> None:
    """The bias itself, by the evaluator of the onnx package, at 2,300 tokens."""
    errors = seen(read(tmp_path, biased(AMID), {"slopes": POWERS}))
    model = onnx.load(tmp_path / "g.onnx")
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("bias", onnx.TensorProto.FLOAT, None))
    bias = np.asarray(next(iter(ReferenceEvaluator(model).run(None, {"x": np.zeros((0, 4, 2300, 2300), np.float32)}))))
    distance = np.arange(2300)[::-1]
    truth = np.abs(bias[:, -1].astype(np.float64) + POWERS[:, 0].astype(np.float64) * distance).max(axis=0)
    found = dict(zip(errors.positions, errors.errors, strict=True))
    near = [position for position in found if position < 2048]
    assert max(found[position] for position in near) == truth[distance < 2048].max() == 0.0
    assert max(error for position, error in found.items() if 2048 <= position < 2300) == pytest.approx(truth.max())
    assert truth.max() == 0.25


def stored(rows: int, form: str) -> Array:
    """Return ALiBi's table: of keys (4, 1, rows), or of queries and keys (4, rows, rows)."""
    places = np.arange(rows)
    steps = places - (rows - 1) if form == "last_key" else -np.abs(places - places[:, None])
    return np.asarray(POWERS * steps.astype(np.float32), np.float32)


SLICED = {
    "last_key": "lo = Sub (rows1, ln)  hi = Identity (rows1)  bias = Slice (table, lo, hi, axis2)",
    "distance": "b = Slice (table, zero1, ln, axis1)  bias = Slice (b, zero1, ln, axis2)",
}


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("form", SLICED)
def test_stored_biases_are_compared_number_by_number(tmp_path: Path, form: str, wrong: bool) -> None:
    table = stored(300, form)
    if wrong:
        table[2, -1, 40] += 0.5
    nodes = f"ln = Unsqueeze (length, zero1)  {SLICED[form]}"
    numbers = {"table": table, "rows1": np.array([300]), "zero1": np.array([0]), "axis2": np.array([2])}
    made = read(tmp_path, biased(nodes), numbers)
    errors = seen(made)
    assert errors.last_position == 299
    worst = max(zip(errors.errors, errors.positions, strict=True))
    assert worst[0] == pytest.approx(0.5 if wrong else 0.0)
    assert not wrong or worst[1] == 259
    assert ("PE204" in codes(made)) == wrong


def test_positions_that_wrap_far_out_are_no_rounding(tmp_path: Path) -> None:
    nodes = "w = Mod (n, wide)  l = Cast <to = 1> (w)  u = Unsqueeze (l, zero1)  bias = Mul (slopes, u)"
    numbers = {"slopes": POWERS, "zero1": np.array([0]), "wide": np.array(8000)}
    made = read(tmp_path, biased(nodes), numbers)
    assert codes(made) == {"PE204": "error"}
    assert "off by more than 0.001 from position 8,000 on" in made.findings[0].detail


@pytest.mark.parametrize("wraps", [False, True])
def test_each_layer_is_measured(tmp_path: Path, wraps: bool) -> None:
    """Layers may compute their own biases from the same slopes: a wrong second one is seen."""
    second = "Mod (n, wide)" if wraps else "Identity (n)"
    body = f"""layers (float[batch, 4, seq, seq] x, float[batch, 4, seq, seq] z) =>
    (float[batch, 4, seq, seq] y, float[batch, 4, seq, seq] v) {{
    sh = Shape (x)  length = Gather (sh, two)  n = Range (zero, length, one)
    k = Cast <to = 1> (n)  u = Unsqueeze (k, axis0)  first = Mul (slopes, u)  y = Add (x, first)
    w = {second}  l = Cast <to = 1> (w)  t = Unsqueeze (l, axis0)  other = Mul (slopes, t)  v = Add (z, other) }}"""
    made = read(tmp_path, body, {"slopes": POWERS, "wide": np.array(8000)})
    assert len(made.encodings[0].nodes) == 2
    assert codes(made) == ({"PE204": "error"} if wraps else {})


def test_a_bias_of_a_mask_is_measured(tmp_path: Path) -> None:
    """BLOOM counts places by its mask, and repeats the heads for a batch."""
    body = """masked (float[batch, 4, seq, seq] x, int64[batch, seq] attention_mask)
    => (float[batch, 4, seq, seq] y) {
    c = CumSum (attention_mask, one)  p = Sub (c, one)  m = Mul (p, attention_mask)  f = Cast <to = 1> (m)
    u = Unsqueeze (f, axes)  bias = Mul (slopes, u)  y = Add (x, bias) }"""
    numbers = {"slopes": POWERS, "one": np.array(1), "axes": np.array([1, 2])}
    made = inspected(written(tmp_path, body, numbers, 18), 1e-3)
    assert (made.encodings[0].name, made.encodings[0].positions) == ("key", "mask attention_mask")
    assert seen(made).last_position == LAST
    assert made.findings == ()


@pytest.mark.parametrize("bias", [FORMS["signed"], AMID], ids=["no error", "infinite errors"])
def test_errors_are_drawn_that_no_log_scale_has(tmp_path: Path, cli: Cli, bias: str) -> None:
    numbers = {"zero": np.array(0), "one": np.array(1), "two": np.array(2), "axis1": np.array([1]), "slopes": POWERS}
    path = str(written(tmp_path, biased(bias), numbers))
    picture, page = tmp_path / "errors.svg", tmp_path / "page.html"
    result = cli("inspect", path, "--plot", str(picture), "--html", str(page))
    assert result.exit_code == (0 if bias in FORMS.values() else 1), result.output
    assert ("no error" in picture.read_text(encoding="utf-8")) == (bias in FORMS.values())
    # a page has charts of errors alone
    text = page.read_text(encoding="utf-8")
    assert ("distance 65,520: " in text) == (bias == AMID)
