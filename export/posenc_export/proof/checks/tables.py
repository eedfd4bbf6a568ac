"""A check of a file's stored tensors: every row is held, by a case that reads it or against float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import Encoding
from posenc.memory import GIB, free_memory
from posenc.ports import Array, Bools
from posenc.spec import BLOCK_ROWS, is_table_rows
from posenc_export.bundle.golden import read_golden
from posenc_export.bundle.identity import TABLE_ROWS
from posenc_export.bundle.rules import rules_of
from posenc_export.common.arrays import free
from posenc_export.proof.checks import CheckResult, Context, Words, check
from posenc_export.proof.runtimes import Missing
from posenc_export.proof.stored.caches import cache_problems
from posenc_export.proof.stored.far_positions import far_out
from posenc_export.proof.stored.matching import (
    Digest,
    Twin,
    are,
    digest,
    is_one_of,
    module_rows,
    ranges,
    side_by_side,
    twin,
)
from posenc_export.proof.stored.rebuilding import NotHeld, rebuilt, written_elsewhere
from posenc_export.proof.stored.rows_read import GoldenCalls, RowsRead, axes_read, rows_read
from posenc_export.proof.stored.scripts import script_problems
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.checked_positions import without_nan_rows
from posenc_export.write.formats.onnx.tensors import stored_tensors

if TYPE_CHECKING:
    from onnx import ModelProto

NEARLY_ALL = 0.9
"""The share of rows from which on a table of another program is taken for the encoding's."""
COPIES = 3
"""Copies of a file's tables in memory: its own, the encoding's, and the part that is being compared."""
MOST_TABLES = 2
"""Tables with rows that no case reads, up to which a note lists the rows of each."""


@dataclass(frozen=True)
class TableFile:
    """An ONNX file: its graph, its stored tensors, and the axis along which each is looked up."""

    context: Context
    model: ModelProto
    tensors: Mapping[str, Array]
    axes: Mapping[str, int]

    def read(self, names: Sequence[str]) -> dict[str, RowsRead]:
        """Return the rows of some tensors that the golden cases read, and compare."""
        folder, manifest = self.context.folder, self.context.manifest
        cases = read_golden(folder, manifest)
        calls = GoldenCalls(manifest.inputs, manifest.outputs, folder, cases, self.context.timeout)
        some = {name: self.tensors[name] for name in names}
        return rows_read(self.model, some, calls) if some else {}

    @property
    def rows(self) -> int:
        """The number of stored rows."""
        return sum(array.shape[self.axes[name]] for name, array in self.tensors.items())

    def share(self, count: int) -> str:
        """Return how many of the rows these are, in words; nothing where nothing is stored."""
        return f"{count:,} of {self.rows:,} stored rows" if self.rows else ""


@check(
    "tables",
    stage="artifact",
    subjects=("onnx", "torchscript", "cache", "cache-npz"),
    words=Words(
        code="PE113",
        asks="Is every stored row of the file checked, by a case that reads it or against float64?",
        failure="A number of the file is not the encoding's, or nothing has looked at it: calls that read it are wrong",
        remedy="Export anew; where the file was changed by another tool, ask that tool for the constants it had.",
        example="a row of a table that is zero, which only positions beyond max_len read",
    ),
)
def tables(context: Context) -> CheckResult:
    """Every stored row is the encoding's, bit for bit, and agrees with float64, or a compared case reads it."""
    needed = COPIES * sum(artifact.bytes for artifact in context.manifest.artifacts)
    if needed > free_memory():
        raise Missing(f"takes {needed / GIB:.3g} GiB of memory, and {free_memory() / GIB:.3g} are free")
    try:
        return WAYS.get(context.artifact.format, _of_onnx)(context)
    finally:
        free(context.artifact.bytes)


