"""A check of what a file stores: every row is held, by a case that reads it or against float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import Encoding
from posenc.memory import GIB, free_memory
from posenc.ports import Array
from posenc_export.arrays import free
from posenc_export.bundle.golden import read_golden
from posenc_export.bundle.rules import rules_of
from posenc_export.formats.onnx import read_onnx
from posenc_export.formats.onnx.tensors import stored_tensors
from posenc_export.runtimes import Missing
from posenc_export.validation.checks import Context, Finding, Words, check
from posenc_export.validation.stored.far_positions import far_out
from posenc_export.validation.stored.matching import Bools, Digest, Twin, digest, module_rows, ranges, twin
from posenc_export.validation.stored.rebuilding import NotHeld, rebuilt, written_elsewhere
from posenc_export.validation.stored.rows_read import Calls, Read, axes_read, rows_read
from posenc_export.validation.stored.scripts import script_problems

if TYPE_CHECKING:
    from onnx import ModelProto

COPIES = 3
"""So many times a file's tables are in memory: its own, the encoding's, and what is compared at a time."""


@dataclass(frozen=True)
class File:
    """An ONNX file: its graph, what that stores, and the axis along which each tensor is looked up."""

    context: Context
    model: ModelProto
    tensors: Mapping[str, Array]
    axes: Mapping[str, int]

    def read(self, names: Sequence[str]) -> dict[str, Read]:
        """Return which rows of some tensors the golden cases read, and compare."""
        folder, manifest = self.context.path.parent, self.context.manifest
        cases = read_golden(folder, manifest)
        calls = Calls(manifest.inputs, manifest.outputs, folder, cases, self.context.timeout)
        some = {name: self.tensors[name] for name in names}
        return rows_read(self.model, some, calls) if some else {}

    @property
    def rows(self) -> int:
        """How many rows are stored in all."""
        return sum(array.shape[self.axes[name]] for name, array in self.tensors.items())


@check(
    "tables",
    stage="artifact",
    of=("onnx", "torchscript"),
    words=Words(
        code="PE113",
        asks="Is every row of what the file stores held: by a case that reads it, or against float64?",
        failure="A number of the file is not the encoding's, or nothing has looked at it: calls that read it are wrong",
        remedy="Export anew; where the file was changed by another tool, ask that tool for the constants it had.",
        example="a row of a table that is zero, which only positions beyond max_len read",
    ),
)
def tables(context: Context) -> Finding:
    """Every stored row is the encoding's, bit for bit, and held against float64, or read by a case that is compared."""
    needed = COPIES * sum(artifact.bytes for artifact in context.manifest.artifacts)
    if needed > free_memory():
        raise Missing(f"takes {needed / GIB:.3g} GiB of memory, and {free_memory() / GIB:.3g} are free")
    try:
        return _of_script(context) if context.artifact.format == "torchscript" else _of_onnx(context)
    finally:
        free(context.artifact.bytes)


def _of_onnx(context: Context) -> Finding:
    model = read_onnx(context.path)
    tensors = stored_tensors(model, context.path.parent)
    file = File(context, model, tensors, axes_read(model, tensors))
    if not rules_of(context.manifest.family).registered:
        return _of_own_module(file)
    try:
        encoding = rebuilt(context.manifest, own=context.capture is not None)
    except NotHeld as reason:
        return _not_rebuilt(file, str(reason))
    return _of_scheme(file, encoding)


