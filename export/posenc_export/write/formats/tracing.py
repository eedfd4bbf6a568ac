"""Tracers that run a module and write which operators ran: they see no branch of Python, which must not stay hidden."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from posenc_export.common.errors import ExportFailed, check_machine, first_line
from posenc_export.write.formats import quiet
from posenc_export.write.formats.rewriting import shallow_copy

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch._ops import OpOverload

T = TypeVar("T")


def trace_of(module: nn.Module, trace: Callable[[nn.Module], T], by: str, *, branches: bool) -> T:
    """Return what a tracer makes of a module; raise ExportFailed where it fails, or may hide a branch.

    Args:
        module: The module.
        trace: Runs it on inputs, and writes which operators ran.
        by: What traces it, for errors.
        branches: Whether torch.export has said what the module does by sizes: then none is looked for.
    """
    import torch
    from torch.jit._trace import TracerWarning

    with quiet(), warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        try:
            made = trace(module if branches else _watched(module, by))
        except ExportFailed:
            raise
        except Exception as error:
            check_machine(error)
            raise ExportFailed(f"{by} failed: {first_line(error)}") from error
    warned = [str(warning.message) for warning in caught if issubclass(warning.category, TracerWarning)]
    if warned and not branches:
        raise ExportFailed(f"{by} cannot see what the module does by a number: {warned[0].partition('.')[0]}")
    return made


def _watched(module: nn.Module, by: str) -> nn.Module:
    """Return a module that fails where it asks for numbers of a tensor without a warning of the tracer.

    Args:
        module: The module.
        by: What traces it, for the error.
    """
    watched, forward = shallow_copy(module), module.forward

    @wraps(forward)
    def watching(*inputs: Tensor) -> object:
        with _no_answers(by):
            return forward(*inputs)

    watched.forward = watching
    return watched


def _no_answers(by: str) -> AbstractContextManager[object]:
    """Return a mode in which Python cannot ask for the numbers of a tensor where torch answers without a warning."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class NoAnswers(TorchDispatchMode):
        """Refuses operators whose answer depends on data, but for sizes: int64 scalars that any operator may take."""

        def __torch_dispatch__(
            self,
            func: OpOverload[..., object],
            types: object,
            args: Sequence[object] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:
            scalar = args[0] if func is torch.ops.aten._local_scalar_dense.default else None
            is_size = isinstance(scalar, torch.Tensor) and scalar.dtype == torch.int64
            if torch.Tag.data_dependent_output in func.tags and not is_size:
                raise ExportFailed(f"{by} cannot see what the module does by the numbers of a tensor")
            return func(*args, **(kwargs or {}))

    return NoAnswers()  # type: ignore[no-untyped-call]
