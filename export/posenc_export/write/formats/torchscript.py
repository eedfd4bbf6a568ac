"""TorchScript, by torch.jit.script; of a user's module that this cannot compile, by torch.jit.trace.

A trace is what a module ran on some inputs. It is taken twice, at other sizes, and must be the same program. Where
torch.export takes the module, it says what the module does by sizes; elsewhere a trace that asks a tensor for a number
is refused.

TorchScript numbers the types that it meets again in one process, so that scripts are compared without those numbers.
Two processes list a module's constants in different orders, after Python's hash seed; the writer sorts them.
"""

from __future__ import annotations

import io
import re
import zipfile
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import ExportFailed, check_machine, first_line
from posenc_export.write.formats import Digests, WriteRequest, quiet, write_saved
from posenc_export.write.formats.archives import ARCHIVE, STAMP
from posenc_export.write.formats.capture import GRAPH, Findings, capture, findings
from posenc_export.write.formats.tracing import trace_of
from posenc_export.write.formats.ways import WAYS

if TYPE_CHECKING:
    import torch

    from posenc.encoding import Encoding

FREEZE_BELOW = 2**26
"""Bytes of constants above which a script is not frozen: PyTorch never frees those of a frozen one."""

CODE = 2**23
"""Bytes that the code and the records of a script never reach."""

LEAVE_OUT = "; leave it out with -f onnx"
"""What to do where no script can be written."""
VERSIONS = ("version", ".data/version")
_WRITTEN_AT_THE_END = (*VERSIONS, "byteorder", ".data/serialization_id")
"""Records of an archive that its writer adds by itself."""


SHAPE = re.compile(r"\([^()]*device=[\w:]+\)|\s*#.*|, scope: \S+")
"""What the graph of a trace says of the inputs that it ran on, and of where its code lies."""


def _digests(scripted: torch.jit.ScriptModule) -> Digests:
    """Return the digests of a script's archive; of a trace those of its graph, and of the archive's numbers."""
    import hashlib

    import torch
    from torch.jit._trace import TopLevelTracedModule

    with quiet(), io.BytesIO() as buffer:
        torch.jit.save(scripted, buffer)
        digests = archive_digests(buffer)
        if not isinstance(scripted, TopLevelTracedModule):
            return digests
        # classes that are met again lie in other files, and examples are of the inputs
        numbers = {name: digest for name, digest in digests.items() if not name.endswith((".py", "traced_inputs.pkl"))}
        graph = unmangled(SHAPE.sub("", str(scripted.inlined_graph)).encode())
        return {GRAPH: hashlib.sha256(graph).digest(), **numbers}


def archive_digests(path: Path | IO[bytes]) -> Digests:
    """Digest the entries of an archive, without its stamps and the numbers that TorchScript gives to repeated types."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        digests = {}
        for name in archive.namelist():
            # stamps say which graph it is, and are added after the digest
            if not name.endswith((".debug_pkl", "serialization_id")) and not STAMP.fullmatch(name):
                content = archive.read(name)
                content = unmangled(content) if name.endswith((".py", ".pkl")) else content
                digests[unmangled(name.encode()).decode()] = hashlib.sha256(content).digest()
        return digests


def unmangled(content: bytes) -> bytes:
    """Return names without the numbers that TorchScript gives to types it meets again."""
    return re.sub(rb"(\.|/)?___torch_mangle_\d+", b"", content)


def script(encoding: Encoding, request: WriteRequest) -> torch.jit.ScriptModule:
    """Return the script of a module; raise ExportFailed where TorchScript cannot compile it."""
    import torch

    with quiet():
        try:
            return torch.jit.script(encoding.module.eval())
        except Exception as error:
            check_machine(error)
            why = f"torch.jit.script refused the module: {_explain_script(error)}"
            if not rules_of(encoding.family).tries_other_ways or request.at is None:
                raise ExportFailed(f"{why}{LEAVE_OUT}") from error
    try:
        return _trace(encoding, request, why)
    except ExportFailed as error:
        raise ExportFailed(f"{why}; {error.message}{LEAVE_OUT}") from error


def _trace(encoding: Encoding, request: WriteRequest, why: str) -> torch.jit.ScriptModule:
    """Return a trace of a user's module; raise ExportFailed where it may not be all that the module does."""
    import torch

    assert request.at is not None
    try:
        found = findings(capture(encoding, lambda module: module, request))
    except ExportFailed:
        found = Findings()
    # a trace at short lengths has seen no other branch than theirs, unless the module runs on symbols
    branches = found.way == WAYS[0].name
    run: Any = partial(torch.jit.trace, check_trace=False)
    first, second = (
        trace_of(encoding.uncalled().module, partial(run, example_inputs=inputs), "torch.jit.trace", branches=branches)
        for inputs in (request.trace, request.at(request.other_sizes))
    )
    try:
        same = _digests(first) == _digests(second)
    except RuntimeError as error:  # of what a trace may hold, a file holds no function of Python
        raise ExportFailed(f"torch.jit.save failed: {first_line(error)}") from error
    # numbers that a trace keeps of the inputs differ between two
    if not same:
        raise ExportFailed("torch.jit.trace keeps sizes or numbers of the inputs")
    notes, sizes = (found.notes, found.sizes) if branches else ((), ())
    made: torch.jit.ScriptModule = first
    made.findings = Findings((f"written by torch.jit.trace: {why}", *notes), sizes)
    return made


