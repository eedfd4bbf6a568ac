"""Positions of a prompt with images and videos in it, counted one picture after the other in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from posenc.grid_rule import GridRule
from posenc.ports import Array, Integers

TEXT, IMAGE, VIDEO = range(3)
NAMES = {IMAGE: "image", VIDEO: "video"}


def kinds_of(rule: GridRule, ids: ArrayLike) -> Integers:
    """Return what stands in each place: 0 for text, 1 for an image, 2 for a video; any shape, sequences last.

    >>> kinds_of(GridRule(image=7, video=8), [5, 7, 7, 6, 8])
    array([0, 1, 1, 0, 2])
    """
    tokens = np.asarray(ids, np.int64)
    kinds = np.where(tokens == rule.image, IMAGE, TEXT)
    if rule.video_start is not None:
        begun, ended = (np.cumsum(tokens == edge, -1) for edge in (rule.video_start, rule.video_end))
        kinds = np.where((kinds == IMAGE) & (begun > ended), VIDEO, kinds)
    return np.where(tokens == rule.video, VIDEO, kinds) if rule.video is not None else kinds


def grid_positions(
    rule: GridRule,
    input_ids: ArrayLike,
    *,
    attention_mask: ArrayLike | None = None,
    image_grid_thw: ArrayLike | None = None,
    video_grid_thw: ArrayLike | None = None,
    second_per_grid_ts: ArrayLike | None = None,
    past_rope_deltas: ArrayLike | None = None,
) -> tuple[Integers, Integers]:
    """Return the positions in time, height and width of a prompt with images and videos, and what text adds behind it.

    Source: M-RoPE of Qwen2-VL, arXiv:2409.12191, section 2.1. An image of 2 by 3 places behind four tokens:

        time     0 1 2 3  4 4 4 4 4 4  7 8
        height   0 1 2 3  4 4 4 5 5 5  7 8
        width    0 1 2 3  4 5 6 4 5 6  7 8

    Args:
        rule: How the model counts; `rule_of` asks the model for it.
        input_ids: (batch, seq). Each place of an image or of a video holds the id of one.
        attention_mask: (batch, past + seq) of 1 and 0, over the tokens before this call, too; None for ones.
        image_grid_thw: (images, 3), the time steps, rows and columns of patches of each image, in the order in which
            they stand in the batch. Rows of zeros are no images.
        video_grid_thw: (videos, 3), of each video.
        second_per_grid_ts: (videos,), the seconds between time steps, where the rule counts them; None for one each.
        past_rope_deltas: (batch, 1), what the call before this one returned; None at the beginning.

    Returns:
        positions: int64 (3, batch, seq), `rule.padding` where the mask is 0.
        rope_deltas: int64 (batch, 1): token n of a text that goes on has the position n + rope_deltas.

    Raises ValueError, in one line, where grids and places do not fit: more places than grids, a grid without places, a
    grid of more or fewer places than stand there in a row.
    """
    ids = np.asarray(input_ids, np.int64)
    batch, seq = ids.shape
    mask = np.ones_like(ids) if attention_mask is None else np.asarray(attention_mask)
    valid = mask.astype(bool)
    if mask.shape[0] != batch or mask.shape[1] < seq:
        raise ValueError(f"attention_mask must be ({batch}, {seq} or more), got {mask.shape}")
    deltas = np.zeros((batch, 1), np.int64) if past_rope_deltas is None else np.asarray(past_rope_deltas, np.int64)
    past = valid.shape[1] - seq
    starts = valid[:, :past].sum(1) + deltas[:, 0]
    pictures = {
        IMAGE: _Pictures.read(rule, image_grid_thw, None, IMAGE),
        VIDEO: _Pictures.read(rule, video_grid_thw, second_per_grid_ts, VIDEO),
    }
    positions = np.full((3, batch, seq), rule.padding, np.int64)
    reached = np.zeros((batch, 1), np.int64)
    for row, (row_ids, seen, start) in enumerate(zip(ids, valid[:, past:], starts, strict=True)):
        counted = _row(rule, kinds_of(rule, row_ids[seen]), pictures, int(start), row)
        positions[:, row, seen] = counted
        reached[row] = max(int(start), int(counted.max(initial=int(start) - 1)) + 1)
    for kind, some in pictures.items():
        left = sum(1 for _ in some.blocks)
        if left:
            raise ValueError(
                f"{NAMES[kind]}_grid_thw has {left} more {NAMES[kind]}{'s' * (left > 1)} than places for them in "
                "input_ids: give a grid for each, in the order of the batch"
            )
    return positions, reached - valid.sum(1, keepdims=True)


@dataclass(frozen=True)
class _Block:
    """Places in a row that are counted together: an image, a video, or a frame of one.

    Args:
        steps: The positions of its time steps, from 0 on.
        rows: Rows of places.
        columns: Columns of places.
    """

    steps: Integers
    rows: int
    columns: int

    @property
    def positions(self) -> Integers:
        """Time, height and width of each place, from 0 on: (3, places)."""
        time, row, column = np.indices((len(self.steps), self.rows, self.columns)).reshape(3, -1)
        return np.stack([self.steps[time], row, column])


@dataclass(frozen=True)
class _Pictures:
    """The images, or the videos, that are still to come."""

    kind: int
    blocks: Iterator[_Block]

    @classmethod
    def read(cls, rule: GridRule, grids: ArrayLike | None, seconds: ArrayLike | None, kind: int) -> _Pictures:
        """Read grids of a kind, and the seconds of each; raise ValueError where these are no such arrays."""
        rows = np.zeros((0, 3), np.int64) if grids is None else np.asarray(grids, np.int64)
        if rows.ndim != 2 or rows.shape[1] != 3 or (rows < 0).any():
            raise ValueError(
                f"{NAMES[kind]}_grid_thw must be ({NAMES[kind]}s, 3): time steps, rows and columns of patches, got "
                f"{rows.tolist() if rows.size < 16 else rows.shape}"
            )
        each = np.ones(len(rows), np.float32) if seconds is None else np.asarray(seconds, np.float32)
        if each.shape != (len(rows),):
            raise ValueError(f"second_per_grid_ts must be ({len(rows)},), one for each video, got {each.shape}")
        return cls(kind, _blocks(rule, rows, each, kind))


def _blocks(rule: GridRule, grids: Integers, seconds: Array, kind: int) -> Iterator[_Block]:
    """Yield what stands in a row of each grid that is not empty."""
    for (time, height, width), second in zip(grids.tolist(), seconds, strict=True):
        steps = time // (rule.time_merge if kind == VIDEO else 1)
        rows, columns = height // rule.merge, width // rule.merge
        if not steps * rows * columns:
            continue
        if kind == VIDEO and rule.by_frame:
            yield from [_Block(np.zeros(1, np.int64), rows, columns)] * steps
        else:
            yield _Block(_times(rule, steps, second, kind), rows, columns)


def _times(rule: GridRule, steps: int, seconds: np.float32, kind: int) -> Integers:
    """Return the positions of time steps, from 0 on; those of seconds are rounded down, in float32 as models do it."""
    if kind == IMAGE:
        return np.arange(steps) * rule.image_step
    if rule.per_second is None:
        return np.arange(steps)
    step, per_second = np.arange(steps, dtype=np.float32), np.float32(rule.per_second)
    times = step * seconds * per_second if rule.seconds_first else step * (per_second * seconds)
    return times.astype(np.int64)


def _row(rule: GridRule, kinds: Integers, pictures: dict[int, _Pictures], start: int, row: int) -> Integers:
    """Return the positions of a text without its padding: (3, tokens)."""
    parts = [np.zeros((3, 0), np.int64)]
    position = start
    for kind, run in groupby(kinds.tolist()):
        count = len(list(run))
        if kind == TEXT:
            parts.append(np.tile(np.arange(count) + position, (3, 1)))
            position += count
            continue
        block = next(pictures[kind].blocks, None)
        places = 0 if block is None else block.positions.shape[1]
        if block is None or places != count:
            has = f"{count} place{'s' * (count > 1)} of {_article(kind)} in a row"
            grid = f"the next grid has {places}" if places else "no grid is left for them"
            raise ValueError(
                f"text {row} of the batch has {has}, and {grid}: expected a grid for each row of places, with rows and "
                f"columns that, divided by {rule.merge} each, multiply to as many"
            )
        parts.append(block.positions + position)
        position += _room(rule, block)
    return np.concatenate(parts, 1)


def _room(rule: GridRule, block: _Block) -> int:
    """Return how many positions behind its first one the text behind a picture begins."""
    sides: Sequence[int] = (block.rows, block.columns)
    return max((*sides, int(block.steps[-1]) + 1)) if rule.behind_time else max(sides)


def _article(kind: int) -> str:
    return "an image" if kind == IMAGE else "a video"
