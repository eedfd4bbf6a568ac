"""onnxscript's library of operators, whose sources torch.onnx has parsed at every export, for the name of a domain.

torch.onnx fills its registry from onnxscript's library at each export. For that onnxscript parses the source of five
hundred functions (0.8 s), though only the name of their domain is read. This file gives that name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from posenc_export.formats.libraries import replaced

Function = Any
"""A function of the library, or their class: neither says what we change of it."""


class Signature:
    """What is known of a function of the library: its domain at once, all else from its source when asked for."""

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
    """Have torch.onnx fill its registry without parsing five hundred functions, most of a second an export."""
    import onnxscript

    traced: Function = onnxscript.TracedOnnxFunction
    read = traced.function_ir.fget
    with replaced(traced, "function_ir", property(lambda function: Signature(function, read))):
        yield
