"""onnxscript's library of operators: torch.onnx parses its sources at every export, for the name of a domain.

torch.onnx fills its registry from onnxscript's library at each export. For that onnxscript parses the source of five
hundred functions (0.8 s), though only the name of their domain is read. This file gives that name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from posenc_export.write.formats.libraries import replaced

Function = Any
"""A function of the library, or their class: their types do not have the attributes that are changed."""


class Signature:
    """A function of the library: its domain is known at once, its source is parsed for anything else."""

    def __init__(self, function: Function, read: Callable[[Function], object]) -> None:
        self._function, self._read = function, read

    @property
    def domain(self) -> str:
        """The domain of the opset that the function belongs to."""
        return str(self._function.opset.domain)

    def __getattr__(self, name: str) -> object:
        return getattr(self._read(self._function), name)


@contextmanager
def sources_unread() -> Iterator[None]:
    """Have torch.onnx fill its registry without parsing five hundred functions."""
    import onnxscript

    traced: Function = onnxscript.TracedOnnxFunction
    read = traced.function_ir.fget
    with replaced(traced, "function_ir", property(lambda function: Signature(function, read))):
        yield
