"""Positions of a prompt with images and videos in it, as one graph: cumulative sums and look-ups, without a loop."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.grid_rule import GridRule
from posenc.lookup import at_least, zero_or_refusal

BEYOND = 2**31
"""Time steps of the grid behind the last one, in which all places lie that no grid has."""


GRIDS_MISFIT = (
    "grids do not fit input_ids: expected a grid for each row of places of an image or a video, in the order of the "
    "batch, with as many places"
)
"""What is said of grids in eager mode; a graph's runtime says that a row is not there."""


class _PlaceShifts(NamedTuple):
    """What the places of images, or of videos, do to positions; (batch, seq), 0 where there is none.

    Attributes:
        here: 1 at each place.
        shifts: Time, height and width of each place, counted from where its block begins: (3, batch, seq). A block is
            an image, a video, or a frame of one.
        added: What a block adds to the positions behind it, at its last place.
        first: 1 at the first place of a block.
        amiss: 0 where all places lie in grids, and all grids have places, (1,).
    """

    here: Tensor
    shifts: Tensor
    added: Tensor
    first: Tensor
    amiss: Tensor

    def beside(self, other: _PlaceShifts) -> _PlaceShifts:
        """Return both, where no place belongs to both."""
        return _PlaceShifts(
            self.here + other.here,
            self.shifts + other.shifts,
            self.added + other.added,
            self.first + other.first,
            self.amiss + other.amiss,
        )


