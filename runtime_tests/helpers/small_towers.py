"""Models of transformers that read images, small and with random weights, and images of unlike sizes for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText
from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

SIDE = 4
"""Rows and columns of pixels in a patch."""
MERGE = 2
"""Rows and columns of patches that become one feature, where a model merges them."""
OF_TOWERS: Mapping[str, Any] = {
    "deepstack_visual_indexes": [0, 1],
    "depth": 2,
    "embed_dim": 32,
    "fullatt_block_indexes": [1],
    "head_dim": 16,
    "hidden_size": 32,
    "image_size": 5 * SIDE,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_patches": 49,
    "num_position_embeddings": 25,
    "out_hidden_size": 32,
    "patch_size": SIDE,
    "window_size": 3 * MERGE * SIDE,
}
"""What a tower's config says, where it has such keys."""
OF_TEXTS: Mapping[str, Any] = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 8,
    "hidden_size": 32,
    "intermediate_size": 32,
    "layer_types": None,
    "linear_key_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_value_head_dim": 8,
    "moe_intermediate_size": 32,
    "moe_num_experts": 4,
    "n_routed_experts": 4,
    "num_attention_heads": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "pad_token_id": 0,
    "vocab_size": 128,
}
"""What a decoder's config says, where it has such keys."""
Sizes = Sequence[tuple[int, ...]]
"""Sizes of images in what a model merges: time steps, rows and columns; or rows and columns."""


@dataclass(frozen=True)
class Reader:
    """A kind of model that reads images.

    Attributes:
        draw: Returns inputs of `get_image_features` for images of such sizes, by name.
        axes: Which axes of these are free.
        tried: Sizes of several calls, the first of which is traced.
        wrong: Inputs that do not fit each other; drawn anew for each call.
        said: What the model's config says beside the defaults.
    """

    draw: Callable[[Sizes], dict[str, Tensor]]
    axes: Mapping[str, Mapping[int, Any]]
    tried: Sequence[Sizes]
    wrong: Callable[[], list[dict[str, Tensor]]] = list
    said: Mapping[str, Any] = field(default_factory=dict)

    def with_config(self, **said: Any) -> Reader:
        """Return the same kind, whose config says something."""
        return Reader(self.draw, self.axes, self.tried, self.wrong, {**self.said, **said})


def small(model_type: str, tower: Mapping[str, Any] = {}, text: Mapping[str, Any] = {}, **said: Any) -> nn.Module:
    """Return a model of a type, small and with random weights."""
    whole: Any = CONFIG_MAPPING[model_type]
    parts = {
        "vision_config": {**_known(_default(model_type, "vision"), OF_TOWERS), **tower},
        "text_config": {**_known(_default(model_type, "text"), OF_TEXTS), **text},
    }
    torch.manual_seed(0)
    model: nn.Module = AutoModelForImageTextToText.from_config(whole(**parts, **said)).eval()
    for weight in model.parameters():
        if weight.dim() > 1:  # larger than the model draws them, so that a patch in a wrong place shows
            nn.init.normal_(weight, std=0.2)
    return model


def _default(model_type: str, part: str) -> dict[str, Any]:
    """Return what the config of a part says by default, of the type that the model's has, or that is named after it."""
    config: Any = getattr(CONFIG_MAPPING[model_type](), f"{part}_config") or CONFIG_MAPPING[f"{model_type}_{part}"]()
    said: dict[str, Any] = config.to_dict()
    return said


