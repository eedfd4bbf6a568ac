"""The mutants of modules of a user's: small constants in modules with an epsilon, axes in modules that move them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from onnx import ModelProto
from torch import Tensor, nn

import posenc_export
from helpers.mutants.mutations import Mutant
from helpers.mutants.of_modules import axes_by_reshape, small_constants
from helpers.mutants.outcomes import Outcome, subject, tried
from helpers.small_numbers import EPSILONS, MODULES, Groups, Small

SMALL_CONSTANTS, AXES = "small constants", "axes by Reshape"
DRAWS: dict[str, Callable[[ModelProto], Iterator[Mutant]]] = {
    SMALL_CONSTANTS: small_constants,
    AXES: axes_by_reshape,
}
"""By the class of mutants, what draws them."""
TOKENS, ROWS = "x: float32[batch, seq, 8]", "x: float32[batch, 8]"


class Heads(Small):
    """Heads are split and merged by Transpose."""

    def forward(self, x: Tensor) -> Tensor:
        heads = (x * self.weight).view(*x.shape[:2], 2, 4).transpose(1, 2)
        shares = torch.softmax(heads @ heads.transpose(-1, -2), -1)
        return (shares @ heads).transpose(1, 2).reshape(x.shape)


class HeadsBeforeTokens(Small):
    """The same with tokens before the batch, as `nn.MultiheadAttention` has them."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x * self.weight).transpose(0, 1)
        heads = tokens.reshape(tokens.shape[0], tokens.shape[1] * 2, 4).transpose(0, 1)
        shares = torch.softmax(heads @ heads.transpose(1, 2), -1)
        return (shares @ heads).transpose(0, 1).reshape(tokens.shape).transpose(0, 1)


class AlongTokens(Small):
    """A convolution along tokens, whose channels come first."""

    def __init__(self, eps: float = 1e-8) -> None:
        super().__init__(eps)
        self.along = nn.Conv1d(8, 8, 3, padding=1, groups=8)

    def forward(self, x: Tensor) -> Tensor:
        turned: Tensor = self.along(x.transpose(1, 2)).transpose(1, 2)
        return turned


class Interleaved(Small):
    """Features of two halves by turns."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).view(*x.shape[:2], 2, 4).transpose(2, 3).reshape(x.shape)


class SumsAlongTokens(Small):
    """Sums of earlier tokens, along the last axis."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cumsum((x * self.weight).transpose(1, 2), -1).transpose(1, 2)


TRANSPOSING: tuple[type[Small], ...] = (Heads, HeadsBeforeTokens, AlongTokens, Interleaved, SumsAlongTokens)
"""Modules that move axes."""


@dataclass(frozen=True)
class ModuleCase:
    """A module, and the class of mutants that is drawn from its file.

    Args:
        draw: a name of DRAWS.
        kind: the module's class.
        epsilon: what it is made with.
    """

    draw: str
    kind: type[Small]
    epsilon: float = EPSILONS[0]

    def __str__(self) -> str:
        return f"{self.kind.__name__}, epsilon {self.epsilon:g}" * (self.draw == SMALL_CONSTANTS) or self.kind.__name__


def module_cases() -> Iterator[ModuleCase]:
    """Yield every module with an epsilon, with each, and every module that moves axes."""
    for kind in MODULES:
        yield from (ModuleCase(SMALL_CONSTANTS, kind, epsilon) for epsilon in EPSILONS)
    yield from (ModuleCase(AXES, kind) for kind in TRANSPOSING)


@dataclass(frozen=True)
class ModuleResult:
    """What became of the mutants of a module, and in how many seconds."""

    case: ModuleCase
    outcomes: tuple[Outcome, ...]
    seconds: float


def mutated_module(case: ModuleCase) -> ModuleResult:
    """Export a module, and try all of its mutants; raise RuntimeError where it has none, or its own file fails."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        export = partial(posenc_export.export, formats=["onnx"], runtimes=["ort-cpu"])
        made = export(
            case.kind(case.epsilon).eval(),
            to=Path(scratch) / "bundle",
            inputs=[ROWS if case.kind is Groups else TOKENS],
        )
        if not made.passed:
            raise RuntimeError(f"the file of {case} fails: {made.verdicts}")
        whole = subject(made.folder)
        outcomes = [tried(whole, mutant) for mutant in DRAWS[case.draw](whole.model)]
    counting = tuple(one for one in outcomes if one.became != "not loaded")
    if not counting:
        raise RuntimeError(f"the file of {case} has no mutant of {case.draw}")
    return ModuleResult(case, counting, time.monotonic() - begin)
