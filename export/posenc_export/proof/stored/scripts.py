"""Code and constants of a TorchScript file against a script of the encoding made again."""

from __future__ import annotations

from tempfile import TemporaryFile

from posenc.encoding import Encoding
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import to_torch
from posenc_export.common.machine import versions
from posenc_export.proof.judging.context import Context
from posenc_export.proof.stored.rebuilding import NotHeld
from posenc_export.write.formats import FORMATS, WriteRequest
from posenc_export.write.formats.torchscript import archive_digests, save_script
from posenc_export.write.targets.feeds import feeds_for


def script_problems(context: Context, encoding: Encoding) -> tuple[list[str], str]:
    """Return which records of a file differ from a script of an encoding, and in words how many were compared.

    Raises NotHeld where another torch, or another version of this tool, wrote the file: its code names modules.
    """
    manifest = context.manifest
    for library in ("torch", "posenc-export"):
        written, installed = manifest.versions.get(library), versions().get(library)
        if written != installed:
            raise NotHeld(f"written by {library} {written}, this is {installed}")
    feeds = feeds_for(encoding.inputs, Case("trace", manifest.trace), manifest.seed or 0)
    request = WriteRequest(tuple(to_torch(feeds[port.name]) for port in encoding.inputs), manifest.max_len)
    program = FORMATS["torchscript"].capture(encoding, request)
    with TemporaryFile() as buffer:  # not in memory, where a large table is already
        save_script(program, request.trace, buffer)
        expected = archive_digests(buffer)
    actual = archive_digests(context.path)
    unlike = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    problems = [f"{name} is not that of a script of the encoding" for name in unlike]
    return problems, f"{len(expected)} records, bit for bit"
