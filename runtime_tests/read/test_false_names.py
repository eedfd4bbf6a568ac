"""A false name is worse than none, and so is a false word on a right file."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from helpers.misread import added, angles, biased, codes, families, operator, read
from posenc_export.read.interpret.sizes import axes_of
from posenc_export.read.report.text import file_lines

DRAWN = np.random.default_rng(0)
HALF = np.outer(np.arange(64), 1e4 ** (-np.arange(8) / 8))
COS, SIN = np.cos(HALF).astype(np.float32), np.sin(HALF).astype(np.float32)
NO_ROTATION = {
    "random": (DRAWN.standard_normal((64, 8)), DRAWN.standard_normal((64, 8))),
    "sines twice": (SIN, SIN),
    "zeros": (0 * COS, 0 * SIN),
    "another order": (COS[::-1], SIN),
    "one wrong row": (np.where(np.arange(64)[:, None] == 20, 0.5, COS), SIN),
    "NaN": (COS, np.where(np.arange(64)[:, None] == 20, np.nan, SIN)),
    "exchanged": (SIN, COS),
}


@pytest.mark.parametrize("domain", ["com.microsoft", ""])
@pytest.mark.parametrize("kind", NO_ROTATION)
def test_tables_that_turn_nothing_are_an_error(tmp_path: Path, kind: str, domain: str) -> None:
    cos, sin = (table.astype(np.float32) for table in NO_ROTATION[kind])
    made = read(tmp_path, operator(domain), {"c": cos, "s": sin}, opset=18 if domain else 23)
    assert codes(made)["PE217"] == "error"


@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_tables_that_turn_are_none(tmp_path: Path, factor: float) -> None:
    made = read(tmp_path, operator(), {"c": COS * np.float32(factor), "s": SIN * np.float32(factor)})
    assert (families(made), codes(made)) == (["rotary"], {"PE201": "note"})


def test_xpos_scales_are_no_error_of_a_table(tmp_path: Path) -> None:
    scale = (np.linspace(0.5, 0.99, 8) ** (np.arange(64)[:, None] / 64)).astype(np.float32)
    made = read(tmp_path, operator(), {"c": COS * scale, "s": SIN * scale})
    assert "PE217" not in codes(made)


@pytest.mark.parametrize("row", [0, 40])
def test_a_table_with_a_number_that_is_none_is_an_error(tmp_path: Path, row: int) -> None:
    rows = DRAWN.standard_normal((64, 16)).astype(np.float32)
    rows[row] = np.nan
    made = read(tmp_path, added("r = Gather (rows, n)"), {"rows": rows})
    assert codes(made)["PE218"] == "error"


def test_a_computed_bias_is_no_table(tmp_path: Path) -> None:
    numbers = {"r1": [-1, -0.5, -0.25, -2], "r2": [0.1, 1, 2, 0.5]}
    tables = {name: np.array(each, np.float32).reshape(4, 1, 1) for name, each in numbers.items()}
    tables["unit"] = np.array(1, np.float32)
    made = read(
        tmp_path, biased("f = Abs (d)  g = Mul (f, r2)  h = Add (g, unit)  l = Sqrt (h)  bias = Mul (l, r1)"), tables
    )
    assert families(made) == ["not recognised"]


def test_buckets_that_are_rounded_are_not_those_of_t5(tmp_path: Path) -> None:
    tables = {"table": DRAWN.standard_normal((32, 4)).astype(np.float32), "half": np.array(16, np.float32)}
    tables |= {"slope": np.array(16 / np.log(8), np.float32), "most": np.array(31, np.float32)}
    tables["none"] = np.array(0, np.float32)
    bucket = """e = Neg (d)  f = Max (e, none)  near = Less (f, half)
    u = Div (f, half)  l = Log (u)  g = Mul (l, slope)
    big = Add (g, half)  {how}  cut = Min (w, most)  b = Where (near, f, cut)  i = Cast <to = 7> (b)
    v = Gather (table, i)  bias = Transpose <perm = [2, 0, 1]> (v)"""
    right = read(tmp_path, biased(bucket.format(how="w = Floor (big)")), tables)
    assert families(right) == ["t5"]
    for how in ("w = Round (big)", "w = Ceil (big)"):
        assert families(read(tmp_path, biased(bucket.format(how=how)), tables)) == ["not recognised"]


@pytest.mark.parametrize("width", [2, 3, 16])
def test_learned_tables_may_be_narrow(tmp_path: Path, width: int) -> None:
    rows = DRAWN.standard_normal((40, width)).astype(np.float32)
    body = added("r = Gather (rows, n)").replace("16]", f"{width}]")
    made = read(tmp_path, body, {"rows": rows})
    assert [(e.family, e.parameters["d_model"]) for e in made.encodings] == [("learned", width)]


def test_a_table_of_sines_alone_is_close_to_sinusoidal(tmp_path: Path) -> None:
    sines = np.repeat(np.sin(angles(64)[:, :8]), 2, 1).astype(np.float32)
    made = read(tmp_path, added("r = Gather (rows, n)"), {"rows": sines})
    (entry,) = made.not_judged
    assert entry.reason.endswith("close to sinusoidal (interleaved, base 10000): 8 of 16 columns are not")


def test_rows_of_padding_are_not_read(tmp_path: Path) -> None:
    # fairseq's sinusoids: row 1 is that of padding, and positions begin at row 2
    rows = np.concatenate([np.sin(angles(64)[:, :8]), np.cos(angles(64)[:, :8])], 1).astype(np.float32)
    rows[1] = 0
    made = read(tmp_path, added("p = Add (n, two)  r = Gather (rows, p)"), {"rows": rows})
    assert (families(made), codes(made)) == (["sinusoidal"], {"PE201": "note"})
    assert made.ends[0].last_right == 62


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_rule_for_tables_of_few_bits(tmp_path: Path, dtype: str) -> None:
    rows = np.concatenate([np.sin(angles(64)[:, :8]), np.cos(angles(64)[:, :8])], 1)
    held = rows.astype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    body = added("h = Gather (rows, n)  r = Cast <to = 1> (h)")
    made = read(tmp_path, body, {"rows": held})
    assert ([e.stored_dtype for e in made.encodings], codes(made)) == ([dtype], {"PE201": "note"})
    assert codes(read(tmp_path, body, {"rows": held}, bound=1e-4))["PE204"] == "error"


@pytest.mark.parametrize(
    ("shape", "codes_of"),
    [("n, 3", []), ("n, 2", []), ("2, edges", []), ("n, 4", []), ("1, 128", ["PE203"]), ("n, 128", ["PE203"])],
)
def test_sizes_of_images_and_edges_are_no_batch_and_no_length(tmp_path: Path, shape: str, codes_of: list[str]) -> None:
    body = (
        f"sized (int64[{shape}] sizes) => (float s) {{ f = Cast <to = 1> (sizes)  s = ReduceSum <keepdims = 0> (f) }}"
    )
    assert list(codes(read(tmp_path, body))) == codes_of


def test_made_up_ids_stay_within_the_words_of_a_branch(tmp_path: Path) -> None:
    branch = "g () => (float[batch, seq, 16] {name}) {{ {name} = Gather (words, input_ids) }}"
    body = f"""merged (int64[batch, seq] input_ids, bool use_cache_branch) => (float[batch, seq, 16] y) {{
    x = If (use_cache_branch) <then_branch = {branch.format(name="w1")}, else_branch = {branch.format(name="w2")}>
    sh = Shape (x)  length = Gather (sh, one)  n = Range (zero, length, one)  p = Cast <to = 1> (n)
    pu = Unsqueeze (p, axis1)  h = Mul (pu, inv_freq)  s = Sin (h)  c = Cos (h)  r = Concat <axis = -1> (s, c)
    y = Add (x, r) }}"""
    made = read(tmp_path, body, {"words": DRAWN.standard_normal((64, 16)).astype(np.float32)})
    assert [end.last_right for end in made.ends] == [None]


def test_n_is_the_number_of_tokens_behind_a_batch(tmp_path: Path) -> None:
    from helpers.graph_files import graph

    body = "named (int64[1, n] input_ids) => (int64[1, n] y) { y = Identity (input_ids) }"
    assert axes_of(graph(tmp_path, body)) == {"n": "length"}


def test_caches_do_not_fill_the_screen(tmp_path: Path) -> None:
    caches = [f"float[batch, 2, past, 16] past_key_values_{i}_{kind}" for i in range(32) for kind in ("key", "value")]
    names = ", ".join(entry.rsplit(" ", 1)[1] for entry in caches)
    body = f"cached ({', '.join(caches)}) => (float[batch, 64, p, 16] y) {{ y = Concat <axis = 1> ({names}) }}"
    _, inputs, *_ = file_lines(read(tmp_path, body))
    assert inputs == "inputs: past_key_values_0_key float32[batch, 2, past, 16] and 63 like it"
