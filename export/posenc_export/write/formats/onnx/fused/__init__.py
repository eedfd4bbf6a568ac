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

from posenc_export.write.formats.onnx.fused.attention import Attentions, Fusing, fuse_attention
from posenc_export.write.formats.onnx.fused.masks import Feeds, Sizes
from posenc_export.write.formats.onnx.fused.norms import fuse_norms
from posenc_export.write.formats.onnx.fused.products import fuse_products

if TYPE_CHECKING:
    import onnx_ir as ir

    from posenc.ports import Array, Port

LONGEST = 2**16
"""Up to which length a window is looked for, where nobody says how many positions there are."""
Inputs = Callable[[Mapping[str, int], str], Mapping[str, "Array"]]
"""Makes the inputs of a call, by the sizes of its axes and the side of its padding."""


def fuse(model: ir.Model, ports: tuple[Port, ...], inputs: Inputs, positions: int | None) -> Attentions:
    """Write attention behind caches as operators of com.microsoft, in place; return what became of it.

    Args:
        model: the graph, as torch.onnx wrote it.
        ports: what goes in.
        inputs: makes the inputs of a call, but caches.
        positions: how many positions the model has; None where nobody says it.
    """
    from posenc.ports import Mask

    caches = [port for port in ports if is_cache(port)]
    others = [port for port in ports if not is_cache(port)]
    if not caches:
        return Attentions(0, 0, {})
    batch, past = caches[0].axes[0].name, caches[0].axes[2].name
    lengths = {name for port in others for axis in port.axes if axis.is_length for name in axis.names}
    seqs = sorted(lengths - {past})
    masks = [port for port in others if isinstance(port.carries, Mask) and {*port.axes[-1].names} == {past, *seqs}]
    if len(seqs) != 1 or len(masks) != 1 or len(masks[0].axes) != 2:
        return Attentions(0, 0, {"no mask says how many keys there are": len(caches) // 2})

    def feeds(sizes: Sizes, side: str) -> tuple[Mapping[str, Array], Mapping[str, tuple[int, ...]]]:
        of_axes = {batch: sizes.batch, seqs[0]: sizes.seq, past: sizes.past}
        return inputs(of_axes, side), {port.name: port.shape(of_axes) for port in ports}

    padding = next(value for value in model.graph.inputs if value.name == masks[0].name)
    return fuse_attention(Fusing(model, padding, feeds, max(positions or 0, LONGEST), positions))


def is_cache(port: Port) -> bool:
    """Return whether a port has heads of tokens, (batch, heads, tokens, features), as caches have."""
    dynamic = [axis.is_dynamic for axis in port.axes]
    return dynamic == [True, False, True, False] and port.dtype.startswith(("float", "bfloat"))


__all__ = ["Attentions", "fuse", "fuse_norms", "fuse_products", "is_cache"]
