"""Model types of images: grids that are learned, of sines and cosines, and biases of windows."""

from collections.abc import Mapping

from posenc_models.config.encodings.rows import If, Row, alike, hidden
from posenc_models.config.keys import Fixed, Key, KeyOrigin, Made, grid, item

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


def patches(
    places: KeyOrigin,
    width: int,
    name: str,
    prefix: int,
    *,
    when: tuple[If, ...] = (),
    part: str = "",
    cut: int = 0,
    **more: object,
) -> Row:
    """Return a learned grid of patches, resized to the image bicubically, and the rows of tokens before them.

    Args:
        places: the patches of an image, down and across.
        width: the features of a row by default.
        name: how the name of the table ends.
        prefix: rows of tokens before the patches, such as the class token.
        when: conditions on the config.
        part: the name of the encoding, where a model type has several.
        cut: how many of these rows the model leaves out, as it has no such token.
        more: other parameters of the scheme, and stronger ones.
    """
    parameters = {"d_model": hidden(width), "grid": places, "prefix": prefix, "mode": "bicubic", **more}
    if prefix:  # the scheme's x is the patches alone: it has no place for the rows before them
        parameters["output"] = "rows"
    return Row("interpolated", parameters, part, when, tables=(name,), cut=cut)


def _square(image: int, patch: int, width: int, prefix: int, name: str) -> Row:
    """Return a grid for a square image, by its side and that of a patch in pixels."""
    return patches(grid(image, patch), width, name, prefix)


def _siglip2() -> Row:
    """Return SigLIP2's grid: Siglip2VisionEmbeddings takes the root of `num_patches` as its side."""
    places = Made("sqrt({})", lambda count: (round(count**0.5),) * 2, (Key("num_patches", 256),))
    return patches(places, 768, CLIP, 0, mode="bilinear", antialias=True)


def _beit() -> tuple[Row, ...]:
    """Return BEiT's learned grid and its bias of the whole image: each layer has its own, or all share one."""
    absolute = If(Key("use_absolute_position_embeddings", False), (True,))
    # the class token has biases of its own
    heads = Key("num_attention_heads", 12)
    parameters = {"heads": heads, "window": grid(224, 16), "class_token": True}
    own, shared = (If(Key(f"use_{kind}relative_position_bias", False), (True,)) for kind in ("", "shared_"))
    return (
        patches(grid(224, 16), 768, VIT, 1, when=(absolute,), part="absolute"),
        Row("swin_bias", parameters, "relative", (own,), tables=(BEIT_OWN,)),
        Row("swin_bias", parameters, "shared", (shared,), tables=(BEIT_SHARED,)),
    )


def _swin(stage: int, heads: Key = HEADS, side: int = 7) -> Row:
    """Return the biases of a stage, which has its own number of heads."""
    parameters = {"heads": item(heads, stage), "window": Key("window_size", (side, side)), "interpolation": "bicubic"}
    # SwinRelativePositionBias
    return Row("swin_bias", parameters, f"stage{stage + 1}", tables=(SWIN_TABLE.format(stage),))


def _swinv2(stage: int) -> Row:
    """Return Swin V2's network of log-spaced distances; a pretrained window of 0 is that of the config."""
    trained = item(Key("pretrained_window_sizes", (0, 0, 0, 0), least=0), stage)
    pair = Made("{}", lambda side: (side, side), (trained,))
    parameters = {"heads": item(HEADS, stage), "window": Key("window_size", (7, 7)), "pretrained_window": pair}
    # SwinV2SelfAttention.continuous_position_bias_mlp
    return Row("swin_cpb", parameters, f"stage{stage + 1}", tables=(SWIN_NETWORK.format(stage),))


ALL_PADDING = (
    "a fully padded row or column of an image has sines of -0.5 / 1e-6 in Deformable DETR; here it counts as having "
    "one valid place"
)


def _detr(differs: str = "", **more: object) -> tuple[Row, Row]:
    """Return DETR's sines, or its learned rows and columns, 50 of each (DetrLearnedPositionEmbedding)."""
    sine, learned = (If(Key("position_embedding_type", "sine"), (kind,)) for kind in ("sine", "learned"))
    dim, fifty = Key("d_model", 256), Fixed(50)
    return (
        Row("sine_2d", {"dim": dim, **more}, when=(sine,), differs=differs),
        Row("learned_2d", {"dim": dim}, when=(learned,), length=fifty, tables=LEARNED),
    )


def _rt_detr() -> Row:
    """Return the rows that RTDetrSinePositionEmbedding gives for the last of the backbone's maps."""
    dim, base = Key("encoder_hidden_dim", 256), Key("positional_encoding_temperature", 10000.0)
    return Row("sincos_2d", {"dim": dim, "base": base, "order": "row_first", "output": "rows"})


IMAGES: Mapping[str, tuple[Row, ...]] = {
    # image, patch, width, rows before the patches: ViT's class token, DeiT's class and distillation tokens
    **alike("vit vit_msn flava_image_model", _square(224, 16, 768, 1, VIT)),
    "deit": (_square(224, 16, 768, 2, VIT),),
    "dinov2": (_square(224, 14, 768, 1, VIT),),
    "ijepa": (_square(224, 16, 768, 0, VIT),),
    "internvl_vision": (_square(448, 14, 1024, 1, VIT),),
    **alike("clip_vision_model chinese_clip_vision_model clipseg_vision_model", _square(224, 32, 768, 1, CLIP)),
    **alike("metaclip_2_vision_model xclip_vision_model altclip_vision_model", _square(224, 32, 768, 1, CLIP)),
    "siglip_vision_model": (_square(224, 16, 768, 0, CLIP),),
    "owlvit_vision_model": (_square(768, 32, 768, 1, CLIP),),
    "owlv2_vision_model": (_square(768, 16, 768, 1, CLIP),),
    "blip_vision_model": (_square(384, 16, 768, 1, BLIP),),
    **alike("blip_2_vision_model instructblip_vision_model", _square(224, 14, 1408, 1, BLIP)),
    "dinov2_with_registers": (patches(grid(224, 16), 768, VIT, 1, antialias=True),),  # registers have no positions
    "siglip2_vision_model": (_siglip2(),),
    **alike("beit data2vec-vision", *_beit()),
    **alike("swin donut-swin maskformer-swin", *map(_swin, STAGES)),
    # CLAP: a Swin of spectrograms
    "clap_audio_model": tuple(_swin(stage, Key("num_attention_heads", (4, 8, 16, 32)), 8) for stage in STAGES),
    "swinv2": tuple(map(_swinv2, STAGES)),
    # get_2d_sincos_pos_embed: columns before rows
    "vit_mae": (
        Row("sincos_2d", {"dim": hidden(768), "order": "column_first"}, "encoder"),
        Row("sincos_2d", {"dim": Key("decoder_hidden_size", 512), "order": "column_first"}, "decoder"),
    ),
    **alike("detr conditional_detr table-transformer", *_detr()),
    "deformable_detr": _detr(ALL_PADDING, shift=-0.5),  # (count - 0.5) / (total + 1e-6)
    **alike("grounding-dino mm-grounding-dino", *_detr(temperature=Key("positional_embedding_temperature", 20.0))),
    **alike("rt_detr rt_detr_v2 d_fine", _rt_detr()),
}
