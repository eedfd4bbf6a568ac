"""Model types with an image encoder like SAM's or ViTDet's: a learned grid, and rows of differences in attention.

Some layers see windows, some the whole image; a layer's tables have 2 side - 1 rows for a window of this side.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc_models.config.encodings.images import VIT, patches
from posenc_models.config.encodings.rows import If, Row, alike, hidden
from posenc_models.config.keys import Fixed, Key, KeyOrigin, Made, grid, quotient
from posenc_models.config.settings import Setting, Settings

Layers = tuple[int, ...]
COUNT, HEADS = Key("num_hidden_layers", 12), Key("num_attention_heads", 12)


def _relative(part: str, sides: KeyOrigin, layers: KeyOrigin, table: str, there: If) -> Row:
    """Return the rows of some layers, where the config has such layers."""
    parameters = {"head_dim": quotient(hidden(768), HEADS), "window": sides}
    has_layers = If(Made("layers with {}", bool, (layers,)), (True,))
    return Row("decomposed_relative", parameters, part, (there, has_layers), tables=(table,), layers=layers)


def layers_of(window: Key, chosen: Key, count: Key = COUNT, *, of_window: bool) -> tuple[KeyOrigin, KeyOrigin]:
    """Return the layers that see windows, and the layers that see the whole image.

    Args:
        window: the side of a window; 0 stands for the whole image.
        chosen: the layers that the config lists.
        count: how many layers there are.
        of_window: whether it lists the layers that see windows (ViTDet), or the others (SAM).
    """

    def windowed(number: int, side: int, numbers: Layers) -> Layers:
        return tuple(i for i in range(number) if side and (i in numbers) == of_window)

    def whole(number: int, side: int, numbers: Layers) -> Layers:
        return tuple(i for i in range(number) if i not in windowed(number, side, numbers))

    words, sources = "{}, {} and {}", (count, window, chosen)
    return Made(words, windowed, sources), Made(words, whole, sources)


def _sam(image: int, **more: object) -> tuple[Row, ...]:
    """Return the grid of SamVisionEncoder, and the rows of its layers; `more` says how other types resize the grid."""
    absolute, relative = (If(Key(f"use_{kind}_pos", True), (True,)) for kind in ("abs", "rel"))
    window, of_whole = Key("window_size", 14, least=0), Key("global_attn_indexes", (2, 5, 8, 11), least=0)
    # SamVisionConfig lists the layers of the whole image
    windowed, whole = layers_of(window, of_whole, of_window=False)
    return (
        patches(grid(image, 16), 768, "pos_embed", 0, when=(absolute,), part="absolute", cut=0, **more),
        _relative("window", window, windowed, "layers.*.attn.", relative),
        _relative("global", grid(image, 16), whole, "layers.*.attn.", relative),
    )


def _vitdet() -> tuple[Row, ...]:
    """Return the grid of VitDetEmbeddings, of its first training's image, and the rows of its layers."""
    absolute, relative = (
        If(Key(f"use_{kind}_position_embeddings", there), (True,))
        for kind, there in (("absolute", True), ("relative", False))
    )
    window, of_windows = Key("window_size", 0, least=0), Key("window_block_indices", (), least=0)
    # VitDetConfig lists the layers of windows
    windowed, whole = layers_of(window, of_windows, of_window=True)
    places = grid(224, 16, "pretrain_image_size")
    return (
        patches(places, 768, VIT, 1, when=(absolute,), part="absolute", cut=1),
        _relative("window", window, windowed, "layer.*.attention.", relative),
        _relative("global", grid(224, 16), whole, "layer.*.attention.", relative),
    )


@dataclass(frozen=True)
class Named:
    """Whether a config has a config of its own under a key."""

    key: str

    def read(self, config: Settings, absent: str) -> Setting:
        """Return whether it is there."""
        return Setting(isinstance(config.content.get(self.key), dict), config.path_of(self.key))


def _vitmatte() -> Row:
    """Return ViTMatte of a config that names no backbone: its class takes ViTDet as it is by default."""
    unnamed = If(Named("backbone_config"), (False,))
    return patches(Fixed((14, 14)), 768, VIT, 1, when=(unnamed,), cut=1, d_model=Fixed(768))


def _seggpt() -> tuple[Row, ...]:
    """Return SegGPT's grid, and the rows of its layers: each sees an image below its prompt."""
    relative = If(Key("use_relative_position_embeddings", True), (True,))
    head = quotient(hidden(1024), Key("num_attention_heads", 16))
    # image and prompt, stacked: 896 x 448
    parameters = {"head_dim": head, "window": grid((896, 448), 16)}
    return (
        patches(grid(224, 16, "pretrain_image_size"), 1024, VIT, 1, part="absolute"),
        Row("decomposed_relative", parameters, "relative", (relative,), tables=("layers.*.attention.",)),
    )


def _prompt() -> Row:
    """Return the random Fourier features of SAM's points and boxes (SamPositionalEmbedding)."""
    parameters = {
        # x and y in 0..1, as 2 x - 1
        "in_features": 2,
        "kind": "gaussian",
        "inputs": "centered",
        "features": Key("vision_config.num_pos_feats", 128),
        "std": Made("{}", float, (Key("vision_config.scale", 384),)),
    }
    return Row("fourier_features", parameters, "prompt", tables=("shared_image_embedding.positional_embedding",))


SEGMENTATION: Mapping[str, tuple[Row, ...]] = {
    **alike("sam_vision_model sam_hq_vision_model got_ocr2_vision", *_sam(1024)),
    **alike("slanext_vision pp_formulanet_vision", *_sam(512)),
    **alike("deepseek_ocr2_sam_vision_model unlimited_ocr_sam_vision_model", *_sam(1024, antialias=True)),
    **alike("sam sam_hq", _prompt()),
    "vitdet": _vitdet(),
    "vitmatte": (_vitmatte(),),
    "seggpt": _seggpt(),
}
