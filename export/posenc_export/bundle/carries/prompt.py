"""Prompts with images and videos in them: ids, masks and grids that fit each other, each on a port of its own."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from posenc.grid_rule import GridRule
from posenc.ports import Array, Port, Prompt
from posenc_export.bundle.carries import PlannedCall, PortKind, Random, Shape

FAULTS, ROOM = 3, 24
"""How grids may not fit their places, and how many tokens such a call has."""
ARRAYS = {
    "ids": "input_ids",
    "mask": "attention_mask",
    "deltas": "past_rope_deltas",
    "images": "image_grid_thw",
    "videos": "video_grid_thw",
    "seconds": "second_per_grid_ts",
}
"""The parts of a prompt, as `posenc_models.vision` calls them."""


def _feed(carries: Prompt, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return a part of a prompt at random, which is the same for all of its parts; or of one that must be refused."""
    from posenc_models.vision import Sizes, random_prompts, with_fault

    # the generator has given numbers to other ports, and its seed is that of the call
    again = np.random.default_rng(rng.bit_generator.seed_seq.entropy)  # type: ignore[attr-defined]
    videos = 0 if carries.videos is None else call.sizes[carries.videos]
    batch, seq, images, past = (call.sizes[name] for name in (carries.batch, carries.seq, carries.images, carries.past))
    sizes = Sizes(batch, seq, images, videos, past)
    rule = rule_of_prompt(carries)
    prompts = random_prompts(rule, sizes, again)
    part: Array = getattr(with_fault(prompts, rule, call.first) if call.refused else prompts, ARRAYS[carries.part])
    return part


def rule_of_prompt(carries: Prompt) -> GridRule:
    """Return what prompts follow of the rule that counts their positions."""
    known = {field.name for field in fields(GridRule)}
    return GridRule(**{field.name: getattr(carries, field.name) for field in fields(carries) if field.name in known})


def _refused(carries: Prompt) -> list[tuple[int, int]]:
    return [(fault, ROOM) for fault in range(FAULTS)] if carries.part == "ids" else []


KIND = PortKind(
    Prompt,
    {
        "part": "PromptPart",
        **dict.fromkeys(("batch", "seq", "past", "images"), "Name"),
        "videos": "NoName?",
        "image": "Whole",
        **dict.fromkeys(("video", "video_start", "video_end", "start", "end_id"), "NoWhole"),
        **dict.fromkeys(("merge", "time_merge"), "Natural"),
        "by_frame": "Flag",
    },
    feed=_feed,
    refused=_refused,
    looked_up=True,
)
