"""A dispatch mode that moves every intermediate result by one ulp, as results move between libraries.

This is stochastic arithmetic (Vignes, 1993): it measures rounding alone, neither bias nor mistakes. A result is moved
only where libraries may differ: neither where it is exact, nor where it is a mask, which one ulp would make infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_export.proof.recording.choices import (
    WHOLE,
    FirstChoices,
    Function,
    HeldChoices,
    OperatorCall,
    call_of,
    huge,
    is_float,
    name_of,
)

PASSED_ON = {"clone", "copy", "cat", "stack", "index", "index_select", "embedding", "gather", "where", "neg", "abs"}
PASSED_ON |= {"max", "min", "amax", "amin", "maximum", "minimum", "relu", "clamp", "clamp_min", "clamp_max", *WHOLE}
"""Operators whose results are some of their arguments, or whole numbers."""
SUMS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "native_layer_norm", "cumsum", "scaled_dot_product_attention"}
"""Operators that sum products, which no tag of torch says."""
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the bytes of a float, the integer with as many bits."""
BASIC = {"add", "sub", "rsub", "mul", "div", "sum", "cumsum"}
"""Operators whose result is exact where float64 gives the same number: every library gives it."""


class Nudges(TorchDispatchMode):
    """Move the results of operators that round by one ulp, up or down at random, and record or hold choices."""

    def __init__(self, seed: int | None, choices: FirstChoices | HeldChoices | None = None) -> None:
        """Take the seed of the directions (None moves nothing), and what records or holds choices."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.choices = choices

    def __torch_dispatch__(
        self, func: Function, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run an operator; move its result, or settle its choice."""
        result = func(*args, **(kwargs or {}))
        if self.choices is not None and (call := call_of(func, args, kwargs or {}, result)).chooses:
            return _settled(self.choices, func, call, result)
        if self.generator is None or not isinstance(result, torch.Tensor) or not is_float(result) or not rounds(func):
            return result
        steps = self._directions(result.numel()).reshape(result.shape) * _may_move(func, args, kwargs or {}, result)
        # neighbours of one sign are integers that follow one another: much faster than nextafter
        bits = BITS[result.dtype.itemsize]
        moved = (result.view(bits) + steps.to(bits)).view(result.dtype)
        if name_of(func) == "gelu" and isinstance(args[0], torch.Tensor):
            # x / 2 (1 + t), with t between -1 and 1: where t is near -1, its last digit is all that is left of the sum
            moved = moved + steps * args[0] * (torch.finfo(result.dtype).eps / 4)
        return moved

    def _directions(self, count: int) -> torch.Tensor:
        """Return -1 or 1 for each element, each with a probability of a half: the last bits of random bytes."""
        numbers = torch.empty(-(-count // 8), dtype=torch.int64).random_(generator=self.generator)
        return (numbers.view(torch.int8)[:count] & 1) * 2 - 1


def _settled(choices: FirstChoices | HeldChoices, func: Function, call: OperatorCall, result: object) -> object:
    """Return the settled result of a choice, written in place where the operator works in place."""
    leaves = choices.settle(call)
    if func._schema.is_mutable:
        for leaf, settled in zip(call.results, leaves, strict=True):
            if isinstance(leaf, torch.Tensor) and isinstance(settled, torch.Tensor) and settled is not leaf:
                leaf.copy_(settled)
        return result
    return pytree.tree_unflatten(leaves, pytree.tree_structure(result))


def rounds(func: Function) -> bool:
    """Return whether an operator computes new numbers: it is neither a view nor a copy, and works out of place."""
    name = name_of(func)
    tagged = torch.Tag.pointwise in func.tags or torch.Tag.reduction in func.tags or name in SUMS
    return tagged and not func._schema.is_mutable and name not in PASSED_ON


def _may_move(
    func: Function, args: Sequence[object], kwargs: Mapping[str, object], result: torch.Tensor
) -> torch.Tensor:
    """Return where another library may give another number: where the result is rounded, and neither a mask nor 0.

    A mean of squares that is 0 is so everywhere: a step below it, its root would be NaN.
    """
    may = (result.abs() < huge(result.dtype)) & (result != 0)
    if name_of(func) not in BASIC or kwargs.get("dtype") is not None or result.dtype == torch.float64:
        return may
    wide = func(*pytree.tree_map(partial(_widened, dtype=result.dtype), args), **kwargs)
    return may & (wide != result) if isinstance(wide, torch.Tensor) else may


def _widened(leaf: object, dtype: torch.dtype) -> object:
    """Return an argument in float64, with the same value: a Python scalar is rounded to the dtype first."""
    if isinstance(leaf, torch.Tensor):
        return leaf.double()
    return torch.tensor(leaf, dtype=dtype).item() if isinstance(leaf, float) else leaf
