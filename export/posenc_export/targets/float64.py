"""A user's module in float64: what it narrows to on the way, too, so that it gives what its formula gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.ports import Array, Feeds, Integers, Port
from posenc_export.arrays import FLOATS, call_on_arrays
from posenc_export.errors import check_machine, first_line
from posenc_export.targets.copies import Copies
from posenc_export.validation.recording.record import NoReference

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
"""What a float of a narrow dtype is widened to. Integers and flags are not, nor floats of 8 bits, which are codes."""

LONG = 200
"""Letters of a reason."""


class Widening(TorchDispatchMode):
    """Run each operator in float64, whatever dtype it is asked for, or given tensors of.

    failed: the first operator that does not run so, with the reason.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failed = ""
        self._twins: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object] | HigherOrderOperator,
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run an operator on widened arguments, and widen what it gives."""
        try:
            if isinstance(func, HigherOrderOperator):
                raise TypeError("it calls functions, which are not widened")
            if func is torch.ops.aten.view.dtype and _reads_bits(*args[:2]):
                raise TypeError("it reads the bits of numbers, which are others in float64")
            wide_args, wide_kwargs = pytree.tree_map(self._widened, (tuple(args), dict(kwargs or {})))
            return pytree.tree_map(_result, func(*wide_args, **wide_kwargs))
        except Exception as error:
            self.failed = self.failed or f"{func} ({_words(error)})"
            raise

    def _widened(self, value: object) -> object:
        """Return a dtype or a tensor widened; one from elsewhere is widened once: a call may write into it."""
        if isinstance(value, torch.dtype):
            return WIDE.get(value, value)
        if not isinstance(value, Tensor) or value.dtype not in WIDE:
            return value
        if id(value) not in self._twins:
            self._twins[id(value)] = (value, value.to(WIDE[value.dtype]))
        return self._twins[id(value)][1]


def _reads_bits(tensor: object, dtype: object) -> bool:
    """Return whether a view of another dtype is of bits, and not of numbers that are widened alike."""
    assert isinstance(tensor, Tensor)
    assert isinstance(dtype, torch.dtype)
    wide = {WIDE.get(tensor.dtype, tensor.dtype), WIDE.get(dtype, dtype)}
    return len(wide) > 1 and any(one.is_floating_point or one.is_complex for one in wide)


def _result(value: object) -> object:
    return value.to(WIDE[value.dtype]) if isinstance(value, Tensor) and value.dtype in WIDE else value


class OwnReference:
    """The reference of a module that has none: a copy of it in float64."""

    def __init__(self, copies: Copies, ports: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        self.copies = copies
        self.ports = ports
        self.outputs = outputs

    def __call__(self, feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        """Return the outputs in float64; raise NoReference where the module does not run in it."""
        args = [feeds[p.name].astype(np.float64 if p.dtype in FLOATS else p.dtype) for p in self.ports]  # copies
        outputs = call_in_float64(self.copies.wide(), args)
        if len(outputs) != len(self.outputs):
            raise NoReference(f"in float64 the module gives {len(outputs)} outputs, not {len(self.outputs)}")
        return {port.name: out for port, out in zip(self.outputs, outputs, strict=True)}


def call_in_float64(module: nn.Module, args: Sequence[Array]) -> list[Array]:
    """Call a module of float64 weights on arrays, into which it may write.

    Raises NoReference, with the operator, where it does not run in float64.
    """
    widening = Widening()
    try:
        with _float64_by_default(), widening:
            return call_on_arrays(module, args)
    except Exception as error:
        check_machine(error)
        reason = type(error).__name__ + (f": {_words(error)}" if str(error) else "")
        raise NoReference(widening.failed or reason) from error


def _words(error: Exception) -> str:
    """Return what an error says, in a line that is not long, without places in memory: a report says it."""
    text = re.sub(r"\b0x[0-9a-f]{6,}\b", "0x...", first_line(error))
    return text if len(text) <= LONG else f"{text[:LONG]}..."


@contextmanager
def _float64_by_default() -> Iterator[None]:
    """Make float64 what numbers become that have no dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
