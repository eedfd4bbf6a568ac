"""`--attention-op microsoft`: the operators of com.microsoft that ONNX Runtime has for decoders, in place of plain ones.

    Softmax(q k^T + mask) v, behind caches that Concat lengthens     GroupQueryAttention
    x cos + Concat(-x2, x1) sin                                      RotaryEmbedding, whose rows positions look up
    x + y, then its root mean square norm                            SkipSimplifiedLayerNormalization

GroupQueryAttention appends keys and values where they are: where a caller gives it one buffer for past and present, a
step copies no cache. It computes the causal mask, windows and ceilings itself. A mask of padding goes in as numbers
that are added to scores, so that padding may stand on both sides, as in a plain file.

`parts` evaluates parts of a graph: which tokens a mask hides, and the cosines of every position. So nothing is taken
from the name of a model.
"""

from posenc_export.write.formats.onnx.fused.attention import Attentions, fuse_attention
from posenc_export.write.formats.onnx.fused.norms import fuse_norms

__all__ = ["Attentions", "fuse_attention", "fuse_norms"]
