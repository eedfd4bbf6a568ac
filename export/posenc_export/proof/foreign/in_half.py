"""What half precision may cost a file whose weights were converted: measured on the target, operation by operation.

A file in half rounds each stored weight once, and the result of each of its nodes. Rounding to nearest is off by half
an ulp at most; spread evenly, u/2 on both sides has the variance u^2 / 12. Here each result of torch that depends on
weights, or on floats that go in, moves by half an ulp of the half dtype, always, up or down at random: a variance of
u^2 / 4, that of three roundings. Twice the largest move is allowed, as in single precision: four times the variance,
that of 12 roundings. A weight is one of them, the result another; the longest that exporters make of an operation of
torch, LayerNorm, is nine nodes. To first order outputs are sums of such errors, so that a right file stays within the
allowance, and chance alone does not carry the largest of many elements beyond it. Numbers that follow from positions
alone do not move: angles, and tables of them, must be right before they are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from posenc.encoding import Encoding, Tolerance, eps
from posenc_export.bundle.case import GoldenCase
from posenc_export.proof.foreign.module import FileModule
from posenc_export.proof.planning.padding import padding_of
from posenc_export.proof.recording.choices import Function, huge, is_float
from posenc_export.proof.recording.hard import with_room_for
from posenc_export.proof.recording.nudges import rounds
from posenc_export.proof.recording.own_module import ULP_MOVES, finite_peak
from posenc_export.proof.recording.rounding import DRAWS, moves, rows_under
from posenc_export.write.targets.feeds import feeds_for

if TYPE_CHECKING:
    from onnx import ModelProto

HALVES = ("float16", "bfloat16")


def half_of(model: ModelProto) -> str:
    """Return the half dtype that most of a file's stored weights have; nothing where most have none."""
    from onnx import TensorProto

    names = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}
    elements = dict.fromkeys((*HALVES, ""), 0)
    nodes = (attribute.t for node in model.graph.node for attribute in node.attribute if attribute.HasField("t"))
    for tensor in (*model.graph.initializer, *nodes):
        if tensor.data_type in (*names, TensorProto.FLOAT, TensorProto.DOUBLE):
            elements[names.get(tensor.data_type, "")] += int(np.prod(tensor.dims))
    dtype = max(elements, key=lambda name: elements[name])
    return dtype if elements[dtype] else ""


def with_half(encoding: Encoding, cases: Sequence[GoldenCase], dtype: str, seed: int) -> tuple[GoldenCase, ...]:
    """Return cases whose tolerances have room for a file in a half dtype.

    Args:
        encoding: The target, a module or another file.
        cases: What it gives.
        dtype: The half dtype.
        seed: For the inputs, and for the directions.
    """
    return tuple(_with_half(encoding, golden, dtype, seed) for golden in cases)


def _with_half(encoding: Encoding, golden: GoldenCase, dtype: str, seed: int) -> GoldenCase:
    if golden.case.refused:
        return golden
    if golden.case.hard:
        return _hard_in_half(encoding, golden, dtype, seed)
    feeds = feeds_for(encoding.inputs, golden.case, seed)
    padding = padding_of(encoding.inputs, encoding.outputs, golden, feeds)
    mode = HalfMoves(dtype, seed)
    moved = moves(_narrow(encoding, mode, dtype), golden, padding, _all_moved(mode), seed).of_tokens
    room = Tolerance(atol=ULP_MOVES * finite_peak(moved))
    case = golden.case
    case = replace(case, eager_tolerance=case.eager_tolerance.plus(room), tolerance=case.tolerance.plus(room))
    return replace(golden, case=case)


