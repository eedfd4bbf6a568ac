"""Dynamic NTK: the base grows with the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.formulas.parts.frequencies import Frequencies
from posenc.formulas.rope_types.dynamic import reference
from posenc.rope_types import Rope, geometric, rope_type
from posenc.spec import Spec

if TYPE_CHECKING:
    from posenc.sources.rotary.ntk import DynamicNtkAngles


def _in_graph(rope: Rope, spec: Spec) -> DynamicNtkAngles:
    """Return angles whose frequencies the graph computes: no table can hold them."""
    from posenc.sincos import computed_sincos  # with torch, which the parameters of rope types do without
    from posenc.sources.rotary.ntk import DynamicNtkAngles

    ntk_exponent(rope.dim)
    factor, context = float(rope.scaling["factor"]), rope.switch
    return DynamicNtkAngles(
        computed_sincos(spec), rope.dim, rope.rope_theta, factor=factor, original=context, backward=rope.backward
    )


@rope_type(
    "dynamic",
    paper="arXiv:2309.00071, section 3.3 (dynamic NTK)",
    samples=({"factor": 2.0, "max_position_embeddings": 32},),
    by_length="max_position_embeddings",
    reference=reference,
    in_graph=_in_graph,
)
def dynamic(dim: int, rope_theta: float, length: int, *, factor: float, max_position_embeddings: int) -> Frequencies:
    """Raise the base with the length of the call, once it is beyond `max_position_embeddings`.

    No state: the frequencies are those of this call's length, whatever was called before.

    Args:
        factor: by how much the context is stretched.
        max_position_embeddings: the context the model is made for.
    """
    ntk_exponent(dim)
    stretch = factor * max(length, max_position_embeddings) / max_position_embeddings - (factor - 1)
    return Frequencies(geometric(dim, rope_theta * stretch ** ntk_exponent(dim)))


def ntk_exponent(dim: int) -> float:
    """Return dim / (dim - 2), the power of the stretch that leaves the slowest pair interpolated exactly."""
    if dim <= 2:
        raise ValueError(f"rope_type=dynamic needs at least 4 rotated features, got {dim}")
    return dim / (dim - 2)
