"""Modules with epsilons from 1e-5 to 1e-12, in three dtypes: exports are right where rows are hard, or refused."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from helpers.shared import one_of_each
from helpers.small_numbers import DTYPES, EPSILONS, MODULES, Small
from posenc_export import export
from posenc_export.common.arrays import to_numpy

ROWS = (0.0, 1e-4, 1e-6, 1e-9, 1e-12, 1e-20, 1e-30, 1e-40, 1.0, 1e3, 1e4, 6e4)
CASES: Mapping[str, tuple[type[Small], torch.dtype, float]] = {
    f"{module.__name__}-{str(dtype).removeprefix('torch.')}-{epsilon:g}": (module, dtype, epsilon)
    for turn, module in enumerate(MODULES)
    for dtype in DTYPES
    for epsilon in [EPSILONS[(turn + 3 * DTYPES.index(dtype)) % len(EPSILONS)]]
}
SAMPLE = {"ByAbsolutes", "RootMeanSquare"}


RUNTIMES = {torch.float32: "ort-cpu", torch.float16: "ort-cpu", torch.bfloat16: "onnx-reference"}


def is_slow(name: str) -> str:
    """Return what the quick run has one of: a dtype of few modules."""
    module, dtype, _ = name.split("-", 2)
    return dtype if module in SAMPLE else "rest"


def rows_of(dtype: torch.dtype) -> torch.Tensor:
    """Return a row of each magnitude, as far as the dtype has it."""
    torch.manual_seed(1)
    return (torch.tensor(ROWS)[:, None] * torch.randn(len(ROWS), 8)).to(dtype)


def held(module: torch.nn.Module, x: torch.Tensor) -> tuple[Any, Any]:
    """Return what eager answers, and where that is the truth and not an accident of rounding.

    It is finite, near float64's, and stays there where every other number that goes in moves by a step of its dtype: a
    subnormal number of bfloat16 has no digits, so that half of it is lost wherever it is rounded.
    """
    whole = {2: torch.int16, 4: torch.int32}[x.element_size()]
    moved = torch.where(torch.arange(x.shape[-1]) % 2 == 1, (x.view(whole) + 1).view(x.dtype), x)
    precise = copy.deepcopy(module).double()
    with torch.no_grad():
        eager = module(x).double().numpy()
        exact, nudged = (precise(one.double()).numpy() for one in (x, moved))
    with np.errstate(invalid="ignore"):
        is_near = [np.abs(eager - one) <= 0.02 * np.abs(eager) for one in (exact, nudged)]
        return eager, np.isfinite(eager) & np.all(is_near, axis=0)


def off(file: Path, x: torch.Tensor, expected: Any) -> Any:
    """Return how far a file is from what is expected, as shares of the largest of a row; of 0, how far it is."""
    feed = to_numpy(x)
    if x.dtype == torch.bfloat16:
        (actual,) = np.asarray(ReferenceEvaluator(onnx.load(file)).run(None, {"x": feed}))
    else:
        import onnxruntime

        (actual,) = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": feed})
    rows = expected.reshape(len(expected), -1)
    scale = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0, where=np.isfinite(rows))
    with np.errstate(invalid="ignore"):
        difference = np.abs(actual.astype(np.float64).reshape(rows.shape) - rows)
    return np.nan_to_num(difference / np.where(scale > 0, scale, 1.0), nan=np.inf).reshape(expected.shape)


@pytest.mark.parametrize("name", one_of_each(sorted(CASES, key=is_slow), is_slow))
def test_small_numbers_are_right_or_refused(tmp_path: Path, name: str) -> None:
    kind, dtype, epsilon = CASES[name]
    module = kind(epsilon).to(dtype).eval()
    words = str(dtype).removeprefix("torch.")
    inputs = [f"x: {words}[batch, 8]"]
    result = export(module, to=tmp_path / "out", inputs=inputs, formats=["onnx"], runtimes=[RUNTIMES[dtype]])
    if result.failed:
        assert dtype != torch.float32, result.verdicts
        return
    x = rows_of(dtype)
    expected, counts = held(module, x)
    assert counts[x.double().numpy().any(-1)].any()
    assert (off(tmp_path / "out" / "model.onnx", x, expected)[counts] <= 0.05).all()