@ARCHIVE("torchscript", file="model.pt", capture=script, digests=_digests)
def write_torchscript(scripted: torch.jit.ScriptModule, request: WriteRequest, path: Path) -> None:
    """TorchScript by torch.jit.script or trace, frozen where that keeps the bits, for libtorch and PyTorch."""
    write_saved(partial(save_script, scripted, request.trace), path)


def save_script(scripted: torch.jit.ScriptModule, trace: tuple[torch.Tensor, ...], buffer: IO[bytes]) -> None:
    """Save a script as files hold it, frozen where that keeps the bits."""
    import torch

    with quiet(), torch.no_grad():
        tables = sum(t.nbytes for t in (*scripted.buffers(), *scripted.parameters()))
        _save(_frozen(scripted, trace), tables, buffer)


def _save(scripted: torch.jit.ScriptModule, tables: int, buffer: IO[bytes]) -> None:
    """Save a script so that its file is the same wherever it is made.

    Debug records are left out, which hold the paths of sources; constants of a class, which torch lists in the order of
    a set, are put in order.
    """
    import torch

    with TemporaryDirectory(prefix="posenc-script-", ignore_cleanup_errors=True) as folder:
        whole = str(Path(folder, "archive.pt"))  # a buffer would hold each table three times
        _find_room(whole, tables)
        torch.jit.save(scripted, whole)
        # record by record: debug records are left out, and constants sorted
        reader: Any = torch._C.PyTorchFileReader(whole)
        writer = torch._C.PyTorchFileWriter(buffer)
        # a script without tensors has it in a folder
        version = next(name for name in VERSIONS if reader.has_record(name))
        writer.set_min_version(int(reader.get_record(version)))
        for name in reader.get_all_records():
            if name not in _WRITTEN_AT_THE_END and not name.endswith(".debug_pkl"):
                record = reader.get_record(name)
                record = _constants_in_order(record) if name.endswith(".py") else record
                writer.write_record(name, record, len(record))
        writer.write_end_of_file()


def _find_room(path: str, tables: int) -> None:
    """Write a file as long as a script with so many bytes of tables, so that a full disk raises an error."""
    # torch's own writer ends the process
    with open(path, "wb") as file:
        for _ in range(tables // CODE + 1):
            file.write(bytes(CODE))


def _constants_in_order(code: bytes) -> bytes:
    """Return code in which the constants of a class, a line each, are sorted."""
    return re.sub(
        rb"(?:^  \w+ : Final\[.*\n)+", lambda lines: b"".join(sorted(lines[0].splitlines(True))), code, flags=re.M
    )


def _frozen(scripted: Any, trace: tuple[torch.Tensor, ...]) -> Any:
    """Freeze a script where that keeps the bits, and where its constants are small: PyTorch never frees them."""
    import torch

    size = sum(t.nbytes for t in scripted.buffers())
    # a product with a parameter has bits that depend on where in memory that lies
    if size > FREEZE_BELOW or any(True for _ in scripted.parameters()):
        return scripted
    frozen = torch.jit.freeze(scripted)
    # a module may write into its inputs: each call gets copies
    with_copies = ([tensor.clone() for tensor in trace] for _ in range(2))
    return frozen if _same(frozen(*next(with_copies)), scripted(*next(with_copies))) else scripted


def _same(frozen: object, scripted: object) -> bool:
    import torch
    from torch.utils import _pytree as pytree

    pairs = zip(pytree.tree_leaves(frozen), pytree.tree_leaves(scripted), strict=True)
    return all(torch.equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def _explain_script(error: Exception) -> str:
    """Return the first line of the compiler's error and the place in the source."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    place = next((line.strip() for line in lines if "File " in line and "line " in line), "")
    words = f"{lines[0].strip() if lines else type(error).__name__} {place}".strip()
    return re.sub(r" at 0x[0-9a-f]+", "", words)  # of another address in every run
