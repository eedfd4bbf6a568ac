"""`--table-rows`: rows of the first positions are stored, and each way to give positions has the same bits."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import posenc_export
from helpers.shared import Cli
from posenc.ports import Array
from posenc.spec import TABLE_ROWS, Positions, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter import ExportOptions
from posenc_export.proof.stored.rebuilding import spec_of

WIDTH, HEAD = 12, 16
LENGTHS = (1, 2, TABLE_ROWS - 1, TABLE_ROWS, TABLE_ROWS + 1, TABLE_ROWS + 64, TABLE_ROWS + 65, 4200)
WAYS: tuple[Positions, ...] = ("implicit", "offset", "explicit", "mask")


def written(folder: Path, scheme: str = "sinusoidal", formats: tuple[str, ...] = ("onnx",), **fields: Any) -> Path:
    """Export, and return the folder of the bundle."""
    params = {"head_dim": HEAD} if scheme == "rope" else {"d_model": WIDTH}
    options = ExportOptions(formats, validate=False)
    spec = {"mode": "dynamic", **fields}
    return posenc_export.export(scheme, to=folder, options=options, parameters=params, **spec).folder


def session(folder: Path) -> ort.InferenceSession:
    return ort.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])


def fed(way: str, first: int, length: int) -> Mapping[str, Array]:
    """What gives the positions from one on."""
    return {
        "implicit": {},
        "offset": {"start": np.array([first])},
        "explicit": {"positions": first + np.arange(length)[None]},
        "mask": {"attention_mask": np.ones((1, length), np.int64)},
    }[way]


def same(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


@pytest.mark.parametrize("scheme", ["sinusoidal", "rope"])
def test_a_row_has_one_set_of_bits(tmp_path: Path, scheme: str) -> None:
    draw = np.random.default_rng(0)
    files = {way: session(written(tmp_path / way, scheme, positions=way)) for way in WAYS}
    for length in LENGTHS:
        shape = (1, 2, length, HEAD) if scheme == "rope" else (1, length, WIDTH)
        x = draw.standard_normal(shape).astype(np.float32)
        values = {"q": x, "k": x} if scheme == "rope" else {"x": x}
        wanted = files["implicit"].run(None, values)[0]
        for way in WAYS[1:]:
            assert same(files[way].run(None, {**values, **fed(way, 0, length)})[0], wanted)
        # one token of that call, by itself
        last = {name: value[..., -1:, :] for name, value in values.items()}
        (alone, *_) = files["offset"].run(None, {**last, **fed("offset", length - 1, 1)})
        assert same(alone, wanted[..., -1:, :])


def test_stored_rows_are_right_to_half_an_ulp_and_others_as_before(tmp_path: Path) -> None:
    zeros = np.zeros((1, 4200, WIDTH), np.float32)
    few, many = (
        session(written(tmp_path / str(rows), table_rows=rows)).run(None, {"x": zeros})[0][0] for rows in (64, 4096)
    )
    baked = session(written(tmp_path / "baked", mode="baked", max_len=4200)).run(None, {"x": zeros})[0][0]
    assert same(many[:4096], baked[:4096])
    assert same(few[:64], baked[:64])
    assert not same(few, baked)
    assert same(few[4096:], many[4096:])


def test_a_graph_of_stored_and_computed_rows_has_no_branch_and_stores_what_is_asked_for(tmp_path: Path) -> None:
    graph = onnx.load(written(tmp_path / "b", table_rows=256) / "model.onnx").graph
    assert {"If", "Loop", "Where"}.isdisjoint(node.op_type for node in graph.node)
    assert [list(tensor.dims) for tensor in graph.initializer if tensor.name == "source.first"] == [[256, WIDTH]]
    sizes = {dim.dim_param for value in graph.value_info for dim in value.type.tensor_type.shape.dim}
    assert not any("u0" in size or "u1" in size for size in sizes)


def test_a_bundle_says_how_many_rows_it_stores(tmp_path: Path, cli: Cli) -> None:
    command = ("export", "--dynamic", "-p", "d_model=8", "-f", "onnx", "--runtime", "ort-cpu", "-o", "b")
    assert cli(*command, "--table-rows", "128").exit_code == 0
    manifest = Bundle.open(tmp_path / "b").manifest
    assert (manifest.facts["table_rows"], spec_of(manifest).table_rows) == ("128", 128)
    assert "sinusoidal, dynamic (exact, 128 rows stored)" in (tmp_path / "b" / "report.md").read_text()
    result = cli("validate", "b", "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output


def test_a_header_stores_as_few_rows_as_there_may_be_unless_somebody_says_how_many(tmp_path: Path) -> None:
    usual = written(tmp_path / "a", formats=("onnx", "header"))
    more = written(tmp_path / "b", formats=("onnx", "header"), table_rows=128)
    rows = [Bundle.open(folder).manifest.facts["table_rows"] for folder in (usual, more)]
    assert rows == ["64", "128"]
    assert "pe_low_rows" not in (usual / "model.hpp").read_text()
    assert "low_rows = 128" in (more / "model.hpp").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--dynamic", "--table-rows", "100"), "table_rows must be a multiple of 64, from 64 to 1048576, got 100"),
        (("--dynamic", "--table-rows", "63"), "63 is not in the range 64<=x<=1048576"),
        (("--table-rows", "64"), "--method exact); this sinusoidal has none: leave it out"),
        (
            ("--dynamic", "--method", "trig", "--table-rows", "64"),
            "--method exact); this sinusoidal has none: leave it out",
        ),
        (
            ("alibi", "--dynamic", "--table-rows", "64"),
            "--table-rows 64 is for rows that angle addition composes (--dynamic",
        ),
    ],
)
def test_what_stores_no_rows_is_refused_in_a_line(cli: Cli, words: tuple[str, ...], line: str) -> None:
    result = cli("export", *words, "-o", "b")
    assert result.exit_code == 2
    assert line in result.output.strip().splitlines()[-1]


def test_python_names_the_argument() -> None:
    with pytest.raises(BadInput, match="table_rows=64 is for rows that angle addition composes"):
        posenc_export.export("alibi", mode="dynamic", table_rows=64)


def test_a_spec_of_an_older_bundle_stores_a_block() -> None:
    assert Spec("dynamic").stored_positions == TABLE_ROWS
    assert Spec("dynamic", table_rows=64).stored_positions == 64
