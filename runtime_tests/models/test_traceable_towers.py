"""Towers that read images give the numbers of transformers while they can be traced, and graphs of them, too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor
from transformers import vision_utils

from helpers.shared import one_of_each
from helpers.small_towers import READERS, Features, Reader, model_of, scale_of_difference
from posenc_models.vision.towers import traceable_towers
from posenc_models.vision.towers.grid_functions import GridFunctions

TOLERANCE = 32 * torch.finfo(torch.float32).eps
"""Of the largest number: sums over keys, and over channels, are in another order."""


def parts(name: str) -> tuple[Features, Reader]:
    """Return what a model reads, and how it is called."""
    reader = READERS[name]
    torch.manual_seed(1)
    return Features(model_of(name), list(reader.axes)), reader


def session_of(features: Features, reader: Reader, path: Path) -> onnxruntime.InferenceSession:
    """Return a session of the graph of a model, traced once."""
    with torch.no_grad(), traceable_towers():
        program = torch.onnx.export(
            features,
            tuple(reader.draw(reader.tried[0]).values()),
            dynamo=True,
            dynamic_shapes=(tuple(dict(axes) for axes in reader.axes.values()),),
            input_names=list(reader.axes),
            verbose=False,
        )
    assert program is not None
    program.save(path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options)


def run(session: onnxruntime.InferenceSession, inputs: Mapping[str, Tensor]) -> Any:
    """Return what a graph gives."""
    return session.run(None, {name: value.numpy() for name, value in inputs.items()})


@pytest.mark.parametrize("name", READERS)
def test_a_traceable_tower_gives_the_numbers_of_the_model(name: str) -> None:
    features, reader = parts(name)
    with torch.no_grad():
        for sizes in reader.tried:
            inputs = reader.draw(sizes)
            expected = features(*inputs.values())
            with traceable_towers():
                found = features(*inputs.values())
            assert scale_of_difference(found, expected) < TOLERANCE, sizes
        for inputs in reader.wrong():
            with traceable_towers(), pytest.raises(IndexError, match="sizes do not fit pixel_values: expected"):
                features(*inputs.values())


@pytest.mark.parametrize("name", one_of_each(sorted(READERS, key=lambda name: name != "qwen2_5_vl"), lambda _: ""))
def test_a_graph_gives_the_numbers_of_the_model(tmp_path: Path, name: str) -> None:
    """At sizes that it was not traced with; and it refuses those that do not fit."""
    features, reader = parts(name)
    session = session_of(features, reader, tmp_path / "vision_encoder.onnx")
    assert len(reader.tried) > 5
    for sizes in reader.tried:
        inputs = reader.draw(sizes)
        with torch.no_grad():
            expected = features(*inputs.values())
        assert scale_of_difference(run(session, inputs), expected) < TOLERANCE, sizes
    for inputs in reader.wrong():
        with pytest.raises(Exception, match="indices element out of data bounds"):
            run(session, inputs)


def test_functions_of_grids_give_the_integers_of_transformers() -> None:
    generator = torch.Generator().manual_seed(0)
    for merge in (1, 2, 3):
        for _ in range(20):
            sides = torch.randint(1, 12, (4, 3), generator=generator)
            grids = torch.stack([sides[:, 0] % 3 + 1, sides[:, 1] * merge, sides[:, 2] * merge], 1)
            functions = GridFunctions(int(grids.prod(-1).sum()))
            for given in (merge, torch.full((4,), merge)):
                for timed in (False, True):
                    found = functions.position_ids(grids, given, include_temporal=timed)
                    assert torch.equal(found, vision_utils.get_vision_position_ids(grids, given, timed))
            index, windows = functions.window_index(grids, merge, 4 * merge * 5, 5)
            expected, cu_seqlens = vision_utils.get_vision_window_index(grids, merge, 4 * merge * 5, 5)
            assert torch.equal(index, expected)
            assert torch.equal(windows.begins, begins_of(cu_seqlens))
            for joint in (False, True):
                begins = functions.cu_seqlens(grids, joint).begins
                assert torch.equal(begins, begins_of(vision_utils.get_vision_cu_seqlens(grids, joint)))
            for options in ({"mode": "bicubic"}, {"align_corners": True}, {"padding": "zeros"}):
                asked: Any = {"num_grid_per_side": 7, "spatial_merge_size": merge, **options}
                pairs = zip(
                    functions.interpolation(grids, **asked),
                    vision_utils.get_vision_interpolation_indices_and_weights(grids, **asked),
                    strict=True,
                )
                assert all(torch.equal(one, other) for one, other in pairs)


def begins_of(cu_seqlens: Tensor) -> Tensor:
    """Return the first row of the part in which each row lies."""
    return cu_seqlens[:-1].repeat_interleave(cu_seqlens.diff()).long()


def test_nothing_is_replaced_behind_the_context() -> None:
    features, reader = parts("qwen2_5_vl")
    inner: Any = type(features.model.model)
    before = [inner.get_image_features, torch.arange, torch.Tensor.split, torch.Tensor.tolist, torch.Tensor.__iter__]
    with torch.no_grad(), traceable_towers():
        assert inner.get_image_features is not before[0]
        features(*reader.draw(reader.tried[0]).values())
        assert torch.arange is before[1]  # a call alone replaces it
    after = [inner.get_image_features, torch.arange, torch.Tensor.split, torch.Tensor.tolist, torch.Tensor.__iter__]
    assert all(one is other for one, other in zip(before, after, strict=True))
