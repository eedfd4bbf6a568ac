"""How far a graph may be from eager in a call with hard rows: measured for each sequence, since their scales differ.

Only what eager answers with finite numbers is held, and only where these are its answer and not an accident of
rounding: a library that rounds otherwise, flushes subnormal numbers to zero, or computes half precision in float32 is
right as well. So an element may be as far off as those move eager itself; where one of them is not finite, it is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.encoding import Encoding, Tolerance, eps
from posenc.ports import Array, Floats, Port
from posenc_export.bundle.case import GoldenCase
from posenc_export.common.arrays import FLOATS
from posenc_export.proof.judging.compare import scale_of
from posenc_export.proof.recording.choices import Function, is_float
from posenc_export.proof.recording.nudges import Nudges, rounds
from posenc_export.proof.recording.rounding import DRAWS, rows_under

EPS_OF_SCALE, MOVES = 16, 2
"""As in `own_module`: 16 eps of the scale of a sequence, and twice as far as its outputs move."""


class Flushed(TorchDispatchMode):
    """Take subnormal numbers for zero, in the arguments and the results of what computes, as many runtimes do."""

    def __init__(self) -> None:
        """Take nothing."""
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Function, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run an operator."""
        if not rounds(func):
            return func(*args, **(kwargs or {}))
        taken, options = pytree.tree_map(_flushed, (tuple(args), kwargs or {}))
        return pytree.tree_map(_flushed, func(*taken, **options))


def _flushed(leaf: object) -> object:
    if not is_float(leaf):
        return leaf
    assert isinstance(leaf, torch.Tensor)
    return torch.where(leaf.abs() < torch.finfo(leaf.dtype).smallest_normal, torch.zeros_like(leaf), leaf)


def hard_case(encoding: Encoding, golden: GoldenCase, seed: int, rounding: Encoding | None = None) -> GoldenCase:
    """Return a call with hard rows, with how far each element of its outputs may be off; without a reference.

    Args:
        encoding: The user's module.
        golden: The call.
        seed: For the inputs, and the first of those for the directions of all moves.
        rounding: The same module where products round what goes in, if the file's do.
    """
    run = partial(rows_under, encoding, golden, seed)
    runs = [*(run(Nudges(draw)) for draw in range(seed, seed + DRAWS)), run(Flushed())]
    if rounding is not None:
        runs.append(rows_under(rounding, golden, seed, nullcontext()))
    if golden.reference:
        runs.append(dict(golden.reference))
    case = replace(golden.case, eager_tolerance=Tolerance(), tolerance=Tolerance())
    return with_room_for(replace(golden, case=case, reference={}), encoding.outputs, runs)


def with_room_for(golden: GoldenCase, outputs: Sequence[Port], runs: Sequence[Mapping[str, Array]]) -> GoldenCase:
    """Return a call with hard rows with as much room as outputs move between runs, beside the room that it has."""
    allowed = {port.name: _allowed(port, golden, [one.get(port.name) for one in runs]) for port in outputs}
    before = golden.allowed
    return replace(golden, allowed={name: np.maximum(room, before.get(name, 0.0)) for name, room in allowed.items()})


def _allowed(port: Port, golden: GoldenCase, runs: Sequence[Array | None]) -> Floats:
    """Return how far each element of an output may be off; infinity where it is not held."""
    eager = golden.eager[port.name]
    others = [run for run in runs if run is not None and run.shape == eager.shape]
    if eager.dtype.name not in FLOATS:
        unsteady = [run != eager for run in others]
        return np.where(np.any(unsteady, axis=0), np.inf, 0.0) if unsteady else np.zeros(eager.shape)
    wide = eager.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        moves = np.max([np.abs(run.astype(np.float64) - wide) for run in others], axis=0, initial=0.0)
        held = np.all([np.isfinite(wide), *(np.isfinite(run.astype(np.float64)) for run in others)], axis=0)
        moves = np.where(held, moves, 0.0)
        grain = EPS_OF_SCALE * eps(eager.dtype.name)
        # (batch, ...) -> (batch, 1, ...): the largest move and the scale of each sequence
        batched = bool(port.axes) and port.axes[0].is_dynamic and port.axes[0].kind == "batch"
        parts = range(len(eager)) if batched else [...]
        bound = np.zeros(eager.shape)
        for part in parts:
            scale = scale_of(np.where(held, wide, 0.0)[part], eager.dtype.name)
            bound[part] = grain * scale + MOVES * np.max(moves[part], initial=0.0)
    return np.where(held, bound + grain * np.where(held, np.abs(wide), 0.0), np.inf)
