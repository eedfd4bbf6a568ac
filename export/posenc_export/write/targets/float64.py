"""A user's module in float64, also where its code narrows numbers: it then gives what its formula gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from posenc.ports import Array, Feeds, Integers, Port
from posenc_export.common.arrays import FLOATS, call_on_arrays
from posenc_export.common.errors import NoReference, check_machine, first_line
from posenc_export.write.targets.copies import Copies

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
"""Dtypes and what they are widened to. Integers and flags stay, and floats of 8 bits, which are codes."""

SHAPES = ("size", "dim", "ndimension", "numel", "stride", "is_contiguous", "is_floating_point")
"""Methods of a weight that read none of its numbers."""
AT_ONCE = 2**19
"""Numbers of a weight that are widened at a time where a layer is linear: the processor's cache holds them."""
MAX_LETTERS = 200
"""Letters of a reason; the rest is cut."""


class Widening(TorchDispatchMode):
    """Runs each operator in float64, whatever dtype it is asked for, or given tensors of.

    Args:
        by_weight: Whether parameters are widened for the operator that reads them, and not held until the call ends.

    Attributes:
        failed: The first operator that does not run so, with the reason.
    """

    supports_higher_order_operators = True

    def __init__(self, by_weight: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_weight = by_weight
        self.failed = ""
        self._twins: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object] | HigherOrderOperator,
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run an operator on widened arguments, and widen its results."""
        try:
            if isinstance(func, HigherOrderOperator):
                raise TypeError("it calls functions, which are not widened")
            # an exact bit pattern of float32 means nothing in float64
            if func is torch.ops.aten.view.dtype and _reads_bits(*args[:2]):
                raise TypeError("it reads the bits of numbers, which are others in float64")
            if self.by_weight and func is torch.ops.aten.embedding.default and isinstance(args[0], nn.Parameter):
                return pytree.tree_map(_result, func(*args, **(kwargs or {})))  # rows are taken, and nothing computed
            wide_args, wide_kwargs = pytree.tree_map(self._widened, (tuple(args), dict(kwargs or {})))
            return pytree.tree_map(_result, func(*wide_args, **wide_kwargs))
        except Exception as error:
            self.failed = self.failed or f"{func} ({_words(error)})"
            raise

    def _widened(self, value: object) -> object:
        """Return a dtype or a tensor widened; anything else as it is."""
        if isinstance(value, torch.dtype):
            return WIDE.get(value, value)
        if not isinstance(value, Tensor) or value.dtype not in WIDE:
            return value
        if self.by_weight and isinstance(value, nn.Parameter):
            return value.detach().to(WIDE[value.dtype])
        # once for each tensor: a call may write into it, and read what it wrote
        if id(value) not in self._twins:
            self._twins[id(value)] = (value, value.to(WIDE[value.dtype]))
        return self._twins[id(value)][1]


class WideWeights(TorchFunctionMode):
    """Gives functions float64 weights, one by one: code checks dtypes before it comes to operators.

    Raises TypeError where a call writes into a weight, which would be lost.
    """

    def __torch_function__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function with each parameter in float64; rows of an embedding are taken as they are."""
        keywords = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        of_weight = bool(args) and isinstance(args[0], nn.Parameter)
        if (of_weight and name.endswith("_") and not name.endswith("__")) or func is torch.embedding_renorm_:
            raise TypeError(f"{name} writes into a weight")
        is_look_up = func is torch.embedding or (func is functional.embedding and keywords.get("max_norm") is None)
        if is_look_up or (of_weight and name in SHAPES):
            return func(*args, **keywords)
        if func is functional.linear and (products := _linear(*args, **keywords)) is not None:
            return products
        if of_weight and name == "__get__":  # to ask for a shape must not cost a copy
            value = func(*args)
            if not isinstance(value, Tensor):
                return WIDE.get(value, value) if isinstance(value, torch.dtype) else value
        wide_args, wide_kwargs = pytree.tree_map(_wide_weight, (tuple(args), keywords))
        return func(*wide_args, **wide_kwargs)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """Return x @ weight.T + bias in float64, some rows of the weight at a time; None where another way must be taken.

    To write a large weight in float64, and to read it again, takes several times as long as its products.
    """
    is_weight = all(isinstance(value, nn.Parameter) for value in (weight, bias) if value is not None)
    if not is_weight or weight.dtype not in WIDE or weight.numel() <= AT_ONCE:
        return None
    if x.dtype != torch.float64 or x.requires_grad:
        return None
    with torch.no_grad(), _disable_current_modes():
        rows = x.reshape(-1, x.shape[-1])
        products = rows.new_empty(len(rows), len(weight))
        step = max(1, AT_ONCE // weight.shape[1])
        part = rows.new_empty(step, weight.shape[1])  # one for all: fresh pages would cost more than the numbers
        for start in range(0, len(weight), step):
            some = weight[start : start + step]
            wide = part[: len(some)].copy_(some)
            products[:, start : start + step] = rows @ wide.T
        if bias is not None:
            products += bias
        return products.reshape(*x.shape[:-1], len(weight))


def _wide_weight(value: object) -> object:
    """Return a weight in float64; anything else as it is."""
    if isinstance(value, nn.Parameter) and value.dtype in WIDE:
        return value.detach().to(WIDE[value.dtype])
    return value


def _reads_bits(tensor: object, dtype: object) -> bool:
    """Return whether a view of another dtype reads bits, and not numbers that are widened alike."""
    assert isinstance(tensor, Tensor)
    assert isinstance(dtype, torch.dtype)
    wide = {WIDE.get(tensor.dtype, tensor.dtype), WIDE.get(dtype, dtype)}
    return len(wide) > 1 and any(dtype.is_floating_point or dtype.is_complex for dtype in wide)


def _result(value: object) -> object:
    return value.to(WIDE[value.dtype]) if isinstance(value, Tensor) and value.dtype in WIDE else value


class OwnReference:
    """The reference of a user's module: a copy of it in float64."""

    def __init__(self, copies: Copies, ports: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        self.copies = copies
        self.ports = ports
        self.outputs = outputs

    def __call__(self, feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        """Return the outputs in float64; raise NoReference where the module does not run in it."""
        # astype copies: the module may write into its inputs
        args = [feeds[port.name].astype(np.float64 if port.dtype in FLOATS else port.dtype) for port in self.ports]
        outputs = call_in_float64(self.copies.wide(), args, self.copies.by_weight)
        if len(outputs) != len(self.outputs):
            raise NoReference(f"in float64 the module gives {len(outputs)} outputs, not {len(self.outputs)}")
        return {port.name: out for port, out in zip(self.outputs, outputs, strict=True)}


def call_in_float64(module: nn.Module, args: Sequence[Array], by_weight: bool = False) -> list[Array]:
    """Call a module on arrays, into which it may write, with all numbers in float64.

    Args:
        module: Its weights are float64, or widened one by one.
        args: What goes in.
        by_weight: Whether weights are widened one by one: a large model then takes 8 bytes for each number of its
            largest weight, in the place of all.

    Raises NoReference, with the operator, where it does not run in float64.
    """
    widening = Widening(by_weight)
    try:
        with _float64_by_default(), widening, WideWeights() if by_weight else nullcontext():
            return call_on_arrays(module, args)
    except Exception as error:
        check_machine(error)
        reason = type(error).__name__ + (f": {_words(error)}" if str(error) else "")
        raise NoReference(widening.failed or reason) from error


def _words(error: Exception) -> str:
    """Return the text of an error for a report: in a line that is not long."""
    # addresses in memory would make two reports differ
    text = re.sub(r"\b0x[0-9a-f]{6,}\b", "0x...", first_line(error))
    return text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}..."


@contextmanager
def _float64_by_default() -> Iterator[None]:
    """Have tensors that are made without a dtype be float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
