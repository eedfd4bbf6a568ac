"""Positions of a model's prompts with images and videos in them, as a graph of its own beside the model."""

from __future__ import annotations

from dataclasses import replace

from posenc.encoding import SAME_BITS, Encoding, Tolerance, no_tables
from posenc.grid_rule import GridRule
from posenc.ports import Array, Axis, Feeds, Integers, Port, Prompt, PromptPart, fixed
from posenc.spec import Spec
from posenc_export.bundle.carries.prompt import ARRAYS
from posenc_export.bundle.rules import PROMPT_POSITIONS
from posenc_export.write.targets import Target
from posenc_models import ModelFolder
from posenc_models.vision import grid_positions
from posenc_models.whole.tasks import POSITIONS_FILE

BATCH, SEQ, PAST = Axis("batch_size", "batch"), Axis("seq", "length"), Axis("past", "length", least=0)
IMAGES, VIDEOS = Axis("images", "batch", least=0), Axis("videos", "batch", least=0)
AXES: dict[PromptPart, tuple[Axis, ...]] = {
    "ids": (BATCH, SEQ),
    "mask": (BATCH, Axis("past+seq", "length", least=0)),
    "deltas": (BATCH, fixed(1)),
    "images": (IMAGES, fixed(3)),
    "videos": (VIDEOS, fixed(3)),
    "seconds": (VIDEOS,),
}
NO_TABLES = no_tables("it takes this package's encodings: positions are counted, and nothing is stored")
REFERENCE = "positions counted one picture after the other, in NumPy"


def prompt_positions(rule: GridRule) -> Encoding:
    """Return positions of prompts, counted by a rule: integers (3, batch, seq), and what text adds to them behind it.

    Source: M-RoPE of Qwen2-VL, arXiv:2409.12191.
    """
    from posenc_models.vision.modules import GridPositions

    parts: list[PromptPart] = ["ids", "mask", "deltas", "images"]
    parts += ["videos"] if rule.has_videos else []
    parts += ["seconds"] if rule.has_videos and rule.takes_seconds else []
    inputs = tuple(
        Port(ARRAYS[part], AXES[part], "float32" if part == "seconds" else "int64", _carried(rule, part))
        for part in parts
    )
    outputs = (
        Port("position_ids", (fixed(3), BATCH, SEQ), "int64"),
        Port("rope_deltas", (BATCH, fixed(1)), "int64"),
    )

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        positions, deltas = grid_positions(rule, **{ARRAYS[part]: feeds[ARRAYS[part]] for part in parts})
        return {"position_ids": positions if at is None else positions[..., at], "rope_deltas": deltas}

    return Encoding(
        PROMPT_POSITIONS,
        GridPositions(rule).eval(),
        inputs,
        outputs,
        reference,
        lambda _: Tolerance(),
        lambda _: SAME_BITS,
        NO_TABLES,
        fresh=lambda: GridPositions(rule).eval(),
    )


def _carried(rule: GridRule, part: PromptPart) -> Prompt:
    """Return what the port of a part carries."""
    return Prompt(
        part=part,
        batch=BATCH.name,
        seq=SEQ.name,
        past=PAST.name,
        images=IMAGES.name,
        videos=VIDEOS.name if rule.has_videos else None,
        image=rule.image,
        video=rule.video,
        video_start=rule.video_start,
        video_end=rule.video_end,
        start=rule.start,
        end_id=rule.end_id,
        merge=rule.merge,
        time_merge=rule.time_merge,
        by_frame=rule.by_frame,
    )


def positions_target(folder: ModelFolder, rule: GridRule, words: str, spec: Spec) -> Target:
    """Return the positions of a model's prompts as a target.

    Args:
        folder: The model's folder.
        rule: How it counts.
        words: What was compared with the model's own code, for the report.
        spec: Its max_len alone counts.
    """
    return Target(
        folder.name,
        prompt_positions(rule),
        replace(spec, mode="dynamic", dtype="fp32"),
        {"task": folder.task.name},
        reference=REFERENCE,
        origin={"config": (folder.path / "config.json").as_posix(), "task": folder.origin},
        notes=(words,),
        file=POSITIONS_FILE,
        config=folder.config,
    )
