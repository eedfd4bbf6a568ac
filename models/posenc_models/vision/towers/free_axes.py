"""What takes the place of functions of torch that read numbers, or count rows: nobody knows how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from posenc_models.vision.towers.segments import OneSize, Sizes


def kinds_with_lists(kind: type[Tensor]) -> list[type[Tensor]]:
    """Return the classes of tensors that say in their own way how to make a list: those in a trace do."""
    found = [kind] if kind is Tensor or "tolist" in vars(kind) else []
    return found + [other for one in kind.__subclasses__() for other in kinds_with_lists(one)]


def sizes_or(read: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Return a function that gives what stands for a list of sizes, and reads anything else."""

    def tolist(tensor: Tensor) -> Any:
        return Sizes() if tensor.dim() == 1 and not tensor.is_floating_point() else read(tensor)

    return tolist


def sides_or(rows: Callable[[Tensor], Iterator[Any]]) -> Callable[[Tensor], Iterator[Any]]:
    """Return a function that gives one row of what stands for sides of images, and the rows of anything else.

    Those of a free axis, which nobody knows the number of, come as one.
    """

    def each(tensor: Tensor) -> Iterator[Any]:
        if is_of_sizes(tensor):
            return iter([(OneSize(),) * tensor.shape[1]])
        free = tensor.dim() > 1 and isinstance(tensor.shape[0], torch.SymInt)
        return iter([tensor.flatten(0, 1)]) if free else rows(tensor)

    return each


def is_of_sizes(tensor: Tensor) -> bool:
    """Return whether a tensor has sides of images, (images, sides)."""
    return tensor.dim() == 2 and not tensor.is_floating_point()


def known_length(length: Callable[[Tensor], int]) -> Callable[[Tensor], int]:
    """Return a function that counts rows, but those of a free axis: Python would ask before it makes a list of them."""

    def count(tensor: Tensor) -> int:
        if is_of_sizes(tensor):
            return 1  # as `sides_or` gives them
        if tensor.dim() and isinstance(tensor.shape[0], torch.SymInt):
            raise TypeError("a tensor with a free axis has no length: expected a model that does not count images")
        return length(tensor)

    return count


def fixed_only(squeeze: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that leaves out an axis of 1, and no free one: a graph would, whatever its size."""

    def fixed(tensor: Tensor, *axes: Any, **named: Any) -> Tensor:
        free = len(axes) == 1 and isinstance(axes[0], int) and isinstance(tensor.shape[axes[0]], torch.SymInt)
        return tensor if free else squeeze(tensor, *axes, **named)

    return fixed


def constants_or(arange: Callable[..., Tensor]) -> Callable[..., Tensor]:
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


def buckets(values: Tensor, boundaries: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    """Return how many boundaries lie below each value, which exporters have no operator for."""
    each = values.unsqueeze(-1)
    return (boundaries <= each if right else boundaries < each).sum(-1)
