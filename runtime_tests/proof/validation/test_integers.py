"""Integers and flags are compared exactly, whatever floats beside them may be off by."""

from pathlib import Path

import numpy as np
import pytest

from helpers.bundles import replace_array
from helpers.shared import Cli
from posenc.encoding import Tolerance
from posenc_export.proof.judging.compare import judge, measure


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_integers_are_the_same_or_wrong(dtype: str) -> None:
    expected = np.array([2**62, 0, 1]).astype(dtype)
    off = expected.copy()
    off[1] = 1
    assert judge(measure(expected, expected), Tolerance(atol=7.0)).passed
    assert not judge(measure(off, expected), Tolerance(atol=7.0)).passed
    if dtype == "int64":  # the same number in float64
        assert measure(expected + 1, expected).max_abs == 1
        assert not judge(measure(expected + 1, expected), Tolerance(atol=7.0)).passed


@pytest.mark.parametrize("factory", ["PositionIds", "ScaledWithIds"])
def test_a_module_with_an_integer_output_exports_and_validates(cli: Cli, tmp_path: Path, factory: str) -> None:
    args = ["export", f"helpers.unusual:{factory}", "-i", "x: float32[batch, seq, 8]", "--max-len", "40", "-o", "b"]
    result = cli(*args, "--runtime", "ort-cpu", "-f", "onnx")
    assert result.exit_code == 0, result.output
    result = cli("validate", "b", "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output
    output = "y" if factory == "PositionIds" else "y1"
    replace_array(tmp_path / "b", f"/{output}", lambda ids: ids + 1)
    result = cli("validate", "b", "--runtime", "ort-cpu")
    assert result.exit_code == 1
    assert f"{output} against eager" in result.output
