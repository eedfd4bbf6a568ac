"""Model types of images whose heads are rotated by row and column otherwise than those of Qwen2-VL's kind.

DINOv3's rotate by fractions of the image; others give row and column frequencies, pairs or an order of their own, or
have frames beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from posenc_models.config.encodings.rows import If, Row, alike, hidden
from posenc_models.config.encodings.segmentation import layers_of
from posenc_models.config.encodings.towers import BLOCKS, PLAIN_HEADS, RULES, Either, OfRope, base_of, head_of, of_types
from posenc_models.config.keys import Fixed, Key, KeyOrigin, Made, grid, plus, quotient
from posenc_models.config.settings import Setting, Settings

SPLIT_OFF = (
    "class and register tokens stand before the patches and are not rotated: split them off, and rotate the patches "
    "alone; output=cos_sin has cosines and sines of all tokens"
)
QUERIES = (
    "queries, class and register tokens stand before the patches and are not rotated: split them off, and rotate the "
    "patches alone"
)
MEMORIES = (
    "what is rotated here are the tokens of one frame: those of each remembered frame are rotated as a frame of its "
    "own, and object pointers are not rotated"
)
TEXT = "a token of text has its place in the text as row and column"
CLASS_FIRST = f"a class token stands before the patches of each image and is not rotated: split it off; {BLOCKS}"
CLASS_LAST = "a class token stands behind the patches of an image and is not rotated: split it off"
WINDOWS = (
    "the model's patches come window by window, and implicit positions row by row: where an image is larger than a "
    "window, give rows and columns, from 0, with --positions explicit"
)
CROPS = (
    "the model counts frames, rows and columns of videos of crop_size, whatever the size of what it is given; implicit "
    "positions are those of the grid itself"
)
CHOSEN = "the predictor has some of a video's patches, each at its own place: frame, row and column, from 0"
WHOLE = "the model rotates all features of a token as one head, and parts them into heads after that"
Parameters = Mapping[str, object]
HALVES: Parameters = {"layout": "halves"}
NEIGHBOURS: Parameters = {"layout": "interleaved"}
COLUMN_FIRST: Parameters = {"axis_order": (1, 0)}
FROM_1: Parameters = {"first": (1.0,)}
MEMORY = "memory_attention"
"""How the keys begin that say how SAM 2's kind attends to the memory of a video."""
MEMORY_HEADS = Key(f"{MEMORY}_num_attention_heads", 1)
BASE = base_of(10000.0)


@dataclass(frozen=True)
class HasLayers:
    """Whether a model has layers of a type: NeoMME lists them, or has both kinds."""

    layer_type: str

    def read(self, config: Settings, absent: str) -> Setting:
        """Return whether it has, with its origin."""
        types = config.content.get("layer_types")
        if isinstance(types, list):
            return Setting(self.layer_type in types, config.path_of("layer_types"))
        # every sixth layer and the last one see everything
        count = Key("num_hidden_layers", 17).read(config, absent)
        return Setting(self.layer_type == "full_attention" or count.value != 1, count.path)


def _fractions(width: int, heads: int, registers: int) -> Row:
    """Return a tower with DINOv3's coordinates whose base stands at the top of its config."""
    head = quotient(hidden(width), Key("num_attention_heads", heads))
    before = {"prefix": plus(Key("num_register_tokens", registers, least=0), 1)}
    parameters = {"head_dim": head, "rope_theta": Key("rope_theta", 100.0)}
    return Row("dinov3", parameters, differs=SPLIT_OFF, returned=before)


def _chmv2() -> Row:
    """Return CHMv2 of a config that names no backbone: its class takes DINOv3's large one."""
    unnamed = If(Key("backbone_config.model_type", ""), ("",))
    parameters = {"head_dim": Fixed(64), "rope_theta": Fixed(100.0)}
    return Row("dinov3", parameters, when=(unnamed,), differs=SPLIT_OFF, returned={"prefix": Fixed(5)})


def _eomt() -> tuple[Row, Row]:
    """Return EoMT on DINOv3, whose base stands in rope settings, and what its code refuses."""
    parameters = {"head_dim": quotient(hidden(1024), PLAIN_HEADS), "rope_theta": base_of(100.0)}
    return of_types(Row("dinov3", parameters, differs=QUERIES), ("default",))


