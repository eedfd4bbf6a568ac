"""The texts of a model's ports, filled with what its config says.

A task's row has `int64[batch_size, seq] < {vocab_size}` for `input_ids`; a config of 32,000 words makes it
`int64[batch_size, seq] < 32000`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from posenc.picture_places import HEARING
from posenc.spec import TORCH_NAMES, DType
from posenc_models.whole.contents import PROCESSOR
from posenc_models.whole.tasks import X_VECTOR, architecture_of, positions_of_token

POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
"""Keys that say how many positions a model has."""
CHANNELS = ("in_channels", "in_chans", "num_channels")
"""Keys of the channels of pixels."""
OF_SOUNDS = (("num_mel_bins",), ("max_source_positions", "max_position_embeddings"))
"""Keys of the bins of a spectrum, and of the places that its frames make, two of them one."""
LOOKING = ("vision_config", "backbone_config")
"""Keys of the config of what looks at images, where others stand beside it."""
DEFAULTS: Mapping[str, Any] = {"type_vocab_size": 1, "num_channels": 3, "sections": "", "max_2d_position_embeddings": 0}
"""What ports are described by where a config does not say it."""


def fill_ports(
    model: Any,
    dtype: DType,
    inputs: Mapping[str, str],
    takes: Container[str],
    image_size: tuple[int, int] | None = None,
) -> dict[str, str]:
    """Return the rest of the text of each port that goes in; images have the size that a processor says, if it must."""
    said = {"image_size": image_size, **config_values(model)}
    inputs = {name: text.replace("float32[", f"{TORCH_NAMES[dtype]}[") for name, text in inputs.items()}
    for name, text in inputs.items():
        keys = {"height": said.get("image_size"), "width": said.get("image_size"), **DEFAULTS, **said}
        lacking = [key for key in _names_in(text) if name in takes and keys.get(key) is None]
        if lacking:
            key = lacking[0]
            if key in ("height", "width"):
                key = f"image_size, and no {PROCESSOR} beside it a height and a width"
            raise ValueError(f"{type(model).__name__} is not exported: its config says no {key}, which {name} has")
    filled = {name: fill_text(text, said, position_count(said)) for name, text in inputs.items() if name in takes}
    return {name: text for name, text in filled.items() if text}


def port_lines(ports: Mapping[str, str]) -> tuple[str, ...]:
    """Return each port as one text: its name, and the rest of it."""
    return tuple(f"{name}: {text}" for name, text in ports.items())


def config_values(model: Any) -> dict[str, Any]:
    """Return what a model's config says, with what its file leaves out."""
    try:
        config = model.config.get_text_config()
    except ValueError as error:
        raise ValueError(f"{type(model).__name__} is not exported: its config has several models of text") from error
    encoder = _config_of_encoder(model)
    looking = (model.config, *(getattr(model.config, key, None) for key in LOOKING), encoder)
    sizes = ((key, getattr(one, key, None)) for one in looking for key in ("image_size", "num_channels"))
    of_images = {key: size for key, size in sizes if size is not None}
    of_patches = numbers_of_patches(model.config) if hasattr(model.config, "vision_config") else {}
    width = getattr(config, "hidden_size", None)
    widths = {"hidden_size": width, "encoder_width": getattr(encoder, "hidden_size", width)}
    said = {**config.to_dict(), **of_patches, **of_images, **numbers_of_sounds(model.config), **widths}
    if said.get("conv_stride"):
        said["receptive_field"] = receptive_field(said)
    if said.get("max_source_positions"):
        said["frames"] = 2 * said["max_source_positions"]  # two of them make a place
    return said


def numbers_of_patches(config: Any) -> dict[str, int]:
    """Return what texts of ports say of patches and tiles: how many share a place, their numbers, and how many come."""
    vision = config.vision_config
    channels, steps = (
        next((size for key in keys if (size := getattr(vision, key, None))), default)
        for keys, default in ((CHANNELS, 3), (("temporal_patch_size",), 1))
    )
    merge = getattr(vision, "spatial_merge_size", None) or getattr(config, "spatial_merge_size", None) or 1
    patch, size = getattr(vision, "patch_size", None), getattr(vision, "image_size", None)
    said = {"num_channels": channels}
    if isinstance(patch, int):
        said |= {"merge": merge, "square": merge**2, "patch": channels * steps * patch**2, "patch_size": patch}
        said["unit"] = patch * merge
    points = getattr(config, "image_grid_pinpoints", None)
    if points and isinstance(size, int):
        # the whole image is a tile, too
        said["tiles"] = 1 + max((height // size) * (width // size) for height, width in points)
    return said


def numbers_of_sounds(config: Any) -> dict[str, int]:
    """Return what texts of ports say of the spectra of sounds, if a config is of them among others: bins and frames.

    Where frames are read in chunks, or a block of them makes several places, there is no largest number of them.
    """
    audio = next((part for key in HEARING.parts if (part := getattr(config, key, None)) is not None), None)
    bins, places = (
        next((size for key in keys if isinstance(size := getattr(audio, key, None), int)), None) for keys in OF_SOUNDS
    )
    chunk = getattr(audio, "n_window", None)
    if bins is not None and isinstance(chunk, int):
        return {"num_mel_bins": bins, "chunk": 2 * chunk}
    window, rate = (getattr(config, key, None) for key in ("window_size", "downsample_rate"))
    if bins is not None and isinstance(window, int) and isinstance(rate, int):
        return {"num_mel_bins": bins, "window": window, "queries": window // rate}
    return {} if bins is None or places is None else {"num_mel_bins": bins, "frames": 2 * places}


def _config_of_encoder(model: Any) -> Any:
    """Return the config of a model's encoder, where it has one that a decoder stands behind; None otherwise."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return None
    return getattr(model.get_encoder(), "config", None)


def receptive_field(config: Mapping[str, Any]) -> int:
    """Return how many samples the first output of a stack of convolutions depends on; SEW squeezes several into one."""
    field: int = config.get("squeeze_factor", 1)
    if architecture_of(config).endswith(X_VECTOR):  # a network of delays stands behind, and the deviation of two places
        field += 1 + sum((k - 1) * step for k, step in zip(config["tdnn_kernel"], config["tdnn_dilation"], strict=True))
    for kernel, stride in zip(reversed(config["conv_kernel"]), reversed(config["conv_stride"]), strict=True):
        field = (field - 1) * stride + kernel
    return field


def fill_text(text: str, said: Mapping[str, Any], positions: int | None) -> str:
    """Return the rest of a port's text with what the config says; nothing where it says that there are none of them."""
    size = said.get("image_size")
    height, width = (size if isinstance(size, Sequence) else (size, size)) if size is not None else (None, None)
    count = positions_of_token(said)
    sections = f"{count}, " * (count > 1)
    values = {**DEFAULTS, **said, "height": height, "width": width, "sections": sections}
    if any(values.get(name) == 0 for name in _names_in(text)):
        return ""
    bound = f" < {positions}" * (text.endswith(" positions") and positions is not None)
    return text.format(**values) + bound


def _names_in(text: str) -> Iterable[str]:
    return re.findall(r"{(\w+)}", text)


def position_count(config: Mapping[str, Any]) -> int | None:
    """Return how many positions a model has: dynamic NTK stretches those of the config."""
    positions = next((config[key] for key in POSITIONS if isinstance(config.get(key), int)), None)
    rope = config.get("rope_parameters") or {}
    if positions is None or rope.get("rope_type") != "dynamic":
        return positions
    return int(positions * rope["factor"])
