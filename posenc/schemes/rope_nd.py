"""Rotary position embedding on a grid of up to four axes, each with features, and a base, of its own.

Sources: Flux and Qwen-Image (16, 56, 56 features by image, row and column), Wan, arXiv:2503.20314, and HunyuanVideo,
arXiv:2412.03603 (frame, row, column), Pixtral, arXiv:2410.07073 (frequencies by turns), Kimi-VL, arXiv:2504.07491
(pairs by turns), V-JEPA 2, arXiv:2506.09985 (neighbours that turn apart).
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from posenc.encoding import Encoding
from posenc.formulas.parts import rotation
from posenc.formulas.rope_nd import Axial, reference
from posenc.joins.apply_rotary import Heads
from posenc.parameters import Value
from posenc.ranges import EVEN, NOT_ZERO, above
from posenc.scheme import Unsupported, scheme
from posenc.sincos import check_table
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.axial import axial_angles, checked
from posenc.spec import Spec, UnsupportedSpec

SMALL: Mapping[str, Value] = {"head_dim": 16, "axes_dim": (4, 4, 4)}
UNLIKE: Mapping[str, Value] = {"head_dim": 16, "axes_dim": (4, 8, 4)}


@scheme(
    "rope_nd",
    paper="arXiv:2403.13298",
    formula="as rope, pair k of an axis of d features at a = (place on this axis) theta^(-2k/d)",
    models=(
        "Flux",
        "Qwen-Image",
        "Wan",
        "HunyuanVideo",
        "Pixtral",
        "Kimi-VL vision",
        "Llama 4 vision",
        "SAM 3",
        "LTX",
        "V-JEPA 2",
    ),
    samples=(
        SMALL,
        {"head_dim": 20, "axes_dim": (8, 8), "frequencies": "alternate", "order": "by_turns", "axis_order": (1, 0)},
        {**UNLIKE, "frequencies": "shared", "rope_theta": (256.0,), "output": "cos_sin"},
        {**UNLIKE, "first": (1.0,), "scale": (0.75, 1.0, 1.0)},
        {**UNLIKE, "centered": (1, 2)},
        {**SMALL, "axes_dim": (4, 4, 6), "layout": "axis_tiled"},
    ),
    unsupported=Unsupported(
        positions={
            "offset": "a grid has no first position to shift; give all of them with --positions explicit",
            "mask": "a mask counts one position a token, and a place has several; give them with --positions explicit",
        }
    ),
)
def rope_nd(
    spec: Spec,
    *,
    head_dim: Annotated[int, EVEN] = 128,
    axes_dim: tuple[int, ...] = (16, 56, 56),
    rope_theta: Annotated[tuple[float, ...], above(1)] = (10000.0,),
    frequencies: Literal["own", "alternate", "shared", "rising"] = "own",
    order: Literal["axis_by_axis", "by_turns"] = "axis_by_axis",
    axis_order: tuple[int, ...] | None = None,
    first: tuple[float, ...] = (0.0,),
    scale: Annotated[tuple[float, ...], NOT_ZERO] = (1.0,),
    centered: tuple[int, ...] | None = None,
    layout: Literal["halves", "interleaved", "axis_halves", "axis_tiled"] = "interleaved",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
) -> Encoding:
    """Queries and keys rotated by the place on each axis of a grid; implicit positions are a grid of any size.

    Args:
        head_dim: features of a head.
        axes_dim: features that each axis rotates, the first ones of a head in all; the others pass.
        rope_theta: the base of the frequencies: for all axes, or for each.
        frequencies: "own" each axis begins at 1 (Flux, Qwen-VL); "alternate" axis a takes every frequency of the whole
            head that has number a, a + axes, ... (Pixtral); "shared" a pair has the frequency of its place in the
            head, as in rope (M-RoPE); "rising" of each axis from pi / 2 to rope_theta x pi / 2 by equal factors: places
            are fractions of a size, by first and scale (LTX: -1 and 2 / size; timm's pixels: -2 and 4 / (size - 1)).
        order: whose pairs come first: "axis_by_axis" all of an axis (Flux), "by_turns" a pair of each axis (Kimi-VL).
        axis_order: which axis comes first, second, ..., from 0 [default: as in axes_dim].
        first: the place of index 0, for all axes, or for each: Llama 4's vision counts from 1.
        scale: the distance between two places, for all axes, or for each: the index i, counted or given, is the place
            first + i x scale (SAM 3's windows).
        centered: the axes, by number from 0, on which index i of n counted is the place (i - (n - n // 2)) x scale
            (Qwen-Image's rows and columns: 1,2).
        layout: which features are a pair: "halves" i and i + sum / 2, "interleaved" 2 i and 2 i + 1, "axis_halves" as
            halves among the features of each axis, which are equally many (Gemma 4's vision), "axis_tiled" as
            interleaved, but the frequencies of an axis stand twice, one a feature: of d features, i turns by that of
            number i modulo d / 2, and the two of a pair turn apart (V-JEPA 2).
        tensor_layout: "bhsd" (batch, head, *grid, dim) or "bshd" (batch, *grid, head, dim).
        output: "rotate" q and k, or "cos_sin" the cosines and sines: at explicit positions (axes, batch, seq), or of a
            grid as large as x (batch, *grid, hidden).
        width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers
            returns.
    """
    places = tuple(range(len(axes_dim))) if axis_order is None else axis_order
    alternating, tiled = order == "by_turns", layout == "axis_tiled"
    axial = checked(Axial(axes_dim, rope_theta, frequencies, alternating, places, first, scale, centered or (), tiled))
    _check_fits(axial, spec, head_dim)
    if tiled and output == "cos_sin" and width == "half":
        raise ValueError("layout=axis_tiled has a column a feature: give width=full with output=cos_sin, got half")
    parts = _parts(axial) if layout == "axis_halves" else 1
    pairs = "interleaved" if tiled else layout
    heads = Heads(head_dim, sum(axes_dim), pairs, tensor_layout, parts=parts, apart=tiled)
    return encode(spec, axial, heads, rotary.RotaryOutput(output, width == "full", on_grid=True))


def _check_fits(axial: Axial, spec: Spec, head_dim: int) -> None:
    """Raise, in one line, where axes count from a center that positions do not have, or are wider than a head."""
    if axial.centered and spec.positions != "implicit":
        raise UnsupportedSpec(
            f"centered axes count from the center of a grid, and {spec.positions} positions have no size: give "
            "--positions implicit, or leave centered out"
        )
    features = sum(axial.widths)
    if features > head_dim:
        raise ValueError(f"axes_dim sum to {features} features, more than the {head_dim} of a head (head_dim)")


def _parts(axial: Axial) -> int:
    """Return how many parts a head has whose axes have halves of their own; raise ValueError where they cannot."""
    if len(set(axial.widths)) > 1:
        widths = ",".join(map(str, axial.widths))
        raise ValueError(f"axes_dim must be equal where layout=axis_halves: parts of a head are, got {widths}")
    if axial.alternating:
        raise ValueError("layout=axis_halves has a part of the head for each axis: leave order=by_turns out")
    return len(axial.widths)


def encode(spec: Spec, axial: Axial, heads: Heads, output: rotary.RotaryOutput) -> Encoding:
    """Return the encoding whose pairs are shared out among axes."""
    check_table(spec, sum(axial.widths) * (2 if axial.tiled else 1))
    pairs = rotation.Pairs(heads.layout, heads.tensor_layout, output.full, parts=heads.parts, apart=heads.apart)
    formula = partial(reference, axial=axial, pairs=pairs)
    angles = axial_angles(spec, axial, signed=axial.tiled and output.kind == "rotate")
    return rotary.encode(angles, spec, heads, output, formula=formula)