def _hard_in_half(encoding: Encoding, golden: GoldenCase, dtype: str, seed: int) -> GoldenCase:
    """Return a call with hard rows with room for half precision, measured for each sequence.

    Each may be twice as far off as moves of half an ulp take it, and as rounding every result does. Where a result that
    is rounded to half is infinite, as the square of 1e4 is in float16, a right file need not answer.
    """
    runs = []
    for draw in range(seed, seed + DRAWS):
        mode = HalfMoves(dtype, draw)
        runs.append(rows_under(_narrow(encoding, mode, dtype), golden, seed, _all_moved(mode)))
    runs.append(rows_under(encoding, golden, seed, _all_moved(Rounded(dtype))))
    return with_room_for(golden, encoding.outputs, runs)


def _narrow(encoding: Encoding, mode: HalfMoves, dtype: str) -> Encoding:
    """Return an encoding whose fresh copies have their weights in half."""
    return replace(encoding, fresh=lambda: _narrowed(encoding.uncalled().module, mode, dtype))


@contextmanager
def _all_moved(mode: TorchDispatchMode) -> Iterator[None]:
    # fused attention hides its scores, which a file rounds, too
    with sdpa_kernel(SDPBackend.MATH), mode:
        yield


def _narrowed(module: nn.Module, mode: HalfMoves, dtype: str) -> nn.Module:
    """Return an uncalled copy of a module with its weights rounded; of a file, the copy whose weights moved."""
    if isinstance(module, FileModule):
        return module.in_half()
    for part in module.modules():
        for name, weight in part.named_parameters(recurse=False):
            # copies share their weights: these are replaced, and never written into
            narrow = weight.detach().to(getattr(torch, dtype)).to(weight.dtype) if is_float(weight) else weight
            setattr(part, name, nn.Parameter(narrow, requires_grad=False))
    return _MarkedInputs(module, mode)


class _MarkedInputs(nn.Module):
    """A module that says which floats go in."""

    def __init__(self, module: nn.Module, mode: HalfMoves) -> None:
        super().__init__()
        self.module, self.mode = module, mode

    def forward(self, *inputs: Tensor) -> object:
        """Call the module."""
        self.mode.of_data.update({tensor: True for tensor in inputs if is_float(tensor)})
        return self.module(*inputs)


class Rounded(TorchDispatchMode):
    """Round what goes into each operator that computes, and its results, to a half dtype."""

    def __init__(self, dtype: str) -> None:
        """Take the dtype."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype: torch.dtype = getattr(torch, dtype)

    def __torch_dispatch__(
        self, func: Function, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run an operator."""
        if not rounds(func):
            return func(*args, **(kwargs or {}))
        taken, options = pytree.tree_map(self._rounded, (tuple(args), kwargs or {}))
        return pytree.tree_map(self._rounded, func(*taken, **options))

    def _rounded(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor) or not is_float(leaf):
            return leaf
        return torch.where(leaf.abs() < huge(leaf.dtype), leaf.to(self.dtype).to(leaf.dtype), leaf)


class HalfMoves(TorchDispatchMode):
    """Move results that depend on weights, or on floats that go in, by half an ulp of a half dtype."""

    def __init__(self, dtype: str, seed: int) -> None:
        """Take the dtype, and the seed of the directions."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.eps, self.generator = eps(dtype), torch.Generator().manual_seed(seed)
        self.of_data = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, func: Function, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run an operator, and move its result where it is a number of data that is rounded."""
        result = func(*args, **(kwargs or {}))
        leaves = (leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor))
        if not any(isinstance(leaf, nn.Parameter) or leaf in self.of_data for leaf in leaves):
            return result
        if isinstance(result, Tensor) and is_float(result) and rounds(func):
            result = self._moved(result)
        self.of_data.update({leaf: True for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)})
        return result

    def _moved(self, result: Tensor) -> Tensor:
        up = torch.rand(result.shape, generator=self.generator) < 0.5
        # x = m 2^e with m from 1/2 to 1: its ulp is 2^(e-1) eps
        step = torch.ldexp(torch.full_like(result, self.eps / 2), torch.frexp(result).exponent - 1)
        moved = torch.where(up, result + step, result - step)
        # 0 is a number of half precision, too: nothing is rounded there
        return torch.where((result.abs() < huge(result.dtype)) & (result != 0), moved, result)
