"""Axial rotary position embedding for images: half of the pairs are rotated by the row, half by the column.

Sources: Heo et al., arXiv:2403.13298; Qwen2-VL's vision tower (halves); EVA-02, arXiv:2303.11331 (interleaved).
"""

from typing import Annotated, Literal

from posenc.encoding import Encoding
from posenc.joins.apply_rotary import Heads
from posenc.ranges import above, multiple_of
from posenc.scheme import Unsupported, scheme
from posenc.schemes.rope_nd import encode
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.axial import square
from posenc.spec import Spec


@scheme(
    "rope_2d",
    paper="arXiv:2403.13298",
    formula="as rope, pair i < d/4 at a = row theta^(-4i/d), pair d/4 + i at a = column theta^(-4i/d)",
    models=("Qwen2-VL vision", "Qwen2.5-VL vision", "Qwen3-VL vision", "GLM-4V vision", "MLCD"),
    samples=({"head_dim": 16}, {"head_dim": 16, "output": "cos_sin", "width": "full"}),
    unsupported=Unsupported(
        positions={
            "offset": "a grid has no first position to shift; give both with --positions explicit",
            "mask": "a mask counts one position a token, and a place has two; give both with --positions explicit",
        }
    ),
)
def rope_2d(
    spec: Spec,
    *,
    head_dim: Annotated[int, multiple_of(4)] = 64,
    rope_theta: Annotated[float, above(1)] = 10000.0,
    layout: Literal["halves", "interleaved"] = "halves",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
) -> Encoding:
    """Queries and keys of image patches rotated by row and column; implicit positions are a grid of any size.

    Args:
        head_dim: features of a head, a multiple of four; half of them are rotated by the row, half by the column.
        rope_theta: the base of the frequencies, the same for rows and columns.
        layout: which features are a pair: "halves" i and i + head_dim / 2, "interleaved" 2 i and 2 i + 1.
        tensor_layout: "bhsd" (batch, head, height, width, dim) or "bshd" (batch, height, width, head, dim).
        output: "rotate" q and k, or "cos_sin" the cosines and sines at explicit positions (2, batch, seq).
        width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers
            returns.
    """
    heads = Heads(head_dim, head_dim, layout, tensor_layout)
    if head_dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4, half for rows and half for columns, got {head_dim}")
    return encode(spec, square(rope_theta, head_dim), heads, rotary.RotaryOutput(output, width == "full"))