def _of_scheme(file: File, encoding: Encoding) -> Finding:
    """Hold the tensors of a file against those of the encoding made again, and its graph at positions far out."""
    mine = module_rows(encoding.module)
    elsewhere = written_elsewhere(file.context.manifest)
    twins = {n: twin(a, file.axes[n], mine.tensors, bool(elsewhere)) for n, a in file.tensors.items()}
    held = {name: _held(file, name, one, mine.held) for name, one in twins.items()}
    unheld = [name for name, rows in held.items() if not rows.all()]
    for name, rows in file.read(unheld).items():
        held[name] = held[name] | rows.compared
    changed = {name: ~one.same for name, one in twins.items() if one is not None and not one.same.all()}
    problems = [*mine.problems]
    problems += [f"{ranges(rows)} of {name} {_are(rows)} not the encoding's" for name, rows in changed.items()]
    left = {name: ~rows for name, rows in held.items() if not rows.all() and name not in changed}
    lines = [
        f"{ranges(rows)} of {name}: nothing held {'it' if rows.sum() == 1 else 'them'}" for name, rows in left.items()
    ]
    count = sum(int((rows & ~changed.get(name, np.False_)).sum()) for name, rows in held.items())
    far = far_out(file.context, file.model, encoding, {n: one.name for n, one in twins.items() if one is not None})
    words = "; ".join([f"{count:,} of {file.rows:,} rows", *far.tried])
    reason = _other_weights(file.context, elsewhere)
    if reason and all(twins[name] is None for name in left):
        note = f"not held: {reason}; rows held at export: {file.rows:,}, here: {count:,}"
        return Finding([*problems, *far.problems], words, note if left else "")
    return Finding([*problems, *lines, *far.problems], words)


def _other_weights(context: Context, elsewhere: str) -> str:
    """Return why numbers at random may be others where an encoding is made again, or nothing."""
    if context.capture is not None:
        return ""
    if context.manifest.seed is None:
        return "the bundle does not say the seed of its numbers at random"
    return f"numbers at random are those of {elsewhere}" if elsewhere else ""


def _are(rows: Bools) -> str:
    return "is" if rows.sum() == 1 else "are"


def _held(file: File, name: str, one: Twin | None, held: Mapping[str, Bools]) -> Bools:
    """Return which rows of a stored tensor are the module's, which are held."""
    rows = file.tensors[name].shape[file.axes[name]]
    if one is None:
        return np.zeros(rows, bool)
    of_module = held[one.name]
    return one.same & (of_module if not one.is_transposed and len(of_module) == rows else of_module.all())


def _not_rebuilt(file: File, reason: str) -> Finding:
    """Say what the cases read, where the encoding cannot be made again; at an export, that is a failure."""
    count = sum(int(rows.compared.sum()) for rows in file.read(list(file.tensors)).values())
    words = f"{count:,} of {file.rows:,} rows"
    if file.context.capture is not None:
        return Finding([f"not held: {reason}"], words)
    return Finding((), words, f"not held: {reason}; rows held at export: {file.rows:,}, here: {count:,}")


def _of_own_module(file: File) -> Finding:
    """Say which numbers are those of the module's tensors, and which rows of a look-up no case reads."""
    read = file.read(list(file.tensors))
    words = [f"{sum(int(rows.compared.sum()) for rows in read.values()):,} of {file.rows:,} rows"]
    unread = [
        f"{ranges(~rows.read)} of table {name} {'was' if (~rows.read).sum() == 1 else 'were'} never read"
        for name, rows in read.items()
        if not rows.read.all()
    ]
    own = file.context.capture.stored if file.context.capture else {}
    digests = {name: digest(array) for name, array in file.tensors.items()}
    same = sum(file.tensors[name].size for name, one in digests.items() if one in own.values())
    count = sum(array.size for array in file.tensors.values())
    words += [f"{same:,} of {count:,} numbers are the module's parameters and buffers, bit for bit"] if own else []
    changed = [f"{name} is not the module's" for name, one in digests.items() if _is_changed(own.get(name, one), one)]
    return Finding(changed, "; ".join(words), "; ".join(unread))


def _is_changed(own: Digest, stored: Digest) -> bool:
    """Return whether a tensor of the name, the dtype and the shape of one of the module's has other bits."""
    return own[0] == stored[0] and own != stored


def _of_script(context: Context) -> Finding:
    """Hold code and constants of a TorchScript file against a script of the encoding made again."""
    try:
        encoding = rebuilt(context.manifest, own=context.capture is not None)
        problems, words = script_problems(context, encoding)
    except NotHeld as reason:
        return Finding((), "", f"not held: {reason}")
    return Finding(problems, words)
