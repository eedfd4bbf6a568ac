"""Formats: an encoding in, one file out. To add one, write a capture and a decorated writer in a file here."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from posenc.registry import Registry
from posenc_export.common.errors import BadInput

if TYPE_CHECKING:
    import torch

    from posenc.encoding import Encoding
    from posenc.ports import Array
    from posenc_export.bundle.case import Padding
    from posenc_models.whole import Quantize

RotaryOp = Literal["decomposed", "onnx", "microsoft", "microsoft-mrope"]
AttentionOp = Literal["decomposed", "onnx", "microsoft"]
AccuracyLevel = Literal[1, 4]
"""What MatMulNBits computes in: float32, or 8 bits, to which it rounds what goes in."""
CpuIsa = Literal["native", "avx512", "avx2", "default"]
"""What an AOTInductor package is compiled for: the best that this CPU has, one of these, or what every x86-64 has."""
DEFAULT_OPSET, FALLBACK_OPSETS = 18, (20, 23)
"""Files are written at the first; a user's module that cannot be is written at one of the others."""


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
    24: Opset(12, "1.24"),
}
ROTARY_OPS: Mapping[RotaryOp, int] = {
    "decomposed": DEFAULT_OPSET,
    "onnx": 23,
    "microsoft": DEFAULT_OPSET,
    "microsoft-mrope": DEFAULT_OPSET,
}
"""Ways to write a rotation, with the lowest opset that has each."""
ROTARY_RUNTIMES: Mapping[RotaryOp, str] = {"microsoft": "1.17", "microsoft-mrope": "1.29"}
"""The first ONNX Runtime that has an operator, where its opset does not say it."""
QUANTIZED_RUNTIMES: Mapping[str, str] = {"int4": "1.17", "int8": "1.23"}
"""The first ONNX Runtime of those that were tried which runs MatMulNBits of so many bits on the CPU."""

ATTENTION_OPS: Mapping[AttentionOp, int] = {"decomposed": DEFAULT_OPSET, "onnx": 23, "microsoft": DEFAULT_OPSET}
"""Ways to write attention, with the lowest opset that has each."""
ATTENTION_RUNTIMES: Mapping[AttentionOp, str] = {"microsoft": "1.28"}
"""The first ONNX Runtime that refuses a cache with fewer tokens than the mask counts; from 1.22 on it runs others."""


@dataclass(frozen=True)
class WriteRequest:
    """How a module is to be captured and written.

    Attributes:
        trace: Tensors to trace with.
        max_len: The length up to which the graph must hold.
        opset: The opset of ONNX files.
        opset_reason: Why the opset is no lower.
        rotary_op: How ONNX writes a rotation.
        attention_op: How ONNX writes the attention of a module.
        check_positions: Whether look-ups in ONNX give NaN for a wrong index where a runtime does not refuse it.
        namespace: The name that everything in a header goes by.
        at: Makes inputs of other sizes, at which a program can be tried.
        sizes: The sizes of `trace`, by axis.
        other_sizes: Sizes to trace with a second time.
        long: Sizes to trace with where a program of short calls does not hold for long ones.
        why_traced: Why the TorchScript-based exporter is to write ONNX, if it is.
        branches: Whether torch.export has said what the module does by sizes, which that exporter cannot see.
        cpu_isa: What an AOTInductor package is compiled for.
        quantize: What ONNX stores weights as that were rounded to it; None for what they are.
        accuracy_level: What products with these are computed in.
        inputs: Makes the inputs of a call but caches, by the sizes of axes and the side of padding.
        positions: How many positions the module has; None where nobody says it.
    """

    trace: tuple[torch.Tensor, ...]
    max_len: int
    opset: int = DEFAULT_OPSET
    opset_reason: str = ""
    rotary_op: RotaryOp = "decomposed"
    attention_op: AttentionOp = "decomposed"
    check_positions: bool = False
    namespace: str = "posenc"
    at: Callable[[Mapping[str, int]], tuple[torch.Tensor, ...]] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    other_sizes: Mapping[str, int] = field(default_factory=dict)
    long: Mapping[str, int] = field(default_factory=dict)
    why_traced: str = ""
    branches: bool = False
    cpu_isa: CpuIsa = "native"
    quantize: Quantize | None = None
    accuracy_level: AccuracyLevel = 1
    inputs: Callable[[Mapping[str, int], Padding], Mapping[str, Array]] | None = None
    positions: int | None = None


Program = Any
"""What a format makes of a module before it writes it: an ExportedProgram, a script, tables."""
Digests = Mapping[str, bytes]
Capture = Callable[["Encoding", WriteRequest], Program]
Writer = Callable[[Program, WriteRequest, Path], None]
Stamp = Callable[[Path, Mapping[str, str]], None]
Stamped = Callable[[Path, str], str]


def _unwritten(program: Program, request: WriteRequest, path: Path) -> None:
    raise NotImplementedError("a format is a decorator of its writer")


@dataclass(frozen=True)
class Format:
    """A kind of file: a decorator of the function that writes a program to a path.

    Attributes:
        name: As users type it.
        file: The name of the file in a bundle.
        capture: Makes a program of an encoding.
        digests: What must be the same of two programs when the module is captured again.
        runs_code: Whether loading or running a file can do what a program can. A file that cannot is inert: numbers,
            and operators that a runtime has.
        stamp: Adds to a file what an export says of it, by keys.
        stamped: Reads what a file says under a key, without running code of it; "" where it says nothing or cannot be
            read.
        tells_at_once: Whether a capture takes no time, so that it is made to hear why an encoding cannot be written so.
        note: Why writing takes long, if it does.
        write: The decorated function.
        summary: The first line of its docstring.
    """

    name: str
    file: str
    capture: Capture
    digests: Callable[[Program], Digests]
    runs_code: bool
    stamp: Stamp
    stamped: Stamped
    tells_at_once: bool = False
    note: str = ""
    write: Writer = _unwritten
    summary: str = ""

    def __call__(self, write: Writer) -> Writer:
        """Register a function as the writer of this format."""
        made = replace(self, write=write, summary=(write.__doc__ or "").partition("\n")[0])
        FORMATS.add(self.name, made, write.__module__)
        return write

    def refuses(self, encoding: Encoding) -> str:
        """Return why an encoding cannot be written so, in one line, or "" where only an export can tell."""
        try:
            if self.tells_at_once:
                self.capture(encoding, WriteRequest((), 0))
        except BadInput as error:
            return error.message
        return ""


FORMATS: Registry[Format] = Registry("format", __name__)


def runs_code(name: str) -> bool:
    """Return whether to load a file of a format is to run code from it; True for an unknown format."""
    return name not in FORMATS or FORMATS[name].runs_code


def write_saved(save: Callable[[io.BytesIO], None], path: Path) -> None:
    """Write what torch saves to a file, by way of memory."""
    buffer = io.BytesIO()
    save(buffer)  # torch's own writer of files ends the process where a disk is full
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


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Have Python collect no garbage while an exporter runs.

    It makes millions of objects that live. Python would look through all of them again and again, which took 4 of 56
    seconds for a large model.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
