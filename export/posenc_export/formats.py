"""Formats: an encoding in, one file out. To add one, write a decorated function here."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.registry import Registry
from posenc_export.cases import is_length
from posenc_export.problems import ExportFailed, first_line

if TYPE_CHECKING:
    import onnx
    import torch

    from posenc.scheme import Encoding
    from posenc_export.fused import RotaryOp

OPSETS = range(18, 24)
DEFAULT_OPSET = 20
ROTARY_OPS: Mapping[RotaryOp, int] = {"decomposed": OPSETS.start, "onnx": 23, "microsoft": OPSETS.start}
"""Ways to write a rotation, with the lowest opset that has each."""
MAX_IR_VERSION = 10
EXTERNAL_DATA_ABOVE = 2**31 - 2**20
"""Bytes of weights that no longer fit one protobuf file: they go into a file beside it."""


FREEZE_BELOW = 2**26
"""Bytes of constants above which a script is not frozen: PyTorch never frees those of a frozen one."""


@dataclass(frozen=True)
class Request:
    """What a format is given beside the encoding: tensors to trace with, and lengths the graph must hold for."""

    trace: tuple[torch.Tensor, ...]
    longest: int
    opset: int = DEFAULT_OPSET
    rotary_op: RotaryOp = "decomposed"


@dataclass(frozen=True)
class Format:
    """A kind of file: `write(encoding, request, path)` makes it, `content(path)` is what must be the same twice."""

    name: str
    file: str
    write: Callable[[Encoding, Request, Path], None]
    content: Callable[[Path], Mapping[str, bytes]]
    summary: str


FORMATS: Registry[Format] = Registry("format")

Writer = Callable[["Encoding", Request, Path], None]


def format_(name: str, *, file: str, content: Callable[[Path], Mapping[str, bytes]]) -> Callable[[Writer], Writer]:
    """Register the decorated writer as a format."""

    def register(write: Writer) -> Writer:
        FORMATS.add(name, Format(name, file, write, content, (write.__doc__ or "").partition("\n")[0]))
        return write

    return register


def _whole_file(path: Path) -> Mapping[str, bytes]:
    """Digest every file of the artifact; a digest keeps a large table from being held twice."""
    import hashlib

    files = sorted(p for p in path.parent.iterdir() if p.name.startswith(path.name))
    return {p.name: hashlib.file_digest(p.open("rb"), "sha256").digest() for p in files}


def _script_content(path: Path) -> Mapping[str, bytes]:
    """Digest the archive's entries, without the numbers TorchScript gives to types it meets again in one process."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if not n.endswith((".debug_pkl", "serialization_id"))]
        return {
            _unmangled(n.encode()).decode(): hashlib.sha256(_unmangled(archive.read(n))).digest()
            if n.endswith((".py", ".pkl"))
            else hashlib.sha256(archive.read(n)).digest()
            for n in names
        }


def _unmangled(content: bytes) -> bytes:
    return re.sub(rb"(\.|/)?___torch_mangle_\d+", b"", content)


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


@format_("onnx", file="model.onnx", content=_whole_file)
def write_onnx(encoding: Encoding, request: Request, path: Path) -> None:
    """ONNX by torch.export and torch.onnx.export, for ONNX Runtime and every other ONNX consumer."""
    import torch

    from posenc_export.fused import fused

    with fused(encoding.module, request.rotary_op):
        program = capture(encoding, request)
    with quiet():
        try:
            exported = torch.onnx.export(
                program,
                request.trace,
                dynamo=True,
                opset_version=request.opset,
                input_names=[p.name for p in encoding.inputs],
                output_names=[p.name for p in encoding.outputs],
                verbose=False,
            )
        except Exception as error:
            raise ExportFailed(f"torch.onnx.export failed: {first_line(error)}") from error
        assert exported is not None
        _name_axes(exported.model, encoding)
        _free_names(exported.model)
        exported.model.ir_version = min(exported.model.ir_version, MAX_IR_VERSION)
        _clear_notes(exported.model)
        exported.save(path, external_data=_weights(exported.model) > EXTERNAL_DATA_ABOVE)
        for value in exported.model.graph.initializers.values():
            value.const_value = None  # caches of the exporter outlive it: a table must not


def capture(encoding: Encoding, request: Request) -> torch.export.ExportedProgram:
    """Run torch.export with every named axis dynamic; raise ExportFailed where it, or a range of it, went static."""
    import torch

    dynamic = torch.export.Dim.DYNAMIC
    shapes = tuple(dict.fromkeys(port.dynamic, dynamic) for port in encoding.inputs)
    with quiet():
        try:
            program = torch.export.export(encoding.module, request.trace, dynamic_shapes=shapes or None, strict=False)
        except Exception as error:
            raise ExportFailed(f"torch.export refused the module: {explain_capture(error)}") from error
    _check_ranges(program, encoding, request.longest)
    return program