def _of_onnx(context: Context) -> CheckResult:
    model = read_onnx(context.path)
    tensors = stored_tensors(model, context.path.parent)
    axes = axes_read(model, tensors)
    if context.manifest.check_positions:
        tensors = without_nan_rows(tensors, axes)
    file = TableFile(context, model, tensors, axes)
    if context.manifest.foreign:
        return _of_foreign(file)
    if not rules_of(context.manifest.family).registered:
        return _of_own_module(file)
    try:
        encoding = rebuilt(context.manifest, own=context.capture is not None)
    except NotHeld as reason:
        return _not_rebuilt(file, str(reason))
    return _of_scheme(file, encoding)


def _of_foreign(file: TableFile) -> CheckResult:
    """Say which rows no case reads; where a table is the encoding's in nearly all rows, these must be its rows, too.

    What another program stores need not be what our encoding stores: otherwise cases hold it, or nothing does.
    """
    finding = _of_own_module(file)
    try:
        tensors = _tensors_of_forms(file)
    except NotHeld:
        return finding
    twins = {name: twin(array, file.axes[name], tensors, near=True) for name, array in file.tensors.items()}
    alike = {name: match.matches for name, match in twins.items() if match and match.matches.mean() > NEARLY_ALL}
    read = file.read([name for name, rows in alike.items() if not rows.all()])
    wrong = {name: ~alike[name] & ~rows.compared for name, rows in read.items()}
    lines = [
        f"{ranges(r)} of {name} {are(r)} not the encoding's, and no case reads it"
        for name, r in wrong.items()
        if r.any()
    ]
    return replace(finding, problems=[*finding.problems, *lines])


def _tensors_of_forms(file: TableFile) -> dict[str, Array]:
    """Return the encoding's tensors, made again; raise NotHeld where it cannot be.

    A file of another program does not say how many rows are stored where others are composed. Each of its tables may.
    """
    from posenc.sincos.elsewhere import digits_of  # torch takes a second to load

    manifest = file.context.manifest
    tensors: dict[str, Array] = {}
    lengths = {array.shape[file.axes[name]] for name, array in file.tensors.items()}
    for rows in (BLOCK_ROWS, *sorted(filter(is_table_rows, lengths - {BLOCK_ROWS}))):
        encoding = rebuilt(replace(manifest, facts={**manifest.facts, TABLE_ROWS: str(rows)}), own=False)
        tensors |= {f"{name} of {rows}": array for name, array in module_rows(encoding.module).tensors.items()}
        if not digits_of(encoding.module):
            break
    return tensors


def _of_scheme(file: TableFile, encoding: Encoding) -> CheckResult:
    """Compare the tensors of a file with those of the encoding made again, and run its graph far out."""
    module = side_by_side(module_rows(encoding.module), encoding.tables)
    elsewhere = written_elsewhere(file.context.manifest)
    twins = {n: twin(a, file.axes[n], module.tensors, bool(elsewhere)) for n, a in file.tensors.items()}
    # a row is held if it is equal to a held row of the module, or if a compared case reads it
    held = {name: _held(file, name, match, module.held) for name, match in twins.items()}
    unheld = [name for name, rows in held.items() if not rows.all()]
    for name, rows in file.read(unheld).items():
        held[name] = held[name] | rows.compared
    matches = {name: match for name, match in twins.items() if match is not None}
    changed = {name: ~match.matches for name, match in matches.items() if not match.matches.all()}
    problems = [*module.problems]
    problems += [f"{ranges(rows)} of {name} {are(rows)} not the encoding's" for name, rows in changed.items()]
    left = {name: ~rows for name, rows in held.items() if not rows.all() and name not in changed}
    lines = [
        f"{ranges(rows)} of {name}: nothing held {'it' if rows.sum() == 1 else 'them'}" for name, rows in left.items()
    ]
    count = sum(int((rows & ~changed.get(name, np.False_)).sum()) for name, rows in held.items())
    far = far_out(file.context, file.model, encoding, {name: match.name for name, match in matches.items()})
    words = "; ".join(filter(None, [file.share(count), *far.tried]))
    # random weights may differ where another version draws them: then rows without a match are a note
    reason = _other_weights(file.context, elsewhere)
    if reason and all(twins[name] is None for name in left):
        note = f"not held: {reason}; rows held at export: {file.rows:,}, here: {count:,}"
        return CheckResult([*problems, *far.problems], words, note if left else "")
    return CheckResult([*problems, *lines, *far.problems], words)


