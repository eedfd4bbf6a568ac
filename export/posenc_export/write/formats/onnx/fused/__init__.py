"""`--attention-op microsoft`: operators of com.microsoft that ONNX Runtime has for decoders, in place of plain ones.

    Softmax(q k^T + mask) v, behind caches that Concat lengthens     GroupQueryAttention
    x cos + Concat(-x2, x1) sin                                      RotaryEmbedding, whose rows positions look up
    x + y, then its root mean square norm                            SkipSimplifiedLayerNormalization
    x Wq, x Wk, x Wv                                                 a product with (Wq, Wk, Wv), and a Split

GroupQueryAttention appends keys and values where they are: where a caller gives it one buffer for past and present, a
step copies no cache. It hides keys behind a query and before a window itself. Padding goes in as numbers that are added
to scores, so that it may stand on both sides, as in a plain file.

`parts` evaluates parts of a graph: which tokens a mask hides, and the cosines of every position. So nothing is taken
from the name of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from posenc_export.bundle.decoders import decoder_axes, mask_of_keys
from posenc_export.write.formats.onnx.fused.attention import Attentions, Fusing, fuse_attention
from posenc_export.write.formats.onnx.fused.masks import Sizes
from posenc_export.write.formats.onnx.fused.norms import fuse_norms
from posenc_export.write.formats.onnx.fused.products import fuse_products

if TYPE_CHECKING:
    import onnx_ir as ir

    from posenc.ports import Array, Port
    from posenc_export.bundle.case import Padding

LONGEST = 2**16
"""Up to which length a window is looked for, where nobody says how many positions there are."""
Inputs = Callable[[Mapping[str, int], "Padding"], Mapping[str, "Array"]]
"""Makes the inputs of a call, by the sizes of its axes and the side of its padding."""


def fuse(model: ir.Model, ports: tuple[Port, ...], inputs: Inputs, positions: int | None) -> Attentions:
    """Write attention behind caches as operators of com.microsoft, in place; return what became of it.

    Args:
        model: the graph, as torch.onnx wrote it.
        ports: what goes in.
        inputs: makes the inputs of a call, but caches.
        positions: how many positions the model has; None where nobody says it.
    """
    axes, mask = decoder_axes(ports), mask_of_keys(ports)
    if axes is None:
        return Attentions(0, 0, {"it has no caches, (batch, heads, tokens, features), of the same tokens": 0})
    if mask is None:
        return Attentions(0, 0, {"no input is a mask of all tokens, cached and new, (batch, tokens)": 0})

    def feeds(sizes: Sizes, side: Padding) -> tuple[Mapping[str, Array], Mapping[str, tuple[int, ...]]]:
        of_axes = dict(zip(axes, sizes, strict=True))
        return inputs(of_axes, side), {port.name: port.shape(of_axes) for port in ports}

    padding = next(value for value in model.graph.inputs if value.name == mask.name)
    return fuse_attention(Fusing(model, padding, feeds, positions or LONGEST, positions))


__all__ = ["Attentions", "fuse", "fuse_norms", "fuse_products"]
