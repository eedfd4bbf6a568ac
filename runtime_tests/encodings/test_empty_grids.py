"""Of a grid without rows or columns what comes out is empty, too, on every runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import posenc
from posenc.ports import Feeds, axes_of
from posenc.spec import Mode, Spec
from posenc_export import export
from posenc_export.common.arrays import numpy_dtype

GRIDS: dict[str, tuple[str, Mode, dict[str, Any]]] = {
    "cpb": ("swin_cpb", "dynamic", {"heads": 2, "hidden": 8}),
    "cpb-pretrained": ("swin_cpb", "dynamic", {"heads": 2, "hidden": 8, "pretrained_window": 12}),
    "decomposed": ("decomposed_relative", "dynamic", {"head_dim": 4, "window": (3, 5)}),
    "plane": ("interpolated", "dynamic", {"d_model": 4, "grid": (3, 5)}),
    "plane-rows": ("interpolated", "dynamic", {"d_model": 4, "grid": (3, 5), "output": "rows"}),
    "plane-antialias": ("interpolated", "dynamic", {"d_model": 4, "grid": (3, 5), "antialias": True}),
    "line": ("interpolated", "dynamic", {"d_model": 4, "grid": (7,), "align_corners": True, "output": "rows"}),
    "sincos": ("sincos_2d", "dynamic", {"dim": 8}),
    "sincos-fraction": ("sincos_2d", "dynamic", {"dim": 8, "base_size": 16}),
    "sincos-baked": ("sincos_2d", "baked", {"dim": 8}),
    "sincos-crop": ("sincos_2d", "dynamic", {"dim": 8, "crop": 20}),
    "sincos-3d": ("sincos_3d", "dynamic", {"dim": 16}),
    "detr": ("sine_2d", "dynamic", {"dim": 8}),
    "detr-baked": ("sine_2d", "baked", {"dim": 8}),
}


def calls(encoding: posenc.Encoding) -> list[tuple[Feeds, tuple[int, ...]]]:
    """Return calls in which an axis of places is empty, then in which all are, and the shape that comes out of each."""
    made: list[tuple[Feeds, tuple[int, ...]]] = []
    axes = axes_of(encoding.inputs)
    places = [axis.name for axis in axes if axis.is_length]
    for empty in ([name] for name in places) if len(places) == 1 else [*([name] for name in places), places]:
        sizes = {axis.name: 0 if axis.name in empty else 3 for axis in axes}
        feeds = {port.name: np.ones(port.shape(sizes), numpy_dtype(port.dtype)) for port in encoding.inputs}
        made.append((feeds, encoding.outputs[0].shape(sizes)))
    return made


def spec_of(case: str) -> Spec:
    return Spec(GRIDS[case][1], max_len=20)


@pytest.mark.parametrize("case", GRIDS)
def test_of_no_places_there_are_no_rows(case: str) -> None:
    name, _, parameters = GRIDS[case]
    encoding = posenc.build(name, spec_of(case), **parameters)
    script = torch.jit.script(encoding.module)
    for feeds, shape in calls(encoding):
        inputs = [torch.from_numpy(array) for array in feeds.values()]
        for module in (encoding.module, script):
            y: Tensor = module(*inputs)
            assert tuple(y.shape) == shape


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", GRIDS)
def test_files_of_no_places_give_no_rows(case: str, tmp_path: Path) -> None:
    name, _, parameters = GRIDS[case]
    made = export(
        name, parameters=parameters, spec=spec_of(case), to=tmp_path / "out", formats=("onnx",), validate=False
    )
    session = onnxruntime.InferenceSession(made.folder / "model.onnx")
    for feeds, shape in calls(posenc.build(name, spec_of(case), **parameters)):
        (y,) = session.run(None, dict(feeds))
        assert y.shape == shape
