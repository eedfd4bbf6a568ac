"""What the export of a whole model takes: memory and room on the disk, checked before the work begins."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from posenc.memory import free_memory
from posenc_export.common.errors import BadInput
from posenc_models import ModelFolder

GB = 10**9
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
"""Bytes of a weight."""
WORTH_SAYING = GB
"""Bytes of weights from which on a line says what the export takes."""
OVERHEAD = 3 * GB // 2
"""Bytes of libraries and of the numbers of calls, measured with half a billion parameters and 150,000 words."""
SLOWEST_DISK = 10**7
"""Bytes a second that are read of weights at least: so much longer than other work a model may take to load."""
MANY = 10**9
"""Parameters above which a proof is quick, unless somebody asks for a full one."""


@dataclass(frozen=True)
class Needs:
    """What an export takes, in bytes.

    Args:
        weights: the file that is written.
        memory: at the peak.
    """

    weights: int
    memory: int

    def __str__(self) -> str:
        return f"{self.weights / GB:.1f} GB of weights; needs {self.memory / GB:.0f} GB of memory"


def needs_of(folder: ModelFolder, is_copied: bool = True) -> Needs:
    """Return what the export of a model takes, with copies in float64 and in float32 or without."""
    weights = BYTES[folder.dtype] * folder.parameters
    if not is_copied:
        return Needs(weights, weights + OVERHEAD)
    # the module, its file or a runtime that holds it by turns; of half or quantized ones float32, for its tokens
    held = OVERHEAD + weights * 5 // 4 + (0 if folder.precision == "fp32" else BYTES["fp32"] * folder.parameters)
    # of the weights of linear layers and embeddings some rows at a time are widened, of experts all of a layer
    wide = folder.contents.largest_experts if folder.by_weight else folder.parameters
    return Needs(weights, held + 8 * wide)


def check_disk(folder: ModelFolder, to: Path) -> None:
    """Raise BadInput, in one line, where the disk of a place has no room for the file of a model."""
    weights = needs_of(folder).weights
    beside = sum(path.stat().st_size for path in folder.contents.companions.values())
    place = next(place for place in to.resolve().parents if place.exists())
    free = shutil.disk_usage(place).free
    if weights + beside > free:
        more = f" and {beside / GB:.1f} GB beside them" * (beside >= GB // 10)
        raise BadInput(
            f"{folder.path}: {weights / GB:.1f} GB of weights{more}, and {free / GB:.1f} GB are free in {place}"
        )


def fit_memory(folder: ModelFolder, say: Callable[[str], None], is_copied: bool = True) -> ModelFolder:
    """Return the model, of which weights will be widened one by one if it is large, or memory does not hold a copy.

    A copy in float64 would take twice the memory of the model in float32, and made a quick proof of half a billion
    parameters no faster. Call it once, before anything is loaded. Raises BadInput, in one line, where memory does not
    suffice.

    Args:
        folder: The model.
        say: Takes a line for the user on what a large model takes.
        is_copied: Whether copies in float64 and in float32 are made; a proof of one call needs none.
    """
    needs, free = needs_of(folder, is_copied), free_memory()
    if needs.weights >= WORTH_SAYING or needs.memory > free:
        folder = replace(folder, by_weight=is_copied)
        needs = needs_of(folder, is_copied)
    if needs.memory > free:
        raise BadInput(f"{folder.path}: {needs}, and {free / GB:.1f} GB are free")
    if needs.weights >= WORTH_SAYING:
        say(str(needs))
    return folder
