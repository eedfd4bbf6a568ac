"""Rotary position embedding (RoPE, arXiv:2104.09864), with all rope types."""

from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc.encoding import Encoding
from posenc.formulas.parts import rotation
from posenc.formulas.rope import reference
from posenc.joins.apply_rotary import Heads
from posenc.joins.rotated import RotaryAngles
from posenc.parameters import Value
from posenc.ranges import EVEN, above
from posenc.rope_types import ROPE_TYPES, Rope, scaling_parameters
from posenc.scheme import scheme
from posenc.sincos import check_table, sincos
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.angles import LongRopeAngles, StaticAngles
from posenc.spec import Spec

SMALL: dict[str, Value] = {"head_dim": 16}


@scheme(
    "rope",
    paper="arXiv:2104.09864",
    formula="pair i: (x1, x2) -> (x1 cos a - x2 sin a, x2 cos a + x1 sin a), a = p theta^(-2i/d)",
    models=("Llama", "Mistral", "Qwen", "Gemma", "Phi", "GPT-NeoX", "DeepSeek", "gpt-oss", "ModernBERT", "NanoChat"),
    positions="explicit",
    samples=(
        SMALL,
        {**SMALL, "rotary_dim": 8},
        {**SMALL, "rotary_dim": 8, "layout": "interleaved", "tensor_layout": "bshd"},
        {**SMALL, "output": "cos_sin", "width": "full", "layout": "interleaved"},
        *({**SMALL, "rope_type": kind.name, **sample} for kind in ROPE_TYPES.values() for sample in kind.samples),
    ),
)
def rope(
    spec: Spec,
    *,
    head_dim: Annotated[int, EVEN] = 128,
    rotary_dim: Annotated[int | None, EVEN] = None,
    rope_theta: Annotated[float, above(1)] = 10000.0,
    rope_type: Annotated[str, ROPE_TYPES] = "default",
    layout: Literal["halves", "interleaved"] = "halves",
    direction: Literal["forward", "backward"] = "forward",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
    **scaling: Annotated[Value, scaling_parameters],
) -> Encoding:
    """Queries and keys rotated by position x frequency, pair by pair.

    Args:
        head_dim: features of a head.
        rotary_dim: features that are rotated, the first ones; the others pass [default: all].
        rope_theta: the base of the frequencies.
        rope_type: how frequencies are scaled; each type takes parameters of its own, as in transformers.
        layout: which features are a pair: "halves" i and i + rotary_dim / 2, "interleaved" 2 i and 2 i + 1.
        direction: "forward" by the angle, "backward" by minus the angle (NanoChat); cosines and sines are those of the
            angle itself, and rotating backward is left to what takes them, as in the model's code.
        tensor_layout: "bhsd" (batch, head, seq, dim) or "bshd" (batch, seq, head, dim).
        output: "rotate" q and k, or "cos_sin" the cosines and sines at positions; implicit positions ask for whole
            caches, with --baked.
        width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers
            returns.
    """
    heads = Heads(head_dim, head_dim if rotary_dim is None else rotary_dim, layout, tensor_layout)
    backward = direction == "backward"
    # the sine is negated here, once: a graph has no operation more
    frequencies = Rope(rope_type, heads.rotary_dim, rope_theta, scaling, backward and output == "rotate")
    exact = partial(ROPE_TYPES[rope_type].reference, rotary_dim or head_dim, rope_theta, **scaling)
    pairs = rotation.Pairs(layout, tensor_layout, width == "full", backward=backward)
    formula = partial(reference, spec, exact=exact, pairs=pairs)
    return rotary.encode(
        angles_of(frequencies, spec),
        spec,
        heads,
        rotary.RotaryOutput(output, width == "full"),
        formula=formula,
        probe_lengths=frequencies.edges,
    )


def angles_of(rope: Rope, spec: Spec) -> RotaryAngles:
    """Return the rotary angles of a rope type; a table has the frequencies of a call of max_len."""
    check_table(spec, rope.dim)  # before the frequencies, which are as wide
    whole = rope.at(spec.max_len)
    if spec.mode == "baked" or not rope.by_length:
        return StaticAngles(sincos(spec, whole.inv_freq, scale=whole.attention_factor))
    if rope.kind.in_graph is not None:
        return rope.kind.in_graph(rope, spec)
    short_and_long = np.concatenate([rope.at(rope.switch).inv_freq, rope.at(rope.switch + 1).inv_freq])
    return LongRopeAngles(sincos(spec, short_and_long, scale=whole.attention_factor), rope.switch)