def explain_capture(error: Exception) -> str:
    """Return the part of a torch.export error that says what happened."""
    text = str(error)
    found = re.search(r"(You marked .*? as dynamic but .*?)(?:\.|\n)", text)
    specialised = re.search(r"- (.*?specialized.*?)\n", text)
    told = found or specialised
    return told.group(1) if told else first_line(error)


def _check_ranges(program: torch.export.ExportedProgram, encoding: Encoding, longest: int) -> None:
    """Refuse a program that torch.export, without a word, made to hold for short sequences only."""
    metas = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    metas = metas[len(metas) - len(encoding.inputs) :]
    for port, value in zip(encoding.inputs, metas, strict=True):
        for index, axis in port.dynamic.items():
            size = value.shape[index]
            if isinstance(size, int):
                raise ExportFailed(f"torch.export made axis {axis!r} of {port.name} static, at {size}")
            bounds = program.range_constraints.get(size.node.expr)
            if is_length(axis) and bounds is not None and bounds.upper < longest:
                raise ExportFailed(
                    f"torch.export keeps the graph to {axis} <= {bounds.upper}, but it must hold up to {longest}: "
                    f"the module branches on the length, or --max-len asks for more than it has"
                )


def _name_axes(model: Any, encoding: Encoding) -> None:
    """Give the symbolic dims of a graph the names of the ports' axes, in place."""
    import onnx_ir as ir

    names: dict[str, str] = {}
    for value, port in zip(model.graph.inputs, encoding.inputs, strict=True):
        for index, axis in port.dynamic.items():
            names.setdefault(str(value.shape[index].value), axis)
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b") if names else None
    values = [*model.graph.inputs, *(v for node in model.graph.all_nodes() for v in node.outputs)]
    for value in values:
        for i, dim in enumerate(value.shape or ()):
            if pattern and isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                value.shape[i] = ir.SymbolicDim(pattern.sub(lambda m: names[m.group(0)], str(dim.value)))
    # An output axis is one of ours by definition: say its name, not a formula for it.
    for value, port in zip(model.graph.outputs, encoding.outputs, strict=True):
        for index, axis in port.dynamic.items():
            if value.shape is not None and isinstance(value.shape[index], ir.SymbolicDim):
                value.shape[index] = ir.SymbolicDim(axis)


def _free_names(model: Any) -> None:
    """Rename inner values that the exporter gave the name of an input or an output."""
    ports = {id(v): v.name for v in (*model.graph.inputs, *model.graph.outputs)}
    taken = set(ports.values())
    for value in (*(v for node in model.graph.all_nodes() for v in node.outputs), *model.graph.initializers.values()):
        if id(value) not in ports and value.name in taken:
            value.name = f"{value.name}_inner"


def _clear_notes(model: Any) -> None:
    """Drop the exporter's stack traces and paths: they differ between machines and tell nothing to a runtime."""
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()


def _weights(model: Any) -> int:
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def stamp_onnx(path: Path, metadata: Mapping[str, str]) -> None:
    """Add metadata_props to an ONNX file without reading it: appended protobuf fields are merged by every parser."""
    import onnx

    extra = onnx.ModelProto()
    for key, value in metadata.items():
        extra.metadata_props.add(key=key, value=value)
    with path.open("ab") as file:
        file.write(extra.SerializeToString())


def read_onnx(path: Path) -> onnx.ModelProto:
    """Load the graph of an ONNX file, leaving weights that lie beside it on disk."""
    import onnx

    return onnx.load(path, load_external_data=False)


@format_("torchscript", file="model.pt", content=_script_content)
def write_torchscript(encoding: Encoding, request: Request, path: Path) -> None:
    """TorchScript by torch.jit.script, frozen where that keeps the bits, for libtorch and PyTorch."""
    import torch

    with quiet(), torch.no_grad():
        try:
            scripted = torch.jit.script(encoding.module.eval())
        except Exception as error:
            raise ExportFailed(f"torch.jit.script refused the module: {_explain_script(error)}") from error
        torch.jit.save(_frozen(scripted, request.trace), str(path))


def _frozen(scripted: Any, trace: tuple[torch.Tensor, ...]) -> Any:
    """Freeze a script where that keeps the bits, and where PyTorch's keeping its constants for good costs little.

    What has parameters multiplies matrices by them, with bits that depend on where in memory they lie: it is left.
    """
    import torch

    size = sum(t.nbytes for t in scripted.buffers())
    if size > FREEZE_BELOW or any(True for _ in scripted.parameters()):
        return scripted
    frozen = torch.jit.freeze(scripted)
    return frozen if _same(frozen(*trace), scripted(*trace)) else scripted


def _same(one: Any, other: Any) -> bool:
    import torch
    from torch.utils import _pytree as pytree

    pairs = zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True)
    return all(torch.equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def _explain_script(error: Exception) -> str:
    """Return what the compiler says and the line it says it of."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    place = next((line.strip() for line in lines if "File " in line and "line " in line), "")
    return f"{lines[0].strip() if lines else type(error).__name__} {place}; leave it out with -f onnx"
