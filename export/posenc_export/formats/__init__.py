"""Formats: an encoding in, one file out. To add one, write a capture and a decorated writer in a file here."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from posenc.registry import Registry

if TYPE_CHECKING:
    import torch

    from posenc.encoding import Encoding

RotaryOp = Literal["decomposed", "onnx", "microsoft"]
CpuIsa = Literal["native", "avx512", "avx2", "default"]
"""What an AOTInductor package is compiled for: the best that this CPU has, one of these, or what every x86-64 has."""
DEFAULT_OPSET, FALLBACK_OPSETS = 18, (20, 23)
"""What needs no other is written at the first; a user's module that cannot be, at one of the others."""


@dataclass(frozen=True)
class Opset:
    """A version of ONNX's operators: the IR version that files of it have, the first ONNX Runtime that loads those."""

    ir_version: int
    onnx_runtime: str


OPSETS: Mapping[int, Opset] = {
    18: Opset(8, "1.15"),
    19: Opset(9, "1.16"),
    20: Opset(9, "1.17"),
    21: Opset(10, "1.18"),
    22: Opset(10, "1.21"),
    23: Opset(11, "1.23"),
}
ROTARY_OPS: Mapping[RotaryOp, int] = {"decomposed": DEFAULT_OPSET, "onnx": 23, "microsoft": DEFAULT_OPSET}
"""Ways to write a rotation, with the lowest opset that has each."""
ROTARY_RUNTIMES: Mapping[RotaryOp, str] = {"microsoft": "1.17"}
"""The first ONNX Runtime that has an operator, where its opset does not say it."""


@dataclass(frozen=True)
class Request:
    """What a format is given beside the encoding: tensors to trace with, and the length the graph must hold up to.

    namespace: what everything in a header is named by.
    at: makes inputs of other sizes, at which a program can be tried. other: sizes to trace with a second time.
    long: sizes to trace with where a program of short ones does not hold for long ones.
    why_traced: why the TorchScript-based exporter is to write ONNX, if it is.
    cpu_isa: what an AOTInductor package is compiled for.
    """

    trace: tuple[torch.Tensor, ...]
    max_len: int
    opset: int = DEFAULT_OPSET
    opset_reason: str = ""
    rotary_op: RotaryOp = "decomposed"
    namespace: str = "posenc"
    at: Callable[[Mapping[str, int]], tuple[torch.Tensor, ...]] | None = None
    other: Mapping[str, int] = field(default_factory=dict)
    long: Mapping[str, int] = field(default_factory=dict)
    why_traced: str = ""
    cpu_isa: CpuIsa = "native"


Program = Any
"""What a format makes of a module before it writes it: an ExportedProgram, a script, tables."""
Digests = Mapping[str, bytes]
Capture = Callable[["Encoding", Request], Program]
Writer = Callable[[Program, "Encoding", Request, Path], None]
Stamp = Callable[[Path, Mapping[str, str]], None]
Stamped = Callable[[Path, str], str]


@dataclass(frozen=True)
class Format:
    """A kind of file: `capture(encoding, request)` makes a program, `write(program, encoding, request, path)` the file.

    digests: of a program, what must be the same when the module is captured again.
    stamp: adds to a file what an export says of it, by keys.
    stamped: reads what a file says under a key, without running code of it; "" where it says nothing or cannot be read.
    refuses: why an encoding cannot be one, or "".
    note: why writing it takes long, if it does. runs_code: whether loading or running a file of it can do what a
        program can; one that cannot is inert: numbers, and operators that a runtime has.
    """

    name: str
    file: str
    capture: Capture
    digests: Callable[[Program], Digests]
    write: Writer
    summary: str
    runs_code: bool
    stamp: Stamp
    stamped: Stamped
    refuses: Callable[[Encoding], str] = lambda encoding: ""
    note: str = ""


FORMATS: Registry[Format] = Registry("format", __name__)


def format_(
    name: str,
    *,
    file: str,
    capture: Capture,
    digests: Callable[[Program], Digests],
    runs_code: bool,
    stamp: Stamp,
    stamped: Stamped,
    refuses: Callable[[Encoding], str] = lambda encoding: "",
    note: str = "",
) -> Callable[[Writer], Writer]:
    """Register the decorated writer as a format; see Format for what the arguments mean."""

    def register(write: Writer) -> Writer:
        summary = (write.__doc__ or "").partition("\n")[0]
        made = Format(name, file, capture, digests, write, summary, runs_code, stamp, stamped, refuses, note)
        FORMATS.add(name, made, write.__module__)
        return write

    return register


def runs_code(format_: str) -> bool:
    """Return whether to load a file of a format is to run code from it; of an unknown format, True."""
    return format_ not in FORMATS or FORMATS[format_].runs_code


def write_saved(save: Callable[[io.BytesIO], None], path: Path) -> None:
    """Write what torch saves by way of memory: where a disk is full, its own writer of files ends the process."""
    buffer = io.BytesIO()
    save(buffer)
    path.write_bytes(buffer.getbuffer())


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporters' own chatter, warnings, logs and prints, from the user."""
    silence = io.StringIO()
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
