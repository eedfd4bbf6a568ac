"""Which features of a head turn together, read from where their elements lie."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Parameter

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Pairing:
    """Pairs of features of a head.

    Args:
        first: of each pair, its first feature.
        second: its second feature.
        head_dim: the features of a head.
    """

    first: Places
    second: Places
    head_dim: int

    @property
    def layout(self) -> str:
        """The layout by its name in the schemes of this project; the first pairs in words where it has none."""
        pairs, begin = self.first.size, int(self.first.min())
        steps, apart = self.first - begin, self.second - self.first
        if np.array_equal(steps, 2 * np.arange(pairs)) and np.all(apart == 1) and pairs > 1:
            return "interleaved"
        if np.array_equal(steps, np.arange(pairs)) and np.all(apart == pairs):
            return "halves"
        shown = " ".join(f"({a}, {b})" for a, b in zip(self.first[:3].tolist(), self.second[:3].tolist(), strict=True))
        return f"pairs {shown} ..."

    @property
    def parameters(self) -> dict[str, Parameter]:
        """What a form says of it; features that do not begin at 0 are said."""
        begin = int(min(self.first.min(), self.second.min()))
        parameters: dict[str, Parameter] = {
            "head_dim": self.head_dim,
            "rotary_dim": 2 * int(self.first.size),
            "layout": self.layout,
        }
        return {**parameters, "first_feature": begin} if begin else parameters


def features_of(left: Places, right: Places, shape: tuple[int, ...], head_dim: int) -> tuple[Places, Places]:
    """Return the features that elements of a tensor are, given which ones are paired.

    Args:
        left: places in the flattened tensor, one a pair.
        right: the elements that they are paired with.
        shape: the tensor's shape.
        head_dim: the features of a head, where heads lie side by side.
    """
    places, paired = np.unravel_index(left, shape), np.unravel_index(right, shape)
    # the axis of features is where the two of a pair differ
    varying = [axis for axis in range(len(shape)) if np.any(places[axis] != paired[axis])]
    if not varying:
        return left, right
    # features split over several axes, as (..., head_dim / 2, 2), are counted through all of them
    begin = min(varying)
    end = max(varying) + 1
    while end < len(shape) and math.prod(shape[begin:end]) < head_dim:
        end += 1
    while begin > 0 and math.prod(shape[begin:end]) < head_dim:
        begin -= 1
    sizes = shape[begin:end]
    flat = [np.ravel_multi_index([place[axis] for axis in range(begin, end)], sizes) for place in (places, paired)]
    width = math.prod(sizes)
    heads = head_dim if head_dim and width % head_dim == 0 else width
    return flat[0] % heads, flat[1] % heads
