"""Choices that a module makes by floats (integers, comparisons, indices, floor): recorded in one run, held in another.

At an edge (of a bucket, of a step, of two equal scores) the last digit of a float decides. That is not noise: the
floats are good, and a graph must choose as eager does. Where the floats themselves are noise, no choice is held.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from posenc.encoding import eps

NOISE = 1e-3
"""Share of the scale: an element that rounding moves farther is noise, which proves nothing; of half dtypes 4 eps."""
MAX_JUMP_SHARE = 1 / 8
"""Share of the elements that may move farther: at the edge of a bucket one ulp chooses another row of a table. They
widen no tolerance, since a graph must choose as eager does."""
WHOLE = {"floor", "ceil", "round", "trunc", "fix", "sign", "sgn", "heaviside", "floor_divide"}
"""Operators that give whole numbers as floats."""
STEPS = {"to_copy", "bucketize", "searchsorted", "div", *WHOLE}
"""Operators whose neighbouring choices are neighbouring numbers; farther numbers do not come from an edge."""
RESTS = {"remainder", "fmod", "frac"}
"""Operators that give the remainder of a division."""
OWN = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
"""Folders of code that users have not written."""
Function = OpOverload[..., object]


class Unlike(RuntimeError):
    """A run does not make the choices of the first one, in the same order."""


@dataclass(frozen=True)
class OperatorCall:
    """A call of an operator: its name, and the leaves of its arguments and of its results."""

    name: str
    arguments: tuple[object, ...]
    results: tuple[object, ...]

    @property
    def floats(self) -> list[torch.Tensor]:
        """The tensors of floats among the arguments."""
        return [leaf for leaf in self.arguments if is_float(leaf)]  # type: ignore[misc]

    @property
    def chooses(self) -> bool:
        """Whether it makes something discrete of floats."""
        discrete = any(isinstance(leaf, bool | torch.Tensor) and not is_float(leaf) for leaf in self.results)
        by_step = self.name in WHOLE | RESTS or (self.name == "div" and isinstance(self.arguments[-1], str))
        return bool(self.floats) and (discrete or by_step)

    def copied(self) -> OperatorCall:
        """Return the call with copies of its tensors: later operators may write into them."""
        return OperatorCall(self.name, _copies(self.arguments), _copies(self.results))


def is_float(leaf: object) -> bool:
    """Return whether a leaf is a tensor of floats."""
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def name_of(function: Function) -> str:
    """Return the name of an operator, without its overload and the marks of variants."""
    return function.__name__.partition(".")[0].strip("_")


def call_of(function: Function, args: Sequence[object], kwargs: Mapping[str, object], result: object) -> OperatorCall:
    """Return a call of an operator."""
    arguments, results = pytree.tree_leaves((args, kwargs)), pytree.tree_leaves(result)
    return OperatorCall(name_of(function), tuple(arguments), tuple(results))


def _copies(leaves: Sequence[object]) -> tuple[object, ...]:
    return tuple(leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves)


@dataclass
class FirstChoices:
    """The choices of a run, in their order."""

    calls: list[OperatorCall] = field(default_factory=list)

    def settle(self, call: OperatorCall) -> tuple[object, ...]:
        """Record a choice, and return it unchanged."""
        self.calls.append(call.copied())
        return call.results


@dataclass
class HeldChoices:
    """The choices of a first run, held in a second; `places` are the lines of code at which the second differs."""

    first: FirstChoices
    places: dict[str, None] = field(default_factory=dict)
    made: int = 0

    def settle(self, call: OperatorCall) -> tuple[object, ...]:
        """Return the first run's choice, unless its floats are noise; raise Unlike where the runs do not correspond."""
        if self.made == len(self.first.calls):
            raise Unlike(call.name)
        before = self.first.calls[self.made]
        self.made += 1
        # the module branches: its runs do not make the same choices in the same order
        if _shapes(before) != _shapes(call):
            raise Unlike(call.name)
        if any(_is_noise(*pair) for pair in zip(before.floats, call.floats, strict=True)):
            return call.results
        results = tuple(_held(call, *pair) for pair in zip(before.results, call.results, strict=True))
        if any(_differ(*pair) for pair in zip(results, call.results, strict=True)):
            self.places[place()] = None
        return results


def _shapes(call: OperatorCall) -> tuple[object, ...]:
    """Return what is equal in two runs that choose in the same order."""
    return call.name, len(call.results), *(tensor.shape for tensor in call.floats)


def _is_noise(before: torch.Tensor, now: torch.Tensor) -> bool:
    """Return whether floats moved by more than noise, so that choices change anywhere, not at edges alone."""
    ordinary = before.abs() < huge(before.dtype)
    if not ordinary.any():
        return False
    was, moved = before[ordinary].double(), (now.double() - before.double()).abs()[ordinary]
    share = max(NOISE, 4 * eps(str(before.dtype).removeprefix("torch.")))
    return float((moved > share * was.abs().max()).double().mean()) > MAX_JUMP_SHARE


def huge(dtype: torch.dtype) -> float:
    """Return the magnitude from which on a number is a mask: half of the dtype's largest."""
    return torch.finfo(dtype).max / 2


def _held(call: OperatorCall, first: object, now: object) -> object:
    """Return the first choice; of choices that have neighbours, only where the two are neighbours or equal."""
    if not isinstance(first, torch.Tensor) or not isinstance(now, torch.Tensor):
        return first
    if call.name in RESTS:
        period = call.arguments[1] if len(call.arguments) > 1 else 1.0
        # 0.01 and 6.27 lie next to each other in a remainder of 2 pi: one period apart.
        whole = torch.round(torch.nan_to_num((first - now) / period))  # type: ignore[operator]
        return torch.where(whole.abs() <= 1, now + whole * period, now)  # type: ignore[operator]
    if call.name in STEPS and now.dtype != torch.bool:
        return torch.where((now.double() - first.double()).abs() <= 1, first, now)
    return now if is_float(now) else first


def _differ(before: object, now: object) -> bool:
    if isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor):
        return not torch.equal(before, now)
    return before != now


def place() -> str:
    """Return the file and the line of the user's code that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
