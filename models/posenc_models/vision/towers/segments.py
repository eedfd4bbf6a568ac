"""In the place of lists of sizes: rows of all images stay together, and a mask keeps apart what does not attend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


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
