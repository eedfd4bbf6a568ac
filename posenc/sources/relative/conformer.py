"""Modules of the distances between a Conformer's frames: of a whole call, or of a chunk and its context."""

from typing import Final

from torch import Tensor, nn

from posenc.arithmetic import larger
from posenc.encoding import RowSource
from posenc.sources.relative.encode import RelativeRows, relative_shift, with_zeros
from posenc.spec import Spec


class Both(RelativeRows):
    """Distances from the last frame back to the first, and from the first on to the last."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: (batch, seq, d_model) -> (1, 2 seq - 1, d_model)."""
        seq = x.shape[1]
        return self.down_from(seq - 1, larger(2 * seq - 1, 0), seq)


class Descending(RelativeRows):
    """Distances from the last frame back to the first."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: (batch, seq, d_model) -> (1, seq, d_model)."""
        seq = x.shape[1]
        return self.down_from(seq - 1, seq, seq)


class DescendingRows(RelativeRows):
    """The first rows of a table that descends from the farthest distance that it has."""

    stored: Final[int]

    def __init__(self, source: RowSource, spec: Spec, width: int, *, stored: int) -> None:
        super().__init__(source, spec, width, interleaved=True)
        self.stored = stored

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows: (batch, seq, d_model) -> (1, seq, d_model)."""
        # As in ESPnet, a call longer than the table makes the table longer.
        held = larger(x.shape[1], self.stored)
        return self.down_from(held - 1, x.shape[1], held)


class Chunk(RelativeRows):
    """The distances within a chunk and its context, which are the same for every chunk."""

    past: Final[int]
    future: Final[int]

    def __init__(self, source: RowSource, spec: Spec, width: int, *, past: int, future: int) -> None:
        super().__init__(source, spec, width, interleaved=False)
        self.past = past
        self.future = future

    def forward(self) -> Tensor:
        """Return the rows: (1, past + 1 + future, d_model)."""
        return self.down_from(self.past, self.past + 1 + self.future, max(self.past, self.future) + 1)


class BothShift(nn.Module):
    """Scores by distance, from seq_k - 1 down to 1 - seq, to scores by key."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return scores by key: (batch, heads, seq, seq + seq_k - 1) -> (batch, heads, seq, seq_k)."""
        seq, columns = scores.shape[2], scores.shape[3]
        seq_k = columns - seq + 1
        return relative_shift(with_zeros(scores), seq - 1, larger(columns, seq_k))[:, :, :, :seq_k]


class ChunkShift(nn.Module):
    """Scores by distance to scores by key, of chunks that see keys before and after themselves."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return scores by key: (batch, heads, chunks, chunk, past + 1 + future) -> (..., past + chunk + future)."""
        batch, heads, chunks, chunk, columns = scores.shape
        context = columns + chunk - 1
        # A padded row is one longer than the keys. In rows as long as the keys, each row begins a column later:
        # (batch, heads, chunks, chunk * (context + 1)) -> (batch, heads, chunks, chunk, context)
        flat = nn.functional.pad(scores, [0, chunk]).flatten(3)[:, :, :, : chunk * context]
        return flat.reshape(batch, heads, chunks, chunk, context)
