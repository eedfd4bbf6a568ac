"""Models of diffusers, whose configs have a class and no model type: steps, and grids of images and videos."""

from collections.abc import Mapping

from posenc_models.config.encodings.rows import If, Row, alike
from posenc_models.config.keys import Key, KeyOrigin, Made, item

CHANNELS = (320, 640, 1280, 1280)
COSINES = {"flip_sin_to_cos": True, "downscale_freq_shift": 0.0}
"""Cosines before sines, and no shift, as most models have them."""
CHOSEN = {
    "flip_sin_to_cos": Key("flip_sin_to_cos", True),
    "downscale_freq_shift": Made("{}", float, (Key("freq_shift", 0, least=0),)),
}
"""The form that a config chooses."""


def _steps(dim: KeyOrigin | int, form: Mapping[str, object], when: tuple[If, ...] = ()) -> Row:
    """Return the sines and cosines of timesteps: get_timestep_embedding."""
    return Row("timestep", {"dim": dim, **form}, "timestep", when)


def _of_unet(channels: tuple[int, ...], form: Mapping[str, object], when: tuple[If, ...] = ()) -> Row:
    """Return timesteps with as many features as the first block has."""
    return _steps(item(Key("block_out_channels", channels), 0), form, when)


def _added(form: Mapping[str, object], when: tuple[If, ...] = ()) -> Row:
    """Return how sizes and crops are embedded, or frames and motion."""
    return Row("timestep", {"dim": Key("addition_time_embed_dim", 256), **form}, "addition", when)


def _inner(heads: int, width: int) -> Made:
    """Return the width of a transformer: its heads times the features of a head."""
    sources = (Key("num_attention_heads", heads), Key("attention_head_dim", width))
    return Made("{} * {}", lambda count, head_dim: count * head_dim, sources)


def _patches(inner: Made, sample: int, **more: object) -> Row:
    """Return the grid of PatchEmbed, whose coordinates are those of the size that the model was made for."""
    sides = (Key("sample_size", sample), Key("patch_size", 2))
    # coordinates are divided by grid / base_size
    base = Made("{} / {}", lambda size, patch: size // patch, sides)
    return Row("sincos_2d", {"dim": inner, "base_size": base, **more}, "patches")


def _scale() -> Made:
    """Return PixArt's interpolation scale: max(sample_size // 64, 1) where its config leaves it out."""
    keys = (Key("interpolation_scale", 0, least=0), Key("sample_size", 128))
    return Made("{} or {} / 64", lambda scale, size: float(scale or max(size // 64, 1)), keys)


def _video() -> tuple[Row, ...]:
    """Return CogVideoX's timesteps and its grid; a rotary or learned grid is named and not read."""
    inner = _inner(30, 64)
    ways = (Key("use_rotary_positional_embeddings", False), Key("use_learned_positional_embeddings", False))
    scales = {"spatial_interpolation_scale": 1.875, "temporal_interpolation_scale": 1.0}
    parameters = {"dim": inner, **{name: Key(name, scale) for name, scale in scales.items()}}
    neither = tuple(If(way, (False,)) for way in ways)
    return _steps(inner, CHOSEN), Row("sincos_3d", parameters, "patches", neither), _rotary((If(ways[0], (True,)),))


def _rotary(when: tuple[If, ...] = ()) -> Row:
    """Return the rotary encoding by the place of a patch, which is named and not read."""
    return Row("", part="rotary", when=when, lacks=AXES)


AXES = "its rotary pairs go by the frame, the row and the column of a patch, and no scheme divides them so"
ROTARY = """
    AllegroTransformer3DModel AnyFlowFARTransformer3DModel AnyFlowTransformer3DModel BriaFibo2Transformer2DModel
    BriaFiboTransformer2DModel BriaTransformer2DModel ChromaTransformer2DModel ChronoEditTransformer3DModel
    CogView4Transformer2DModel ConsisIDTransformer3DModel CosmosTransformer3DModel EasyAnimateTransformer3DModel
    ErnieImageTransformer2DModel Flux2Transformer2DModel Flux3Transformer2DModel GlmImageTransformer2DModel
    HeliosTransformer3DModel HiDreamImageTransformer2DModel HunyuanDiT2DModel HunyuanImageTransformer2DModel
    HunyuanVideo15Transformer3DModel HunyuanVideoFramepackTransformer3DModel HunyuanVideoTransformer3DModel
    Kandinsky5Transformer3DModel Krea2Transformer2DModel LTX2VideoTransformer3DModel LTXVideoTransformer3DModel
    LongCatImageTransformer2DModel Lumina2Transformer2DModel LuminaNextDiT2DModel MiniMaxH3Transformer3DModel
    MochiTransformer3DModel MotifVideoTransformer3DModel NucleusMoEImageTransformer2DModel OmniGenTransformer2DModel
    OvisImageTransformer2DModel PRXTransformer2DModel QwenImage21Transformer2DModel SanaVideoTransformer3DModel
    SanaWMTransformer3DModel SkyReelsV2Transformer3DModel WanAnimateTransformer3DModel WanVACETransformer3DModel
    ZImageTransformer2DModel
"""
"""Classes whose positions are rotary alone."""
POSITIONAL = If(Key("time_embedding_type", "positional"), ("positional",))
SIZES = If(Key("addition_embed_type", "none"), ("text_time",))

DIFFUSION: Mapping[str, tuple[Row, ...]] = {
    "UNet2DModel": (_of_unet((224, 448, 672, 896), CHOSEN, (POSITIONAL,)),),  # DDPM
    "UNet2DConditionModel": (_of_unet(CHANNELS, CHOSEN, (POSITIONAL,)), _added(CHOSEN, (SIZES,))),  # Stable Diffusion
    "ControlNetModel": (_of_unet(CHANNELS, CHOSEN), _added(CHOSEN, (SIZES,))),  # always Timesteps
    "UNetMotionModel": (_of_unet(CHANNELS, COSINES), _added(COSINES, (SIZES,))),  # AnimateDiff
    "UNetSpatioTemporalConditionModel": (_of_unet(CHANNELS, COSINES), _added(COSINES)),
    **alike("UNet3DConditionModel I2VGenXLUNet", _of_unet(CHANNELS, COSINES)),
    **alike(ROTARY, _rotary()),
    "FluxTransformer2DModel": (_steps(256, COSINES), _rotary()),  # time_proj
    "QwenImageTransformer2DModel": (_steps(256, {**COSINES, "scale": 1000.0}), _rotary()),  # timesteps in 0..1
    "WanTransformer3DModel": (_steps(Key("freq_dim", 256), COSINES), _rotary()),  # timesteps_proj
    "SD3Transformer2DModel": (
        _steps(256, COSINES),
        # PatchEmbed keeps a table of pos_embed_max_size, and crops its middle
        _patches(_inner(18, 64), 128, crop=Key("pos_embed_max_size", 96)),
    ),
    "PixArtTransformer2DModel": (_steps(256, COSINES), _patches(_inner(16, 72), 128, interpolation_scale=_scale())),
    "DiTTransformer2DModel": (_steps(256, {**COSINES, "downscale_freq_shift": 1.0}), _patches(_inner(16, 72), 32)),
    "CogVideoXTransformer3DModel": _video(),
}
"""Rows by class."""
