"""Positional encodings that export: one definition, baked or dynamic, eager or in a graph.

>>> import posenc
>>> encoding = posenc.build("sinusoidal", posenc.Form(mode="dynamic"), d_model=512)
>>> encoding.module(torch.zeros(1, 10, 512))  # x + PE, shape (1, 10, 512)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.scheme import SCHEMES, Encoding, Form, Port, Scheme, build

__version__ = "0.1.0"
__all__ = ["SCHEMES", "Encoding", "Form", "Port", "Scheme", "build"]


def __getattr__(name: str) -> Any:
    """Import the schemes, and with them torch, only when something of theirs is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    return getattr(importlib.import_module("posenc.scheme"), name)
