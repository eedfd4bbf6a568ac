"""Towers that read images give the numbers of transformers while they can be traced, and graphs of them, too."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.export import Dim
from transformers import CONFIG_MAPPING, vision_utils

from helpers.shared import one_of_each
from helpers.small_towers import READERS, Features, Reader, Sizes, model_of, scale_of_difference
from posenc_models.vision.towers import traceable_towers
from posenc_models.vision.towers.anyres import packing_tiles
from posenc_models.vision.towers.grid_functions import GridFunctions

TOLERANCE = 32 * torch.finfo(torch.float32).eps
"""Of the largest number: sums over keys, and over channels, are in another order."""


PACKED: Mapping[str, Mapping[str, Any]] = {
    "llava_next": {"vision_feature_select_strategy": "default"},
    "llava_onevision": {"vision_aspect_ratio": "anyres_max_9"},
}
"""Types of models that pack tiles, and what they are asked beside images."""


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in READERS if name != "qwen2_5_vl"])  # test_scenes.py proves its graph
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


@pytest.mark.parametrize("name", one_of_each(["qwen3_vl", "qwen2_vl", "ernie4_5_vl_moe", "glm4v"], lambda _: ""))
def test_a_graph_of_videos_gives_the_numbers_of_the_model(tmp_path: Path, name: str) -> None:
    """Of an even number of time steps: a model that puts two together has no other."""
    axes = {"pixel_values_videos": {0: 8 * Dim("pairs")}, "video_grid_thw": {0: Dim("videos")}}
    given = READERS[name].draw

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        return dict(zip(axes, given(sizes).values(), strict=True))

    tried = [[(2, 2, 3), (4, 4, 2)], [(2, 1, 1)], [(2, 3, 5), (6, 2, 2), (4, 1, 7)], [(8, 2, 2)]]
    reader = Reader(draw, axes, tried)
    features = Features(model_of(name), list(axes), "get_video_features")
    session = session_of(features, reader, tmp_path / "vision_encoder.onnx")
    for sizes in reader.tried:
        inputs = reader.draw(sizes)
        with torch.no_grad():
            expected = features(*inputs.values())
            with traceable_towers():
                assert scale_of_difference(features(*inputs.values()), expected) < TOLERANCE, sizes
        assert scale_of_difference(run(session, inputs), expected) < TOLERANCE, sizes


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


@pytest.mark.parametrize(("model_type", "options"), PACKED.items())
def test_tiles_are_packed_as_transformers_packs_them(model_type: str, options: Mapping[str, Any]) -> None:
    """With the resolutions of published models, and places of features in the place of features."""
    config: Any = CONFIG_MAPPING[model_type]()
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    own = next(
        one for name, one in vars(module).items() if name.endswith("Model") and "pack_image_features" in vars(one)
    )
    called, length = (
        SimpleNamespace(config=config),
        (config.vision_config.image_size // config.vision_config.patch_size) ** 2,
    )
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(20, 2500, (60, 2), generator=generator)
    drawn[::5, 0] = drawn[::5, 1]
    for sizes in drawn.split(2):
        tiles = [
            module.image_size_to_num_patches(size, config.image_grid_pinpoints, config.vision_config.image_size)
            for size in sizes
        ]
        features = torch.arange(sum(tiles) * length, dtype=torch.float32).reshape(-1, length, 1) / length
        expected, _ = own.pack_image_features(
            called, features.split(tiles), sizes, **options, image_newline=torch.full((1,), -1.0)
        )
        functions = GridFunctions(2)
        functions.capacity = max(tiles)
        found, _ = packing_tiles(functions)(called, (features,), sizes, **options, image_newline=torch.full((1,), -1.0))
        assert scale_of_difference(found, [torch.cat(list(expected))]) < TOLERANCE, sizes


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
