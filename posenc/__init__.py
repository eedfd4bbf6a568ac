"""Positional encodings that export: one definition, baked or dynamic, eager or in a graph.

>>> import posenc
>>> encoding = posenc.build("sinusoidal", posenc.Spec(mode="dynamic"), d_model=512)
>>> encoding.module(torch.zeros(1, 10, 512))  # x + PE, shape (1, 10, 512)
"""

import importlib
from typing import TYPE_CHECKING

from posenc import moved

if TYPE_CHECKING:
    from posenc.encoding import Encoding, Tolerance
    from posenc.ports import Axis, Port
    from posenc.scheme import SCHEMES, Scheme, build
    from posenc.spec import Spec, UnsupportedSpec

__version__ = "0.2.0"
__all__ = ["SCHEMES", "Axis", "Encoding", "Port", "Scheme", "Spec", "Tolerance", "UnsupportedSpec", "build"]
_HOMES = {
    "Axis": "ports",
    "Encoding": "encoding",
    "Port": "ports",
    "SCHEMES": "scheme",
    "Scheme": "scheme",
    "Spec": "spec",
    "Tolerance": "encoding",
    "UnsupportedSpec": "spec",
    "build": "scheme",
}

moved.install()


def __getattr__(name: str) -> object:
    """Import what a name needs, and with the schemes torch, only when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    return getattr(importlib.import_module(f"posenc.{_HOMES[name]}"), name)
