"""How a model counts the positions of a prompt with images and videos in it: numbers alone, as M-RoPE takes them.

Source: Qwen2-VL, arXiv:2409.12191, section 2.1; what models do otherwise is a field.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GridRule:
    """How positions in time, in height and in width are counted over text, images and videos.

    A token of text has one position three times. The places of an image begin at the position behind the text before
    it, and count its rows and its columns from there; the text behind it goes on behind the longer side.

    Args:
        image: The id that stands in each place of an image.
        video: The id that stands in each place of a video; None where videos have no id of their own.
        video_start: The id behind which places of images are those of a video; None where they never are.
        video_end: The id with which such a video ends.
        merge: How many rows of patches share a row of places, and columns a column.
        time_merge: How many time steps of a video share one.
        by_frame: Whether each time step of a video is a picture of its own, with text between.
        per_second: How many positions a second of a video takes; None where each time step takes one.
        seconds_first: Whether a time step is multiplied by its seconds, then by `per_second`: this says how float32
            rounds. Otherwise the product of the two is taken first.
        image_step: How many positions a time step of an image takes.
        behind_time: Whether text goes on behind the latest position in time, too, where that is beyond both sides.
        padding: The position of padding.
        start: The id that stands before a picture; no position depends on it. None where none does.
        end_id: The id that stands behind it.
    """

    image: int
    video: int | None = None
    video_start: int | None = None
    video_end: int | None = None
    merge: int = 1
    time_merge: int = 1
    by_frame: bool = False
    per_second: int | None = None
    seconds_first: bool = False
    image_step: int = 1
    behind_time: bool = False
    padding: int = 0
    start: int | None = None
    end_id: int | None = None

    @property
    def has_videos(self) -> bool:
        """Whether videos go in."""
        return self.video is not None or self.video_start is not None

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids that are no text."""
        named = (self.image, self.video, self.video_start, self.video_end, self.start, self.end_id)
        return tuple(token for token in named if token is not None)

    @property
    def takes_seconds(self) -> bool:
        """Whether the seconds between time steps of videos go in."""
        return self.per_second is not None
