"""Model types of images: grids that are learned, of sines and cosines, and biases of windows."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.hf.config.keys import Fixed, Key, Made, Source, grid, item
from posenc.hf.encodings.rows import If, Row, alike, hidden

VIT = "embeddings.position_embeddings"
CLIP = "vision_model.embeddings.position_embedding.weight|embeddings.position_embedding.weight"
BLIP = "vision_model.embeddings.position_embedding|embeddings.position_embedding"
TABLE = "relative_position_bias.relative_position_bias_table"
SWIN = "layers.{0}.blocks.*.attention."
SWIN_TABLE = f"{SWIN}{TABLE}|{SWIN}self.relative_position_bias_table"
SWIN_NETWORK = f"{SWIN}self.continuous_position_bias_mlp."
BEIT_OWN = f"layers.*.{TABLE}|layer.*.attention.attention.{TABLE}"
BEIT_SHARED = f"shared_position_bias.relative_position_bias_table|encoder.{TABLE}"
LEARNED = ("position_embedding.row_embeddings.weight", "position_embedding.column_embeddings.weight")
HEADS = Key("num_heads", (3, 6, 12, 24))
STAGES = range(4)

GRIDS = (
    (224, 16, 768, 1, VIT, "vit vit_msn flava_image_model"),
    (224, 16, 768, 2, VIT, "deit"),
    (224, 14, 768, 1, VIT, "dinov2"),
    (224, 16, 768, 0, VIT, "ijepa"),
    (448, 14, 1024, 1, VIT, "internvl_vision"),
    (224, 32, 768, 1, CLIP, "clip_vision_model chinese_clip_vision_model clipseg_vision_model metaclip_2_vision_model"),
    (224, 32, 768, 1, CLIP, "xclip_vision_model altclip_vision_model"),
    (224, 16, 768, 0, CLIP, "siglip_vision_model"),
    (768, 32, 768, 1, CLIP, "owlvit_vision_model"),
    (768, 16, 768, 1, CLIP, "owlv2_vision_model"),
    (384, 16, 768, 1, BLIP, "blip_vision_model"),
    (224, 14, 1408, 1, BLIP, "blip_2_vision_model instructblip_vision_model"),
)
"""Sides of image and patch, width, rows of tokens before the patches, the name of the table; resized bicubically."""


def patches(
    places: Source,
    width: int,
    name: str,
    prefix: int,
    *,
    when: tuple[If, ...] = (),
    part: str = "",
    **more: object,
) -> Row:
    """Return a learned grid of patches, resized to the image, and the rows of tokens before them."""
    parameters = {"d_model": hidden(width), "grid": places, "prefix": prefix, "mode": "bicubic", **more}
    parameters |= (
        {"output": "rows"} if prefix else {}
    )  # x has a place for each patch: rows before them are added to none
    return Row("interpolated", parameters, part, when, tables=(name,))


def _siglip2() -> Row:
    """Return SigLIP2's grid, which the config counts the patches of."""
    places = Made("sqrt({})", lambda count: (round(count**0.5),) * 2, (Key("num_patches", 256),))
    return patches(places, 768, CLIP, 0, mode="bilinear", antialias=True)


def _beit() -> tuple[Row, ...]:
    """Return a learned grid and a bias of the places of the whole image: of each layer its own, or of all one."""
    absolute = If(Key("use_absolute_position_embeddings", False), (True,))
    heads = Key("num_attention_heads", 12)
    parameters = {"heads": heads, "window": grid(224, 16), "class_token": True}
    own, shared = (If(Key(f"use_{kind}relative_position_bias", False), (True,)) for kind in ("", "shared_"))
    return (
        patches(grid(224, 16), 768, VIT, 1, when=(absolute,), part="absolute"),
        Row("swin_bias", parameters, "relative", (own,), tables=(BEIT_OWN,)),
        Row("swin_bias", parameters, "shared", (shared,), tables=(BEIT_SHARED,)),
    )


def _swin(stage: int, heads: Key = HEADS, side: int = 7) -> Row:
    parameters = {"heads": item(heads, stage), "window": Key("window_size", (side, side)), "interpolation": "bicubic"}
    return Row("swin_bias", parameters, f"stage{stage + 1}", tables=(SWIN_TABLE.format(stage),))


def _swinv2(stage: int) -> Row:
    trained = item(Key("pretrained_window_sizes", (0, 0, 0, 0), least=0), stage)
    pair = Made("{}", lambda side: (side, side), (trained,))
    parameters = {"heads": item(HEADS, stage), "window": Key("window_size", (7, 7)), "pretrained_window": pair}
    return Row("swin_cpb", parameters, f"stage{stage + 1}", tables=(SWIN_NETWORK.format(stage),))


OF_NONE = (
    "a row or column of an image that is all padding has sines of -0.5 / 1e-6 in Deformable DETR; here it is as one "
    "with a single valid place"
)


def _detr(differs: str = "", **more: object) -> tuple[Row, Row]:
    """Return DETR's sines, or its learned rows and columns, of which there are 50 each."""
    sine, learned = (If(Key("position_embedding_type", "sine"), (kind,)) for kind in ("sine", "learned"))
    dim, fifty = Key("d_model", 256), Fixed(50)
    return (
        Row("sine_2d", {"dim": dim, **more}, when=(sine,), differs=differs),
        Row("learned_2d", {"dim": dim}, when=(learned,), length=fifty, tables=LEARNED),
    )


IMAGES: Mapping[str, tuple[Row, ...]] = {
    **{
        model_type: (patches(grid(image, patch), width, name, prefix),)
        for image, patch, width, prefix, name, names in GRIDS
        for model_type in names.split()
    },
    "dinov2_with_registers": (patches(grid(224, 16), 768, VIT, 1, antialias=True),),
    "siglip2_vision_model": (_siglip2(),),
    **alike("beit data2vec-vision", *_beit()),
    **alike("swin donut-swin maskformer-swin", *map(_swin, STAGES)),
    "clap_audio_model": tuple(_swin(stage, Key("num_attention_heads", (4, 8, 16, 32)), 8) for stage in STAGES),
    "swinv2": tuple(map(_swinv2, STAGES)),
    "vit_mae": (
        Row("sincos_2d", {"dim": hidden(768), "order": "column_first"}, "encoder"),
        Row("sincos_2d", {"dim": Key("decoder_hidden_size", 512), "order": "column_first"}, "decoder"),
    ),
    **alike("detr conditional_detr table-transformer", *_detr()),
    "deformable_detr": _detr(OF_NONE, shift=-0.5),
    **alike("grounding-dino mm-grounding-dino", *_detr(temperature=Key("positional_embedding_temperature", 20.0))),
    **alike(
        "rt_detr rt_detr_v2 d_fine",
        Row(
            "sincos_2d",
            {
                "dim": Key("encoder_hidden_dim", 256),
                "base": Key("positional_encoding_temperature", 10000.0),
                "order": "row_first",
                "output": "rows",
            },
        ),
    ),
}
