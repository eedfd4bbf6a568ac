"""Formats: an encoding in, one file out. To add one, write a decorated function in a file of this folder."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.registry import Registry

if TYPE_CHECKING:
    import torch

    from posenc.scheme import Encoding
    from posenc_export.formats.onnx.rotary_op import RotaryOp

OPSETS = range(18, 24)
DEFAULT_OPSET = 20
ROTARY_OPS: Mapping[RotaryOp, int] = {"decomposed": OPSETS.start, "onnx": 23, "microsoft": OPSETS.start}
"""Ways to write a rotation, with the lowest opset that has each."""


@dataclass(frozen=True)
class Request:
    """What a format is given beside the encoding: tensors to trace with, and lengths the graph must hold for."""

    trace: tuple[torch.Tensor, ...]
    longest: int
    opset: int = DEFAULT_OPSET
    rotary_op: RotaryOp = "decomposed"


@dataclass(frozen=True)
class Format:
    """A kind of file: `write(encoding, request, path)` makes it, `content(path)` is what must be the same twice.

    stamp: adds to a file what an export says of itself; refuses: why an encoding cannot be one, or nothing.
    note: why writing it takes long, if it does.
    """

    name: str
    file: str
    write: Callable[[Encoding, Request, Path], None]
    content: Callable[[Path], Mapping[str, bytes]]
    summary: str
    stamp: Callable[[Path, Mapping[str, str]], None] = lambda path, metadata: None
    refuses: Callable[[Encoding], str] = lambda encoding: ""
    note: str = ""


def _import_formats() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


FORMATS: Registry[Format] = Registry("format", _import_formats)

Writer = Callable[["Encoding", Request, Path], None]


def format_(
    name: str, *, file: str, content: Callable[[Path], Mapping[str, bytes]], **more: Any
) -> Callable[[Writer], Writer]:
    """Register the decorated writer as a format; `more` are fields of Format."""

    def register(write: Writer) -> Writer:
        FORMATS.add(name, Format(name, file, write, content, (write.__doc__ or "").partition("\n")[0], **more))
        return write

    return register


def whole_file(path: Path) -> Mapping[str, bytes]:
    """Digest every file of the artifact; a digest keeps a large table from being held twice."""
    import hashlib

    files = sorted(p for p in path.parent.iterdir() if p.name.startswith(path.name))
    return {p.name: hashlib.file_digest(p.open("rb"), "sha256").digest() for p in files}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporters' own chatter, warnings, logs and prints, from the user."""
    silence = io.StringIO()
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
