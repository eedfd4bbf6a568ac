"""Towers of sounds whose rows attend within windows: a mask keeps these apart, where transformers splits by lists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posenc.libraries import replaced, replaced_in_files
from posenc_models.vision.towers.frames import places_present
from posenc_models.vision.towers.segments import Segments
from posenc_models.vision.towers.whole_rows import rows_together

WINDOWS, LONGEST, ROWS = "get_audio_cu_seqlens", "get_max_seqlen", "_get_feat_extract_output_lengths"
"""Functions of transformers: where windows end, which is the longest, and how many rows so many frames make."""

HALVED = 3
"""How often a tower halves the frames of a chunk."""


@contextmanager
def sounds_in_windows(model: nn.Module) -> Iterator[None]:
    """Have the rows of all sounds stay together while a tower is called that asks for the ends of windows."""
    files = [sys.modules[type(part).__module__] for part in model.modules()]
    file = next((file for file in files if hasattr(file, WINDOWS) and hasattr(file, ROWS)), None)
    if file is None:
        yield
        return
    windows = _Windows(getattr(file, ROWS))
    functions: dict[str, Callable[..., Any]] = {WINDOWS: windows.parts, LONGEST: lambda *_, **__: None}
    with (
        replaced_in_files(model, functions),
        replaced(torch.Tensor, "nonzero", lambda _: windows.present()),
        rows_together(),
    ):
        yield


class _Windows:
    """Which rows of chunks are there, and the windows in which they attend: both by the same look-ups.

    Args:
        rows_of: Returns how many rows so many frames of a chunk make.
    """

    def __init__(self, rows_of: Callable[[Tensor, int], Tensor]) -> None:
        self.rows_of = rows_of
        self.index: Tensor | None = None

    def parts(
        self, chunk_lengths: Tensor, feature_lens: Tensor, n_window_infer: int, n_window: int, **__: Any
    ) -> Segments:
        """Return the windows in which rows attend, as parts of the rows of all sounds."""
        steps = 2 * n_window
        for _ in range(HALVED):
            steps = (steps - 1) // 2 + 1
        counts = self.rows_of(chunk_lengths, n_window)
        chunk, place = places_present(counts, steps)
        self.index = (chunk * steps + place).unsqueeze(-1)
        ends = counts.reshape(feature_lens.shape[0], -1).sum(1).cumsum(0)
        number = torch.arange(chunk.shape[0], device=chunk.device)
        sound = (ends <= number.unsqueeze(-1)).sum(-1)
        begin = torch.cat([ends.new_zeros(1), ends])[sound]
        window = steps * (n_window_infer // (2 * n_window))
        return Segments(begin + (number - begin) // window * window, ends)

    def present(self) -> Tensor:
        """Return the rows that are there, (rows, 1), among those of all chunks."""
        assert self.index is not None
        return self.index
