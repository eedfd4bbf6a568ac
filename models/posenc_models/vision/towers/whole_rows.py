"""Calls of a tower in which rows of all images stay together, where transformers would split them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from posenc.libraries import replaced
from posenc_models.vision.towers.free_axes import (
    buckets,
    constants_or,
    fixed_only,
    kinds_with_lists,
    known_length,
    sides_or,
    sizes_or,
)
from posenc_models.vision.towers.segments import OneSize, Segments, Sizes


@contextmanager
def rows_together() -> Iterator[None]:
    """Keep the rows of all images in one tensor while it lasts: only rows of one part attend to each other."""
    from transformers.modeling_utils import AttentionInterface

    whole = WholeRows()
    interface = AttentionInterface.get_interface

    def get_interface(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the function that attends, which keeps images apart."""
        return whole.attending(interface(self, *args, **kwargs))

    with replaced(AttentionInterface, "get_interface", get_interface), whole.lasting():
        yield


class WholeRows:
    """While it lasts, sizes in a tensor are not read into a list, and a tensor split by them is its only part.

    What attends to such a part is given a mask: `attending` puts it there.
    """

    def __init__(self) -> None:
        # queries, keys and values of a layer are split one after the other
        self.wholes: deque[tuple[Tensor, Segments]] = deque(maxlen=3)

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Replace what reads sizes, and what splits by them."""
        split: Callable[..., tuple[Tensor, ...]] = torch.Tensor.split

        def whole(tensor: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
            """Return the only part of a tensor, or the parts that sizes say."""
            if isinstance(sizes, Sizes):
                if sizes.segments is not None:
                    self.wholes.append((tensor, sizes.segments))
                return (tensor,)
            one = isinstance(sizes, list) and any(isinstance(size, OneSize) for size in sizes)
            return (tensor,) if one else split(tensor, sizes, dim)

        with ExitStack() as stack:
            stack.enter_context(replaced(torch.Tensor, "__iter__", sides_or(torch.Tensor.__iter__)))
            for kind in kinds_with_lists(torch.Tensor):
                stack.enter_context(replaced(kind, "tolist", sizes_or(kind.tolist)))
            stack.enter_context(replaced(torch.Tensor, "split", whole))
            stack.enter_context(replaced(torch.Tensor, "__len__", known_length(torch.Tensor.__len__)))
            stack.enter_context(replaced(torch.Tensor, "squeeze", fixed_only(torch.Tensor.squeeze)))
            stack.enter_context(replaced(torch, "bucketize", buckets))
            stack.enter_context(replaced(torch, "arange", constants_or(torch.arange)))
            yield

    def attending(self, attention: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that attends as the given one, and keeps the parts of a whole apart."""

        def apart(
            module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, **options: Any
        ) -> Any:
            parts = [segments for whole, segments in self.wholes if whole is query]
            mask = parts[-1].mask(query.dtype) if parts and attention_mask is None else attention_mask
            return attention(module, query, key, value, mask, **options)

        return apart
