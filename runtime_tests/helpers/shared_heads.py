"""Attention whose queries share heads of keys, as tests of graphs call it."""

import numpy as np
from torch import Tensor

from posenc.ports import Array


def repeated(x: Tensor, groups: int) -> Tensor:
    """Repeat as transformers does: (batch, key heads, tokens, width) -> (batch, key heads x groups, tokens, width)."""
    batch, heads, tokens, width = x.shape
    wide = x[:, :, None, :, :].expand(batch, heads, groups, tokens, width)
    return wide.reshape(batch, heads * groups, tokens, width)


def drawn_call(seq: int, past: int, batch: int) -> dict[str, Array]:
    """Return x, mask, keys and values, with padding on the left of the last sequence.

    Where the padding is long, the first queries of that sequence see no key.
    """
    generator = np.random.default_rng(seq + 10 * past)
    mask = np.tril(np.ones((seq, past + seq), bool), past)[None, None].repeat(batch, 0)
    mask[-1, :, :, : (past + seq) // 2] = False
    sizes = {"x": (batch, seq, 48), "keys": (batch, 2, past, 8), "values": (batch, 2, past, 8)}
    drawn = {name: generator.standard_normal(shape, np.float32) for name, shape in sizes.items()}
    return {**drawn, "mask": mask}