def _other_weights(context: Context, elsewhere: str) -> str:
    """Return why random numbers may differ where an encoding is made again, or nothing."""
    if context.capture is not None:
        return ""
    if context.manifest.seed is None:
        return "the bundle does not say the seed of its numbers at random"
    return f"numbers at random are those of {elsewhere}" if elsewhere else ""


def _held(file: TableFile, name: str, match: Twin | None, held: Mapping[str, Bools]) -> Bools:
    """Return which rows of a stored tensor are equal to held rows of the module."""
    rows = file.tensors[name].shape[file.axes[name]]
    if match is None:
        return np.zeros(rows, bool)
    of_module = held[match.name]
    return match.matches & (of_module if not match.is_transposed and len(of_module) == rows else of_module.all())


def _not_rebuilt(file: TableFile, reason: str) -> CheckResult:
    """Say which rows the cases read, where the encoding cannot be made again; at an export, this is a failure."""
    count = sum(int(rows.compared.sum()) for rows in file.read(list(file.tensors)).values())
    words = file.share(count)
    if file.context.capture is not None:
        return CheckResult([f"not held: {reason}"], words)
    return CheckResult((), words, f"not held: {reason}; rows held at export: {file.rows:,}, here: {count:,}")


def _of_own_module(file: TableFile) -> CheckResult:
    """Say how many numbers are those of the module's tensors, and which rows of a look-up no case reads."""
    read = file.read(list(file.tensors))
    words = [file.share(sum(int(rows.compared.sum()) for rows in read.values()))]
    unread = [
        f"{ranges(~rows.read)} of table {name} {'was' if (~rows.read).sum() == 1 else 'were'} never read"
        for name, rows in read.items()
        if not rows.read.all()
    ]
    if len(unread) > MOST_TABLES:  # a whole model has dozens
        unread = [*unread[:1], f"neither were rows of {len(unread) - 1} more tables"]
    own = file.context.capture.stored if file.context.capture else {}
    # by digests: the module itself is gone when a bundle is validated
    equal = sum(array.size for array in file.tensors.values() if is_one_of(array, set(own.values())))
    count = sum(array.size for array in file.tensors.values())
    words += [f"{equal:,} of {count:,} numbers are the module's parameters and buffers, bit for bit"] if own else []
    namesakes = {name: digest(array) for name, array in file.tensors.items() if name in own}
    changed = [f"{name} is not the module's" for name, stored in namesakes.items() if _is_changed(own[name], stored)]
    return CheckResult(changed, "; ".join(filter(None, words)), "; ".join(unread))


def _is_changed(own: Digest, stored: Digest) -> bool:
    """Return whether a tensor has the dtype and shape of the module's, and unlike bits."""
    return own[0] == stored[0] and own != stored


def _of_script(context: Context) -> CheckResult:
    """Compare code and constants of a TorchScript file with a script of the encoding made again."""
    try:
        encoding = rebuilt(context.manifest, own=context.capture is not None)
        problems, words = script_problems(context, encoding)
    except NotHeld as reason:
        return CheckResult((), "", f"not held: {reason}")
    return CheckResult(problems, words)


def _of_cache(context: Context) -> CheckResult:
    """Compare every row of a cache with the scheme's float64 reference."""
    try:
        problems, words = cache_problems(context)
    except NotHeld as reason:
        return CheckResult((), "", f"not held: {reason}")
    return CheckResult(problems, words)


WAYS: Mapping[str, Callable[[Context], CheckResult]] = {
    "torchscript": _of_script,
    **dict.fromkeys(("cache", "cache-npz"), _of_cache),
}
"""How files are looked at that are not ONNX, by format."""
