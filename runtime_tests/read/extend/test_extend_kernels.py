"""Tables that operators look up themselves, from 2048 rows to 131072, and where each operator ends."""

from pathlib import Path

import numpy as np
import pytest

import posenc_export
from helpers.attention_kernels import GRAPHS, ROWS, cos_sin, of_kernel
from helpers.longer import session
from helpers.shared import one_of_each
from posenc_export.read.extend.model import Model

LONG = 131072
CUDA_ALONE = "PagedAttention"


@pytest.mark.parametrize("name", one_of_each(GRAPHS, lambda _: ""))
def test_tables_grow_to_131072_rows(tmp_path: Path, name: str) -> None:
    made = tmp_path / "longer.onnx"
    result = posenc_export.extend(of_kernel(tmp_path, name), made, max_len=LONG)
    on_cpu = name != CUDA_ALONE
    assert (result.passed, result.reached, result.walls) == (on_cpu, LONG, ())
    assert bool(result.runs) == on_cpu, "what ONNX Runtime has on the CPU is called before and after"
    assert bool(result.not_compared) != on_cpu
    written = Model.load(made)
    for table, exact in zip(("cos_cache", "sin_cache"), cos_sin(LONG), strict=True):
        rows = written.array(table)
        assert rows.shape == exact.shape
        # half a step of numbers up to 1
        allowed = 3e-8 if rows.dtype == np.float32 else 2.0**-12
        assert np.abs(rows.astype(np.float64) - exact).max() <= allowed * 1.001
    assert {(table.rows, table.new_rows) for table in result.tables} == {(ROWS, LONG)}


@pytest.mark.parametrize("name", one_of_each(GRAPHS, lambda name: "Rotary" in name))
def test_each_operator_ends_with_its_tables(tmp_path: Path, name: str) -> None:
    inspection = posenc_export.inspect(of_kernel(tmp_path, name))
    (end,) = inspection.ends
    assert (end.last_right, end.beyond) == (ROWS, "overruns" if name == CUDA_ALONE else "refuses")
    # the graph is in float32, which PagedAttention does not take: ONNX Runtime refuses it
    codes = ["PE224", "PE202"] if name == CUDA_ALONE else ["PE201"]
    assert [finding.code for finding in inspection.findings] == codes


@pytest.mark.parametrize("name", [name for name in GRAPHS if "Rotary" in name])
def test_onnx_runtime_refuses_positions_behind_the_last_row(tmp_path: Path, name: str) -> None:
    loaded = session(of_kernel(tmp_path, name))
    streams = (3, 1, 1) if name == "MRotaryEmbedding" else (1, 1)

    def call(position: int) -> None:
        loaded.run(None, {"q": np.ones((1, 2, 1, 16), np.float32), "position_ids": np.full(streams, position)})

    call(ROWS - 1)
    with pytest.raises(Exception, match=r"position_ids|out of|range"):
        call(ROWS)