def _known(said: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return those keys that a config has, and its type."""
    return {"model_type": said["model_type"], **{key: value for key, value in keys.items() if key in said}}


def _packed(*features: int) -> Reader:
    """Return models that are given the patches of all images in a row, and their grids."""

    def inputs(patches: int, grids: Sizes) -> dict[str, Tensor]:
        return {"pixel_values": torch.randn(patches, *features), "image_grid_thw": torch.tensor(grids)}

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        grids = [(t, h * MERGE, w * MERGE) for t, h, w in sizes]
        return inputs(sum(t * h * w for t, h, w in grids), grids)

    def wrong() -> list[dict[str, Tensor]]:
        fewer_and_more = [[(1, 4, 4)], [(1, 4, 6), (1, 2, 2)], [(0, 0, 0)], [(0, 4, 6)], [(1, -4, -6)]]
        return [inputs(24, grids) for grids in [*fewer_and_more, [(1, 3, 8)], [(1, 4, 3), (1, 6, 2)]]]

    tried = [
        [(1, 2, 3), (1, 4, 2)],
        [(1, 1, 1)],
        [(1, 5, 7)],
        [(1, 1, 3), (1, 3, 3), (1, 2, 4), (1, 7, 6)],
        [(2, 2, 3), (1, 1, 2)],
        [(1, 3, 8), (4, 1, 1), (3, 4, 5)],
        [(1, 15, 9)],
    ]
    axes = {"pixel_values": {0: MERGE**2 * Dim("merged")}, "image_grid_thw": {0: Dim("images")}}
    return Reader(draw, axes, tried, wrong)


def _unmerged(reader: Reader) -> Reader:
    """Return models that are told for each image how it is merged: it is not."""

    def told(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {**inputs, "image_merge_sizes": torch.ones(inputs["image_grid_thw"].shape[0], dtype=torch.int64)}

    def wrong() -> list[dict[str, Tensor]]:
        merged = told(reader.draw(reader.tried[0]))
        merged["image_merge_sizes"][1] = MERGE
        odd = ([[1, 3, 8]], [[1, 4, 3], [1, 6, 2]])
        fewer = [told(inputs) for inputs in reader.wrong() if inputs["image_grid_thw"].tolist() not in odd]
        return [merged, *fewer]

    images = reader.axes["image_grid_thw"][0]
    axes = {"pixel_values": {0: Dim("patches")}, "image_grid_thw": {0: images}, "image_merge_sizes": {0: images}}
    return Reader(lambda sizes: told(reader.draw(sizes)), axes, reader.tried, wrong, reader.said)


def _of_images(reader: Reader) -> Reader:
    """Return models whose own code takes no time steps but one for an image."""
    tried = [sizes for sizes in reader.tried if all(steps == 1 for steps, *_ in sizes)]
    return Reader(reader.draw, reader.axes, [*tried, [(1, 4, 4), (1, 9, 1)], [(1, 1, 12)]], reader.wrong, reader.said)


def _framed(merge: int) -> Reader:
    """Return models that are given images padded to one frame, and their sizes in pixels."""
    unit = merge * SIDE

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        frame = [unit * max(side) for side in zip(*sizes, strict=True)]
        return {"pixel_values": torch.randn(len(sizes), 3, *frame), "image_sizes": torch.tensor(sizes) * unit}

    def wrong() -> list[dict[str, Tensor]]:
        listed = [[[3, 3], [2, 5]], [[4, 1], [2, 4]], [[0, 3], [3, 3]], [[3, 3], [-1, -1]]]
        return [{**draw([(3, 3), (2, 4)]), "image_sizes": torch.tensor(sizes) * unit} for sizes in listed]

    images = Dim("images")
    pixels = {0: images, 2: unit * Dim("rows"), 3: unit * Dim("columns")}
    return Reader(draw, {"pixel_values": pixels, "image_sizes": {0: images}}, FRAMES, wrong)


def _numbered() -> Reader:
    """Return models that are given images padded to one number of patches, and their sizes in patches."""

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        shapes = torch.tensor(sizes) * MERGE
        counts = shapes.prod(1)
        mask = (torch.arange(int(counts.max()) + 3) < counts.unsqueeze(1)).long()
        pixels = torch.randn(*mask.shape, 3 * SIDE**2) * mask.unsqueeze(-1)
        return {"pixel_values": pixels, "spatial_shapes": shapes, "pixel_attention_mask": mask}

    def wrong() -> list[dict[str, Tensor]]:
        listed = [[[6, 6], [2, 8]], [[0, 8], [4, 8]], [[6, 6], [-4, -8]], [[4, 9], [4, 8]], [[6, 6], [32, 1]]]
        return [{**draw([(3, 3), (2, 4)]), "spatial_shapes": torch.tensor(shapes)} for shapes in listed]

    both = {0: Dim("images"), 1: Dim("patches")}
    axes = {"pixel_values": both, "spatial_shapes": {0: both[0]}, "pixel_attention_mask": both}
    return Reader(draw, axes, FRAMES, wrong)


def _tiled(merge: int) -> Reader:
    """Return models that are given images in a batch, some of which are padding, and where each has pixels."""
    side = 4 * SIDE

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        images = 1 + len(sizes) // 2
        mask = torch.zeros(2, images, side, side, dtype=torch.int64)
        for number, (rows, columns) in enumerate(sizes):
            mask[number % 2, number // 2, : rows * SIDE, : columns * SIDE] = 1
        pixels = torch.randn(2, images, 3, side, side) * mask.amax((2, 3))[:, :, None, None, None]
        return {"pixel_values": pixels, "pixel_attention_mask": mask}

    both = {0: Dim("batch"), 1: Dim("images")}
    tried = [[(4, 4)] * 3, [(4, 4)] * 2, [(3, 4), (4, 1)], [(1, 1), (2, 3), (4, 4)], [(2, 2)] * 7, [(4, 3)]]
    return Reader(draw, {"pixel_values": both, "pixel_attention_mask": both}, tried, said={"scale_factor": merge})


def _placed(patches: int) -> Reader:
    """Return models that are given images padded to so many patches, and the column and row of each patch."""
    pooled = 3

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        pixels, places = torch.rand(len(sizes), patches, 3 * SIDE**2), torch.full((len(sizes), patches, 2), -1)
        for number, (rows, columns) in enumerate(sizes):
            column, row = torch.meshgrid(torch.arange(pooled * columns), torch.arange(pooled * rows), indexing="xy")
            places[number, : row.numel()] = torch.stack([column, row], -1).flatten(0, 1)
            pixels[number, row.numel() :] = 0
        return {"pixel_values": pixels, "image_position_ids": places}

    images = {0: Dim("images")}
    said = {"tower": {"global_head_dim": 16, "pooling_kernel_size": pooled, "position_embedding_size": 64}}
    tried = [*FRAMES[:4], [(2, 7), (7, 2), (3, 3), (1, 16)], [(4, 4), (1, 1)]]
    return Reader(draw, {"pixel_values": images, "image_position_ids": images}, tried, said=said)


def _any_resolution(pinpoints: Sequence[Sequence[int]], squares: int = 30) -> Reader:
    """Return models that are given tiles of images, padded to one number of them, and sizes in pixels.

    Args:
        pinpoints: Rows and columns of tiles that an image may be cut into.
        squares: How large a square image is that is tried beside others.
    """
    side = 5 * SIDE
    resolutions = [[rows * side, columns * side] for rows, columns in pinpoints]

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        tiles = max(image_size_to_num_patches(size, resolutions, side) for size in sizes)
        return {"pixel_values": torch.randn(len(sizes), tiles, 3, side, side), "image_sizes": torch.tensor(sizes)}

    def wrong() -> list[dict[str, Tensor]]:
        inputs = draw([(side, 2 * side), (side, side)])
        listed = [[[50, 50], [3 * side, 3 * side]], [[0, 20], [20, 40]], [[-20, -40], [20, 40]]]
        return [{**inputs, "image_sizes": torch.tensor(sizes)} for sizes in listed]

    images = Dim("images")
    axes = {"pixel_values": {0: images, 1: Dim("tiles")}, "image_sizes": {0: images}}
    tried = [[(30, 70), (50, 50)], [(squares, squares)], [(33, 57)], [(100, 7), (7, 100), (61, 59)], [(19, 200)]]
    tried += [[(80, 80), (44, 45)], [(squares, 2 * squares), (4, 4)]]
    return Reader(draw, axes, tried, wrong, {"image_grid_pinpoints": resolutions, "vision_feature_layer": -1})


def _pictures(rows: int) -> Reader:
    """Return models whose images have one size, of so many rows and columns of patches."""

    def draw(sizes: Sizes) -> dict[str, Tensor]:
        return {"pixel_values": torch.randn(len(sizes), 3, rows * SIDE, rows * SIDE)}

    tried = [[(rows, rows)] * images for images in (3, 1, 2, 4, 5, 7)]
    said = {"tower": {"image_size": rows * SIDE}}
    return Reader(draw, {"pixel_values": {0: Dim("images")}}, tried, said=said)


FRAMES: Sequence[Sizes] = [
    [(2, 3), (4, 2), (3, 5)],
    [(1, 2)],
    [(5, 3)],
    [(2, 3), (4, 2)],
    [(7, 8), (8, 7), (1, 1), (3, 3)],
    [(2, 9), (9, 2)],
    [(4, 4)],
]
BY_FIVE = [[1, 2], [2, 1], [2, 2], [3, 1], [1, 3]]
BY_SIXTEEN = [[rows, columns] for rows in range(1, 5) for columns in range(1, 5)]
FLAT, CLIPS = 3 * SIDE**2, 6 * SIDE**2
OF_QUERIES = {"encoder_hidden_size": 32, **{key: OF_TOWERS[key] for key in ("hidden_size", "intermediate_size")}}
OF_QUERIES |= {key: OF_TOWERS[key] for key in ("num_attention_heads", "num_hidden_layers")}
READERS: Mapping[str, Reader] = {
    "cohere_compass": _packed(CLIPS).with_config(
        text={"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}}
    ),
    "ernie4_5_vl_moe": _of_images(_packed(FLAT)).with_config(
        text={
            "moe_intermediate_size": [32, 32],
            "moe_k": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        }
    ),
    "exaone4_5": _packed(CLIPS),
    "glm46v": _of_images(_packed(CLIPS)),
    "glm4v": _of_images(_packed(CLIPS)),
    "glm4v_moe": _of_images(_packed(CLIPS)),
    "glm_ocr": _packed(CLIPS),
    "minimax_m3_vl": _packed(CLIPS),
    "paddleocr_vl": _packed(3, SIDE, SIDE),
    "qwen2_5_vl": _packed(CLIPS),
    "qwen2_vl": _packed(CLIPS),
    "qwen3_5": _packed(CLIPS),
    "qwen3_5_moe": _packed(CLIPS),
    "qwen3_vl": _packed(CLIPS),
    "qwen3_vl_moe": _packed(CLIPS),
    "qwen4_exp": _packed(CLIPS),
    "cosmos3_edge": _packed(FLAT).with_config(
        text={"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
    ),
    "muse_glimmer": _packed(CLIPS).with_config(out_hidden_size=128, projector_hidden_size=32),
    "gemma4": _placed(144).with_config(
        audio_config=None,
        text={
            "global_head_dim": 8,
            "head_dim": 8,
            "hidden_size_per_layer_input": 8,
            "layer_types": ["sliding_attention", "full_attention"],
            "num_kv_shared_layers": 0,
            "vocab_size_per_layer_input": 128,
        },
    ),
    "video_llama_3": _unmerged(_packed(FLAT)),
    "lighton_ocr": _framed(MERGE).with_config(spatial_merge_size=MERGE),
    "llava/pixtral": _framed(1).with_config(
        tower={"model_type": "pixtral"}, vision_feature_layer=-1, vision_feature_select_strategy="full"
    ),
    "mistral3": _framed(MERGE).with_config(spatial_merge_size=MERGE, vision_feature_layer=-1),
    "lfm2_vl": _numbered().with_config(
        downsample_factor=MERGE, projector_hidden_size=32, text={"layer_types": ["conv", "full_attention"]}
    ),
    "llava_next": _any_resolution(BY_FIVE),
    "llava_next_video": _any_resolution(BY_FIVE),
    "llava_onevision": _any_resolution(BY_SIXTEEN, 100).with_config(tower={"vision_use_head": False}),
    "llava_onevision/smaller": _any_resolution(BY_SIXTEEN, 100).with_config(
        tower={"vision_use_head": False}, vision_aspect_ratio="anyres_max_3"
    ),
    "idefics2": _tiled(1),
    "idefics3": _tiled(MERGE),
    "smolvlm": _tiled(MERGE),
    "aya_vision": _pictures(4).with_config(downsample_factor=MERGE),
    "blip-2": _pictures(5).with_config(num_query_tokens=4, qformer_config=OF_QUERIES),
    "cohere2_vision": _pictures(4).with_config(downsample_factor=MERGE),
    "deepseek_vl": _pictures(5),
    "gemma3": _pictures(4).with_config(mm_tokens_per_image=4),
    "got_ocr2": _pictures(4),
    "internvl": _pictures(4).with_config(tower={"image_size": [16, 16], "patch_size": [4, 4]}),
    "llava": _pictures(5),
    "ovis2": _pictures(5),
    "qianfan_ocr": _pictures(4),
    "vipllava": _pictures(5).with_config(vision_feature_layers=[-1, -2]),
    "paligemma": _pictures(5).with_config(projection_dim=32, tower={"projection_dim": 32}),
}
"""Kinds of models by their type; behind a slash, the type of their tower, or another difference."""


def model_of(name: str) -> nn.Module:
    """Return a small model of a kind, by its name in `READERS`."""
    return small(name.split("/", maxsplit=1)[0], **READERS[name].said)


class Features(nn.Module):
    """What a model reads in images, or in videos, called by position.

    Args:
        model: The model.
        names: The inputs of its method, in the order in which tensors come.
        method: The method's name.
    """

    def __init__(self, model: nn.Module, names: Sequence[str], method: str = "get_image_features") -> None:
        super().__init__()
        self.model, self.names, self.method = model, tuple(names), method
        self.eval()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return features of all images, (rows, features), and then those of earlier layers that a decoder adds."""
        # some models have it within the one with a head
        model: Any = self.model if hasattr(self.model, self.method) else self.model.model
        reads = getattr(model, self.method)
        output = reads(**dict(zip(self.names, tensors, strict=True)))
        listed = [output.pooler_output, *(getattr(output, "deepstack_features", None) or [])]
        rows = [one if isinstance(one, Tensor) else torch.cat(list(one)) for one in listed]
        return tuple(one.reshape(-1, one.shape[-1]) for one in rows)


def scale_of_difference(found: Sequence[Any], expected: Sequence[Tensor]) -> float:
    """Return the largest difference, of the largest number; shapes are the same."""

    def of_one(one: Any, other: Tensor) -> float:
        assert tuple(one.shape) == tuple(other.shape)
        return float((torch.as_tensor(one) - other).abs().max() / other.abs().max())

    return max(starmap(of_one, zip(found, expected, strict=True)))
