"""What takes the place of splitting rows of a tensor into images: the rows stay together, and a mask keeps them apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from posenc.libraries import replaced

class Segments:
    """Parts of a row of patches that attend within themselves, in the place of `cu_seqlens` of transformers.

    The differences that models take are these parts again: `cu_seqlens[1:] - cu_seqlens[:-1]`.

    Args:
        begins: For each patch the number of the first in its part, (patches,).
        ends: Where each image ends, (images,): a model that counts these asks for the image of each patch.
    """

    def __init__(self, begins: Tensor, ends: Tensor) -> None:
        self.begins, self.ends = begins, ends
        self._masks: dict[torch.dtype, Tensor] = {}

    def __getitem__(self, _: slice) -> Segments:
        """Return itself."""
        return self

    def __sub__(self, _: Segments) -> Segments:
        """Return itself."""
        return self

    def to(self, *_: Any, **__: Any) -> Segments:
        """Return itself."""
        return self

    def cumsum(self, _: int) -> Tensor:
        """Return where each image ends."""
        return self.ends

    def tolist(self) -> Sizes:
        """Return what stands for a list of sizes."""
        return Sizes(self)

    def mask(self, dtype: torch.dtype) -> Tensor:
        """Return what is added to scores: 0 within a part, and the least number elsewhere, (1, 1, patches, patches)."""
        if dtype not in self._masks:
            apart = self.begins.unsqueeze(1) != self.begins.unsqueeze(0)
            mask = torch.zeros((), dtype=dtype, device=apart.device).expand(1, 1, *apart.shape)
            self._masks[dtype] = mask.masked_fill(apart, torch.finfo(dtype).min)
        return self._masks[dtype]


class Sizes(list[int]):
    """In the place of a list of sizes that nobody knows while a graph is traced; `segments` if they are parts."""

    def __init__(self, segments: Segments | None = None) -> None:
        super().__init__()
        self.segments = segments

    def __iter__(self) -> Iterator[int]:
        """Refuse: a loop over images would be traced for none."""
        raise ValueError("sizes of images are read one by one: expected a model that splits by them, and nothing else")


class OneSize:
    """In the place of a side of each image, where a loop reads all of them: what it computes of it is the same."""

    def __mul__(self, _: OneSize | int) -> OneSize:
        """Return itself."""
        return self

    def __floordiv__(self, _: int) -> OneSize:
        """Return itself."""
        return self


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
        split = torch.Tensor.split

        def whole(tensor: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
            """Return the only part of a tensor, or the parts that sizes say."""
            if isinstance(sizes, Sizes):
                if sizes.segments is not None:
                    self.wholes.append((tensor, sizes.segments))
                return (tensor,)
            one = isinstance(sizes, list) and any(isinstance(size, OneSize) for size in sizes)
            return (tensor,) if one else split(tensor, sizes, dim)

        with ExitStack() as stack:
            stack.enter_context(replaced(torch.Tensor, "__iter__", _sides_or(torch.Tensor.__iter__)))
            for kind in _kinds_with_lists(torch.Tensor):
                stack.enter_context(replaced(kind, "tolist", _sizes_or(kind.tolist)))
            stack.enter_context(replaced(torch.Tensor, "split", whole))
            stack.enter_context(replaced(torch.Tensor, "__len__", _known_length(torch.Tensor.__len__)))
            stack.enter_context(replaced(torch.Tensor, "squeeze", _fixed_only(torch.Tensor.squeeze)))
            stack.enter_context(replaced(torch, "bucketize", _bucket))
            stack.enter_context(replaced(torch, "arange", _constants_or(torch.arange)))
            yield

    def attending(self, attention: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that attends as the given one, and keeps the parts of a whole apart."""

        def apart(  # noqa: PLR0917  (models call it by position, too)
            module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None, **options: Any
        ) -> Any:
            parts = [segments for whole, segments in self.wholes if whole is query]
            mask = parts[-1].mask(query.dtype) if parts and attention_mask is None else attention_mask
            return attention(module, query, key, value, mask, **options)

        return apart


def _kinds_with_lists(kind: type[Tensor]) -> list[type[Tensor]]:
    """Return the classes of tensors that say in their own way how to make a list: those in a trace do."""
    found = [kind] if kind is Tensor or "tolist" in vars(kind) else []
    return found + [other for one in kind.__subclasses__() for other in _kinds_with_lists(one)]


def _sizes_or(read: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Return a function that gives what stands for a list of sizes, and reads anything else."""

    def tolist(tensor: Tensor) -> Any:
        return Sizes() if tensor.dim() == 1 and not tensor.is_floating_point() else read(tensor)

    return tolist


def _sides_or(rows: Callable[[Tensor], Iterator[Any]]) -> Callable[[Tensor], Iterator[Any]]:
    """Return a function that gives one row of what stands for sides of images, and the rows of anything else.

    Those of a free axis, which nobody knows the number of, come as one.
    """

    def each(tensor: Tensor) -> Iterator[Any]:
        if tensor.dim() == 2 and not tensor.is_floating_point():  # noqa: PLR2004  (images, sides)
            return iter([(OneSize(),) * tensor.shape[1]])
        free = tensor.dim() > 1 and isinstance(tensor.shape[0], torch.SymInt)
        return iter([tensor.flatten(0, 1)]) if free else rows(tensor)

    return each


def _known_length(length: Callable[[Tensor], int]) -> Callable[[Tensor], int]:
    """Return a function that counts rows, but those of a free axis: Python would ask before it makes a list of them."""

    def count(tensor: Tensor) -> int:
        if tensor.dim() and isinstance(tensor.shape[0], torch.SymInt):
            raise TypeError("a tensor with a free axis has no length: expected a model that does not count images")
        return length(tensor)

    return count


def _fixed_only(squeeze: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that leaves out an axis of 1, and no free one: a graph would, whatever its size."""

    def fixed(tensor: Tensor, *axes: Any, **named: Any) -> Tensor:
        free = len(axes) == 1 and isinstance(axes[0], int) and isinstance(tensor.shape[axes[0]], torch.SymInt)
        return tensor if free else squeeze(tensor, *axes, **named)

    return fixed


def _constants_or(arange: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that gives numbers at equal distances; where these are fractions, as they are here.

    Runtimes round fractions in another way, and a position that lies on the edge of a bucket falls into another.
    """

    def numbers(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("dtype") is not None or not any(isinstance(one, float) for one in args):
            return arange(*args, **kwargs)
        with _disable_current_modes():
            values = arange(*args).tolist()
        return torch.tensor(values, **kwargs)

    return numbers


def _bucket(values: Tensor, boundaries: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    """Return how many boundaries lie below each value, which exporters have no operator for."""
    each = values.unsqueeze(-1)
    return (boundaries <= each if right else boundaries < each).sum(-1)
