"""Whether a module of ours gives the cosines and sines that a model's own gives, at calls of several lengths."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import eps
from posenc_models.replacing.modules import CosSin

CosSinFunction = Callable[[Tensor], CosSin]
"""Positions to cosines and sines."""
LENGTHS = (7, 33, 4096)
"""Calls that a module is compared at, beside those around the length at which it switches."""
PROBES = 64
"""Positions of a call that are compared, from the first to the last."""
ROUNDINGS = 4
"""The error that float32 angles may have, in roundings of the largest angle."""


class Candidate(NamedTuple):
    """A module that may stand in for a model's own, and its cosines and sines at positions."""

    module: nn.Module
    cos_sin: CosSinFunction


class AngleDifference(NamedTuple):
    """By how much cosines and sines differ: as a multiple of the allowed error, and in words."""

    excess: float
    words: str


def calls(end: int, switch: int | None = None, context: int | None = None) -> list[Tensor]:
    """Return the positions of calls of several lengths, all below `end`: (1, n) each.

    Some lie around a switch, and the longest has as many as a model's context.
    """
    around = (switch - 1, switch, switch + 1, 2 * switch + 3) if switch else ()
    lengths = {*LENGTHS, *around, *((context,) if context else ())}
    spread = [np.geomspace(1, n, PROBES).astype(np.int64) - 1 for n in sorted({min(n, end) for n in lengths})]
    return [torch.from_numpy(np.unique(positions)).unsqueeze(0) for positions in spread]


def fitting(original: CosSinFunction, candidates: Sequence[Candidate], positions: Sequence[Tensor]) -> nn.Module:
    """Return the first candidate with the cosines and sines of the original.

    Args:
        original: the model's own function.
        candidates: our modules.
        positions: the positions of each call.

    Raises ValueError, in one line, with the least difference if no candidate has them, and where the original gives
    no cosines and sines.
    """
    with torch.no_grad():
        references = [_reference(original, at) for at in positions]
        differences = [_difference(references, candidate.cos_sin, positions) for candidate in candidates]
    fits = [i for i, difference in enumerate(differences) if difference.excess <= 1]
    nearest = fits[0] if fits else min(range(len(candidates)), key=lambda i: differences[i].excess)
    if not fits:
        advice = "load the model in float32 and cast it after this, or replace it by hand"
        words = differences[nearest].words
        raise ValueError(f"its cosines and sines differ from those of its config by {words}; {advice}")
    return candidates[nearest].module


def _reference(original: CosSinFunction, positions: Tensor) -> CosSin:
    """Return the cosines and sines that the original gives; raise ValueError where it gives something else."""
    try:
        cos, sin = original(positions)
        return cos.to(torch.float64), sin.to(torch.float64)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"asked for cos and sin it raised {type(error).__name__}: {first}; replace it by hand"
        ) from None


def _difference(references: Sequence[CosSin], ours: CosSinFunction, positions: Sequence[Tensor]) -> AngleDifference:
    """Return the worst difference over all calls."""
    pairs = zip(references, positions, strict=True)
    differences = [_difference_of_call(reference, ours(at), int(at.max())) for reference, at in pairs]
    return max(differences, key=lambda difference: difference.excess)


def _difference_of_call(reference: CosSin, ours: CosSin, last: int) -> AngleDifference:
    """Return by how much cosines and sines of positions up to `last` differ; infinitely where their shapes do."""
    if [x.shape for x in reference] != [x.shape for x in ours]:
        return AngleDifference(np.inf, f"their shape, {tuple(reference[0].shape)} and not {tuple(ours[0].shape)}")
    off = max(float((a - b).abs().max()) for a, b in zip(reference, ours, strict=True))
    # an angle is up to position * 1 radians, cos and sin up to the attention factor
    budget = ROUNDINGS * eps("float32") * max(last, 1) * max(1.0, float(ours[0].abs().max()))
    words = f"{off:.2g} at positions up to {last}, where {budget:.2g} is allowed"
    return AngleDifference(off / budget if np.isfinite(off) else np.inf, words)