class GridPositions(nn.Module):
    """Positions in time, height and width of text, images and videos (M-RoPE, arXiv:2409.12191).

    The numbers of the places of all images, in the order of the batch, lie in the cumulative sizes of their grids, and
    so tell the grid, the time step, the row and the column of each. What a token adds to the positions behind it is 1
    for text, the longer side for the last place of a picture, and 0 for its other places: summed up before each token,
    that is where a text or a picture begins.

    Args:
        rule: How the model counts.
    """

    none: Tensor  # (1, 1): a zero, whose second row is looked up where grids and places do not fit
    beyond: Tensor  # (1, 3): the grid behind the last one

    def __init__(self, rule: GridRule) -> None:
        super().__init__()
        self.rule = rule
        self.register_buffer("none", torch.zeros(1, 1, dtype=torch.int64), persistent=False)
        self.register_buffer("beyond", torch.tensor([[BEYOND, rule.merge, rule.merge]]), persistent=False)

    def forward(  # noqa: PLR0917  (exporters call it by position)
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        past_rope_deltas: Tensor,
        image_grid_thw: Tensor,
        video_grid_thw: Tensor | None = None,
        second_per_grid_ts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return positions (3, batch, seq) and rope_deltas (batch, 1), int64, as `grid_positions` does.

        Args:
            input_ids: (batch, seq).
            attention_mask: (batch, past + seq) of 1 and 0.
            past_rope_deltas: (batch, 1), zeros at the beginning.
            image_grid_thw: (images, 3); rows of zeros are no images.
            video_grid_thw: (videos, 3); None for rules without videos.
            second_per_grid_ts: float32 (videos,), where the rule counts seconds.

        Grids that do not fit the places look up a row that is not there: an IndexError that says so, and in a graph the
        runtime's refusal.
        """
        seen = (attention_mask != 0).long()
        valid = seen[:, seen.shape[1] - input_ids.shape[1] :]
        total = seen.sum(1, keepdim=True)
        start = total - valid.sum(1, keepdim=True) + past_rope_deltas
        image, video = self._kinds(input_ids, valid)
        pictures = self._images(image, image_grid_thw)
        if video_grid_thw is not None:
            pictures = pictures.beside(self._videos(video, video_grid_thw, second_per_grid_ts))
        # a row of places is one block: it begins where another kind of token stands before
        in_pieces = (pictures.here * (pictures.first != _begins(image + 2 * video, valid))).sum()
        step = valid - pictures.here + pictures.added
        begin = step.cumsum(1) - step + start
        positions = begin + pictures.shifts + zero_or_refusal(self.none, pictures.amiss + in_pieces, GRIDS_MISFIT)
        counts = valid.unsqueeze(0) != 0
        reached = torch.where(counts, positions + 1, start).amax(dim=(0, 2)).unsqueeze(1)
        return torch.where(counts, positions, self.rule.padding), reached - total

    def _kinds(self, ids: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for the places of images, and for those of videos: (batch, seq) each."""
        rule = self.rule
        image = ids.eq(rule.image).long() * valid
        video = torch.zeros_like(image) if rule.video is None else ids.eq(rule.video).long() * valid
        if rule.video_start is not None and rule.video_end is not None:
            begun, ended = ((ids.eq(edge).long() * valid).cumsum(1) for edge in (rule.video_start, rule.video_end))
            frames = image * (begun > ended).long()
            image, video = image - frames, video + frames
        return image, video

    def _images(self, here: Tensor, grids: Tensor) -> _PlaceShifts:
        """Return what images do to positions: (batch, seq) of 1 and 0, (images, 3)."""
        _, steps, rows, columns, place, amiss = self._places(here, grids, 1)
        time = place // (rows * columns) * self.rule.image_step
        return self._blocks(here, (time, rows, columns), place, steps * rows * columns, amiss)

    def _videos(self, here: Tensor, grids: Tensor, seconds: Tensor | None) -> _PlaceShifts:
        """Return what videos do to positions: (batch, seq) of 1 and 0, (videos, 3), (videos,)."""
        which, steps, rows, columns, place, amiss = self._places(here, grids, self.rule.time_merge)
        frame = rows * columns
        if self.rule.by_frame:
            return self._blocks(here, (torch.zeros_like(place), rows, columns), place, frame, amiss)
        time = self._time(place // frame, which, seconds)
        return self._blocks(here, (time, rows, columns), place, steps * frame, amiss)

    def _places(self, here: Tensor, grids: Tensor, time_merge: int) -> tuple[Tensor, ...]:
        """Return the grid of each place, its time steps, rows and columns, its number there, and what is amiss.

        (batch, seq) each, but for the last, (1,).
        """
        merge = self.rule.merge
        # (grids + 1, 3): behind the last grid there is one without an end, so that no list is empty
        given = torch.cat([grids, self.beyond])
        negative = (given < 0).long().sum()
        given = at_least(given, 0)
        sizes = torch.stack([given[:, 0] // time_merge, given[:, 1] // merge, given[:, 2] // merge], 1)
        counts = sizes[:, 0] * sizes[:, 1] * sizes[:, 2]
        ends = counts.cumsum(0)
        begins = ends - counts
        number = at_least(here.flatten().cumsum(0).view_as(here) - 1, 0)
        which = (ends <= number.unsqueeze(-1)).sum(-1)
        # no size is 0, whatever went in: a division by 0 would end the process of a runtime
        steps, rows, columns = at_least(sizes, 1)[which].unbind(-1)
        amiss = (here.sum() != begins[-1:]).long() + negative
        return which, steps, rows, columns, number - begins[which], amiss

    def _time(self, step: Tensor, which: Tensor, seconds: Tensor | None) -> Tensor:
        """Return the positions of time steps of videos, from 0 on; float32 is rounded down, as models do it."""
        rule = self.rule
        if rule.per_second is None or seconds is None:
            return step
        each, wide = torch.cat([seconds, seconds.new_ones(1)])[which], step.to(torch.float32)
        return (wide * each * rule.per_second if rule.seconds_first else wide * (rule.per_second * each)).long()

    def _blocks(
        self, here: Tensor, sizes: tuple[Tensor, Tensor, Tensor], place: Tensor, block: Tensor, amiss: Tensor
    ) -> _PlaceShifts:
        """Return what places do to positions: their time, the rows and columns of their grids, and places a block."""
        time, rows, columns = sizes
        within = place % (rows * columns)
        room = torch.maximum(rows, columns)
        if self.rule.behind_time:
            room = torch.maximum(room, time + 1)
        shifts = here * torch.stack([time, within // columns, within % columns])
        last = ((place + 1) % block == 0).long()
        return _PlaceShifts(here, shifts, here * last * room, here * (place % block == 0).long(), amiss)


def _begins(kind: Tensor, valid: Tensor) -> Tensor:
    """Return 1 where the token before is of another kind: (batch, seq). Padding does not count as a token."""
    # token n of a text has the slot n, from 1 on, and padding the last one, which nobody reads
    number = valid.cumsum(1)
    slots = torch.where(valid != 0, number, kind.shape[1] + 1)
    before = kind.new_zeros(kind.shape[0], kind.shape[1] + 2).scatter(1, slots, kind)
    return (before.gather(1, number - valid) != kind).long()
