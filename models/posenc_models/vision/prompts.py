"""Prompts at random, with images and videos in them: what a rule of positions is asked, and a graph is tried with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from posenc.grid_rule import GridRule
from posenc.ports import Array, Integers
from posenc_models.vision.reference import IMAGE, VIDEO

IDS = 1000
"""Ids of text are below this, where the rule's own are not."""
SIDE, STEPS = 4, 3
"""Rows, columns and time steps of a picture, at most."""
SECONDS = (0.25, 0.5, 0.73, 1.0, 1.7, 2.0)
"""Seconds between time steps of videos: some are whole numbers of positions, others not."""


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts.

    Args:
        input_ids: (batch, seq).
        attention_mask: (batch, past + seq) of 1 and 0.
        image_grid_thw: (images, 3); what had no room has a row of zeros, behind the others.
        video_grid_thw: (videos, 3), likewise.
        second_per_grid_ts: float32 (videos,).
        past_rope_deltas: (batch, 1).
    """

    input_ids: Integers
    attention_mask: Integers
    image_grid_thw: Integers
    video_grid_thw: Integers
    second_per_grid_ts: Array
    past_rope_deltas: Integers


@dataclass(frozen=True)
class Sizes:
    """How large a batch of prompts is: texts, tokens of each, those before them, images and videos."""

    batch: int
    seq: int
    images: int
    videos: int
    past: int = 0


def random_prompts(rule: GridRule, sizes: Sizes, rng: np.random.Generator) -> Prompts:
    """Return prompts at random: texts of unlike lengths, with padding on the left, on the right, amid them or nowhere.

    Every token of a text may be one of a picture; between two pictures, and two frames of a video, there is text.
    """
    mask = _mask(sizes, rng)
    ids = rng.integers(0, IDS, (sizes.batch, sizes.seq))
    special = rule.ids
    ids[np.isin(ids, special)] = next(token for token in range(IDS) if token not in special)
    album = _Album(rule, {IMAGE: sizes.images, VIDEO: sizes.videos if rule.has_videos else 0}, rng)
    for row, seen in zip(ids, mask[:, sizes.past :].astype(bool), strict=True):
        tokens = row[seen]
        for place, token in album.placed(len(tokens)):
            tokens[place] = token
        row[seen] = tokens
    return Prompts(
        ids,
        mask,
        album.grids(IMAGE, sizes.images),
        album.grids(VIDEO, sizes.videos),
        rng.choice(np.array(SECONDS, np.float32), sizes.videos),
        rng.integers(-20, 5, (sizes.batch, 1)) if sizes.past else np.zeros((sizes.batch, 1), np.int64),
    )


def with_fault(prompts: Prompts, rule: GridRule, fault: int) -> Prompts:
    """Return prompts whose grids do not fit: 0 an image without a grid, 1 grids without places, 2 a row too many.

    Of prompts without an image all tokens become places of one, for which there is no grid.
    """
    ids, grids = prompts.input_ids.copy(), prompts.image_grid_thw.copy()
    (given,) = np.nonzero(grids.any(1))
    if not given.size:
        ids[:] = rule.image
    elif fault == 0:
        grids[given[-1]] = 0
    elif fault == 1:
        ids[ids == rule.image] = next(token for token in range(IDS) if token not in rule.ids)
    else:
        grids[given[0], 1] += rule.merge
    return replace(prompts, input_ids=ids, image_grid_thw=grids)


def _mask(sizes: Sizes, rng: np.random.Generator) -> Integers:
    """Return which tokens are none of padding, (batch, past + seq): each text has one of this call at least."""
    total = sizes.past + sizes.seq
    mask = np.ones((sizes.batch, total), np.int64)
    way = rng.integers(0, 4)
    for row, count in enumerate(rng.integers(0, sizes.seq, sizes.batch)):
        if row == 0 or way == 0:
            continue
        if way == 1:
            mask[row, :count] = 0
        elif way == 2:
            mask[row, total - count :] = 0
        else:
            mask[row, sizes.past + rng.permutation(sizes.seq)[:count]] = 0
    return mask


@dataclass
class _Album:
    """Pictures that are put into texts, as long as there are some left.

    Args:
        rule: Which ids they have.
        left: How many of each kind.
        rng: For their sizes and places.
        taken: The grids of each kind that have a place.
    """

    rule: GridRule
    left: dict[int, int]
    rng: np.random.Generator
    taken: dict[int, list[Integers]] = field(default_factory=lambda: {IMAGE: [], VIDEO: []})

    def placed(self, length: int) -> Iterator[tuple[int, int]]:
        """Yield places of a text, and the ids that stand there."""
        place = int(self.rng.integers(0, 3))
        while kinds := [kind for kind, count in self.left.items() if count]:
            kind = int(self.rng.choice(kinds))
            grid = self._grid(kind, length - place)
            if grid is None:
                return
            self.left[kind] -= 1
            self.taken[kind].append(grid)
            tokens = self._tokens(kind, grid)
            yield from ((place + n, token) for n, token in enumerate(tokens) if token is not None)
            place += len(tokens) + 1 + int(self.rng.integers(0, 4))

    def grids(self, kind: int, count: int) -> Integers:
        """Return the grids of a kind, and rows of zeros behind them: (count, 3)."""
        rows = np.zeros((count, 3), np.int64)
        rows[: len(self.taken[kind])] = np.array(self.taken[kind], np.int64).reshape(-1, 3)
        return rows

    def _grid(self, kind: int, room: int) -> Integers | None:
        """Return time steps, rows and columns of patches of a picture that fits, or None where none was found."""
        merge, time_merge = self.rule.merge, self.rule.time_merge if kind == VIDEO else 1
        for _ in range(8):
            steps = int(self.rng.integers(1, STEPS + 1)) if kind == VIDEO else 1
            sides = self.rng.integers(1, SIDE + 1, 2)
            grid = np.array([steps * time_merge, *(sides * merge)])
            if len(self._tokens(kind, grid)) <= room:
                return grid
        return None

    def _tokens(self, kind: int, grid: Integers) -> list[int | None]:
        """Return the ids of a picture and around it, and None for the text amid it."""
        rule = self.rule
        merges = [rule.time_merge if kind == VIDEO else 1, rule.merge, rule.merge]
        steps, rows, columns = (int(n) for n in grid // merges)
        edges = [[] if edge is None else [edge] for edge in (rule.start, rule.end_id)]
        if kind == IMAGE or not rule.by_frame:
            id_ = rule.image if kind == IMAGE else rule.video
            return [*edges[0], *[id_] * (steps * rows * columns), *edges[1]]
        id_ = rule.image if rule.video_start is not None else rule.video
        frame = [*edges[0], *[id_] * (rows * columns), *edges[1]]
        frames: list[int | None] = [*frame, *(token for _ in range(steps - 1) for token in (None, *frame))]
        return frames if rule.video_start is None else [rule.video_start, *frames, rule.video_end]
