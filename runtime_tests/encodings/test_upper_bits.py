"""Positions whose lower 32 bits are another number: ONNX Runtime 1.31 clips by these where the upper are equal."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import posenc
import posenc_export
from posenc.lookup import clip, index_or_end
from posenc_export.proof.planning.plan import SEVERAL

BEYOND = (2**31, 2**31 + 7, 2**32 - 1, 2**32 + 7, 2**62, -1, -(2**31) - 1, -(2**32) + 2, -(2**63))


def session(folder: Path, scheme: str, **parameters: object) -> onnxruntime.InferenceSession:
    spec = {"mode": "dynamic", "positions": "explicit", "max_len": 64, "formats": ["onnx"], "validate": False}
    posenc_export.export(scheme, to=folder / scheme, **spec, parameters=parameters)  # type: ignore[arg-type]
    return onnxruntime.InferenceSession(folder / scheme / "model.onnx", providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("position", BEYOND)
def test_numbers_are_moved_as_wholes(position: int) -> None:
    at = torch.tensor([position, 5])
    assert clip(at, 10).tolist() == [10 if position > 0 else 0, 5]
    assert index_or_end(at, 10).tolist() == [10, 5]
    assert index_or_end(torch.tensor([-1, 5, 2**31 - 1], dtype=torch.int32), 10).tolist() == [2**30 - 1, 5, 10]


def test_a_position_is_refused_by_all_of_its_bits(tmp_path: Path) -> None:
    """A kernel takes several numbers at once: alone, each would be refused."""
    run = session(tmp_path, "sinusoidal", d_model=8).run
    x = np.zeros((1, SEVERAL, 8), np.float32)
    (right,) = run(None, {"x": x, "positions": np.full((1, SEVERAL), 7)})
    assert np.abs(right).max() > 0.5
    for position in BEYOND:
        with pytest.raises(Exception, match=r"out of (data )?bounds"):
            run(None, {"x": x, "positions": np.full((1, SEVERAL), position)})


def test_a_distance_is_clipped_by_all_of_its_bits(tmp_path: Path) -> None:
    parameters = {"head_dim": 8, "left": 3, "right": 5}
    run = session(tmp_path, "clipped_relative", **parameters).run
    encoding = posenc.build("clipped_relative", posenc.Spec(mode="dynamic", positions="explicit"), **parameters)
    sizes = {"batch": 1, "heads": 2, "seq": 3, "seq_k": SEVERAL}
    drawn = np.random.default_rng(0)
    feeds = {
        port.name: drawn.normal(size=port.shape(sizes)).astype(np.float32)
        for port in encoding.inputs
        if port.dtype == "float32"
    }
    feeds["positions_q"] = np.array([[0, 1, 2]])
    for key in (2**31, 2**31 + 7, 2**32 - 1, 2**40):
        outputs = []
        for position in (key, 10):
            feeds["positions_k"] = np.full((1, SEVERAL), position)
            outputs.append(run(None, feeds)[0])
        np.testing.assert_array_equal(*outputs)