def _nd(head: KeyOrigin, more: Parameters, differs: str = "", base: KeyOrigin = BASE) -> Row:
    """Return a tower of two axes that share a head alike.

    Args:
        head: the features of a head.
        more: further parameters of the scheme.
        differs: the note on what the scheme leaves to the caller.
        base: the base of all frequencies.
    """
    axes = Made("half of {} for each axis", lambda features: (features // 2,) * 2, (head,))
    bases = Made("{}", lambda theta: (theta,), (base,))
    return Row("rope_nd", {"head_dim": head, "axes_dim": axes, "rope_theta": bases, **more}, differs=differs)


def _tower(width: int, more: Parameters, differs: str = "") -> tuple[Row, Row]:
    """Return a tower of two axes under the usual keys, and what its code refuses; see _nd."""
    return of_types(_nd(head_of(hidden(width), PLAIN_HEADS), more, differs))


def _step3p5() -> tuple[Row, Row]:
    """Return the tower of Step 3.7: `width` and `heads`, the names of old files, count before the usual ones."""
    width, heads = Key("width", 1536, ("hidden_size",)), Key("heads", 16, ("num_attention_heads",))
    return of_types(_nd(head_of(width, heads), {**HALVES, **COLUMN_FIRST}))


def _video() -> tuple[Row, Row]:
    """Return the attention of SAM 2's kind to memories of a video's frames."""
    parts = Made("{} x {}", lambda rate, heads: rate * heads, (Key(f"{MEMORY}_downsample_rate", 1), MEMORY_HEADS))
    head = quotient(Key(f"{MEMORY}_hidden_size", 256), parts)
    # what is written under the old name is set last
    base = Either(Key(f"{MEMORY}_rope_theta", None), BASE)
    return of_types(_nd(head, {**NEIGHBOURS, **COLUMN_FIRST}, MEMORIES, base))


def _minimax() -> tuple[Row, Row]:
    """Return MiniMax M3's tower: a third of a head each by frame, row and column; what is left passes."""
    head = head_of(hidden(1280), PLAIN_HEADS)
    axes = Made("a third of {} for each axis", lambda features: (features // 6 * 2,) * 3, (head,))
    bases = Made("{}", lambda theta: (theta,), (base_of(10000.0),))
    parameters = {"head_dim": head, "axes_dim": axes, "rope_theta": bases, "layout": "halves"}
    return of_types(Row("rope_nd", parameters, differs=BLOCKS))


def _vjepa(width: KeyOrigin, heads: KeyOrigin, differs: str, part: str = "") -> Row:
    """Return the attentions of V-JEPA 2: a third of a head each by frame, row and column, whose pairs turn apart.

    Args:
        width: the features that the heads share.
        heads: how many heads there are.
        differs: the note on what the scheme leaves to the caller.
        part: "predictor"; "" for the encoder, which is the model itself.
    """
    head = quotient(width, heads)
    axes = Made("a third of {} for each axis", lambda features: (features // 6 * 2,) * 3, (head,))
    parameters = {"head_dim": head, "axes_dim": axes, "rope_theta": (10000.0,), "layout": "axis_tiled"}
    return Row("rope_nd", parameters, part, positions="explicit" if part else None, differs=differs)


def _neomme(layer_type: str, theta: float, share: float) -> tuple[Row, Row]:
    """Return the layers of one type of NeoMME, whose tokens are text and patches."""
    settings, head = f"rope_parameters.{layer_type}", Key("head_dim", 64)
    rotated = Made(
        "half of {} of {} for each axis",
        lambda part, features: (int(features * part) // 2,) * 2,
        (Key(f"{settings}.partial_rotary_factor", share), head),
    )
    bases = Made("{}", lambda base: (base,), (Key(f"{settings}.rope_theta", theta, ("rope_theta",)),))
    parameters = {"head_dim": head, "axes_dim": rotated, "rope_theta": bases, "layout": "halves"}
    parameters |= {"frequencies": "alternate", "order": "by_turns"}
    is_usual = If(Key(f"{settings}.rope_type", "default"), ("default",))
    others = If(Key(f"{settings}.rope_type", "default"), tuple(name for name in RULES if name != "default"))
    there = If(HasLayers(layer_type), (True,))
    row = Row("rope_nd", parameters, layer_type, (there, is_usual), positions="explicit", differs=TEXT)
    lacks = "its rope type is not default, and two axes of another are not read"
    return row, Row("", part=layer_type, when=(there, others), lacks=lacks)


def _llama4() -> Row:
    """Return Llama 4's tower, whose code looks at no rope type."""
    return _nd(quotient(hidden(768), PLAIN_HEADS), {**NEIGHBOURS, **COLUMN_FIRST, **FROM_1}, CLASS_LAST)


def _loftr() -> tuple[Row, Row]:
    """Return EfficientLoFTR's attention, which rotates all features before it parts them into heads."""
    width = hidden(256)
    head = Either(Key("head_dim", None), quotient(width, Key("num_attention_heads", 8)))
    share = OfRope("partial_rotary_factor", 4.0, beside=("partial_rotary_factor",))

    def axes(features: int, part: float, whole: int) -> tuple[int, int]:
        if int(features * part) * 2 != whole:
            raise ValueError(f"{features} x {part:g} features an axis are not half of {whole}, which its code needs")
        return (whole // 2,) * 2

    rotated = Made("{} x {} of {} for each axis", axes, (head, share, width))
    row = _nd(width, {**NEIGHBOURS, **FROM_1, "order": "by_turns", "axes_dim": rotated}, WHOLE)
    return of_types(row, ("default",))


def _sam3() -> tuple[Row, ...]:
    """Return the layers of SAM 3's tower that see windows, and those that see the whole image, scaled to a window."""
    window, sides = Key("window_size", 24, least=0), grid(1008, 14)
    chosen = Key("global_attn_indexes", (7, 15, 23, 31), least=0)
    windowed, whole = layers_of(window, chosen, Key("num_hidden_layers", 32), of_window=False)
    # its code takes the first of two sizes for the width
    scale = Made("{} / ({})", lambda side, places: (side / places[0],), (window, sides))
    head = head_of(hidden(1024), PLAIN_HEADS)
    rows: list[Row] = []
    more: Parameters
    for part, layers, more in (("window", windowed, {}), ("global", whole, {"scale": scale})):
        row = _nd(head, {**NEIGHBOURS, **COLUMN_FIRST, **more})
        has_layers = If(Made("layers with {}", bool, (layers,)), (True,))
        rows += of_types(replace(row, part=part, when=(has_layers,), layers=layers))
    return tuple(rows)


GRIDS: Mapping[str, tuple[Row, ...]] = {
    "dinov3_vit": (_fractions(384, 6, 0),),
    "sapiens2": (_fractions(1024, 16, 8),),
    "chmv2": (_chmv2(),),
    "eomt_dinov3": _eomt(),
    "pixtral": _tower(1024, {**HALVES, "frequencies": "alternate"}),
    "kimi_k25_vision": _tower(1152, {**HALVES, **COLUMN_FIRST, "order": "by_turns"}),
    "step3p5_vision": _step3p5(),
    "inkling2_vision": _tower(1024, {**NEIGHBOURS, **COLUMN_FIRST, **FROM_1}, CLASS_FIRST),
    **alike("muse_glimmer_vision muse_spark_vision", *_tower(1536, {**HALVES, **COLUMN_FIRST, **FROM_1}, WINDOWS)),
    "llama4_vision_model": (_llama4(),),
    "efficientloftr": _loftr(),
    "sam3_vit_model": _sam3(),
    **alike("sam2_video sam3_tracker_video edgetam_video", *_video()),
    "gemma4_vision": of_types(
        _nd(Key("head_dim", 64), {"layout": "axis_halves", **COLUMN_FIRST}, base=base_of(100.0)),
    ),
    "minimax_m3_vl_vision": _minimax(),
    "vjepa2": (
        _vjepa(hidden(1024), PLAIN_HEADS, CROPS),
        _vjepa(Key("pred_hidden_size", 384), Key("pred_num_attention_heads", 12), CHOSEN, "predictor"),
    ),
    "neomme": (*_neomme("full_attention", 1e6, 0.25), *_neomme("sliding_attention", 1e4, 1.0)),
}
"""Vision towers, and what else rotates by row and column."""
