"""A module whose every result on the way is moved by one ulp, as results are between libraries.

That is stochastic arithmetic (Vignes, 1993): it measures rounding alone, and neither bias nor mistakes. A result is
moved only where a library may give another one: not where it is exact, nor where it is a mask, which an ulp makes
infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_export.validation.recording.choices import (
    WHOLE,
    Call,
    FirstChoices,
    Function,
    HeldChoices,
    call_of,
    huge,
    is_float,
    name_of,
)

PASSED_ON = {"clone", "copy", "cat", "stack", "index", "index_select", "embedding", "gather", "where", "neg", "abs"}
PASSED_ON |= {"max", "min", "amax", "amin", "maximum", "minimum", "relu", "clamp", "clamp_min", "clamp_max", *WHOLE}
"""Operators whose results are numbers that they were given, or whole ones."""
SUMS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "native_layer_norm", "cumsum", "scaled_dot_product_attention"}
"""Operators that sum products and have no tag that says so."""
BASIC = {"add", "sub", "rsub", "mul", "div", "sum", "cumsum"}
"""Operators whose results are exact where float64 gives the same: every library has those."""


class Nudges(TorchDispatchMode):
    """Move every result of an operator that rounds by one ulp, up or down at random; settle what it chooses."""

    def __init__(self, seed: int | None, choices: FirstChoices | HeldChoices | None = None) -> None:
        """seed: of the directions; None where nothing is to be moved."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.choices = choices

    def __torch_dispatch__(
        self,
        func: Function,
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run an operator; move what it gives, or settle what it chooses."""
        result = func(*args, **(kwargs or {}))
        if self.choices is not None and (call := call_of(func, args, kwargs or {}, result)).chooses:
            return _settled(self.choices, func, call, result)
        if self.generator is None or not isinstance(result, torch.Tensor) or not is_float(result) or not _rounds(func):
            return result
        up = torch.rand(result.shape, generator=self.generator) < 0.5
        infinity = torch.tensor(torch.inf, dtype=result.dtype)
        moved = torch.nextafter(result, torch.where(up, infinity, -infinity))
        return torch.where(_may_move(func, args, kwargs or {}, result), moved, result)


def _settled(choices: FirstChoices | HeldChoices, func: Function, call: Call, result: object) -> object:
    """Return the result of a choice as it is settled, in place where the operator works in place."""
    leaves = choices.settle(call)
    if func._schema.is_mutable:
        for leaf, settled in zip(call.results, leaves, strict=True):
            if isinstance(leaf, torch.Tensor) and isinstance(settled, torch.Tensor) and settled is not leaf:
                leaf.copy_(settled)
        return result
    return pytree.tree_unflatten(leaves, pytree.tree_structure(result))


def _rounds(func: Function) -> bool:
    """Return whether an operator computes new numbers: it is no view, no copy, and changes nothing in place."""
    name = name_of(func)
    tagged = torch.Tag.pointwise in func.tags or torch.Tag.reduction in func.tags or name in SUMS
    return tagged and not func._schema.is_mutable and name not in PASSED_ON


def _may_move(
    func: Function, args: Sequence[object], kwargs: Mapping[str, object], result: torch.Tensor
) -> torch.Tensor:
    """Return where a library may give another number: where it is rounded, and is no mask."""
    may = result.abs() < huge(result.dtype)
    if name_of(func) not in BASIC or kwargs.get("dtype") is not None or result.dtype == torch.float64:
        return may
    wide = func(*pytree.tree_map(partial(_widened, dtype=result.dtype), args), **kwargs)
    return may & (wide != result) if isinstance(wide, torch.Tensor) else may


def _widened(leaf: object, dtype: torch.dtype) -> object:
    """Return what an operator is given in float64: the same number, so that a scalar is rounded to the dtype first."""
    if isinstance(leaf, torch.Tensor):
        return leaf.double()
    return torch.tensor(leaf, dtype=dtype).item() if isinstance(leaf, float) else leaf
