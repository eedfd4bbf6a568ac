"""A file of cosines and sines against the scheme's float64 reference, at every position."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import to_numpy
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.judging.context import Context
from posenc_export.proof.stored.matching import are, ranges, shares_alike
from posenc_export.proof.stored.rebuilding import explicit_form, written_elsewhere
from posenc_export.write.formats import WriteRequest
from posenc_export.write.formats.cache import COS, SIN, caches, read_cache

OUTPUTS: Mapping[str, str] = {"cos": COS, "sin": SIN}
"""The tensors of a file by the outputs of the encoding."""
CHUNK = 4096
"""Rows that are computed in float64 at a time."""


def cache_problems(context: Context) -> tuple[list[str], str]:
    """Return which rows are not the encoding's or not what the reference says, and in words how many were compared.

    Raises NotHeld where the encoding cannot be made again.
    """
    encoding = explicit_form(context.manifest, own=context.capture is not None)
    near = bool(written_elsewhere(context.manifest))
    held, rows = read_cache(context.path), context.manifest.max_len
    problems = []
    for name, tensor in caches(encoding, WriteRequest((), rows)).items():
        expected, array = to_numpy(tensor), held[name]
        if (array.dtype, array.shape) != (expected.dtype, expected.shape):
            return [f"{name} is {array.dtype}{[*array.shape]}, expected {expected.dtype}{[*expected.shape]}"], ""
        # neighbouring floats count as equal where another NumPy or torch computed the table
        changed = shares_alike(array, expected, 0, near) < 1
        problems += [f"{ranges(changed)} of {name} {are(changed)} not the encoding's"] if changed.any() else []
    # the reference is a second opinion, which shares no function with the module
    for first in range(0, rows, CHUNK):
        last = min(first + CHUNK, rows) - 1
        parts = {output: held[name][None, first : last + 1] for output, name in OUTPUTS.items()}
        problems += _problems(encoding, parts, first, last)
    return problems, f"all {rows:,} rows of both, bit for bit and against float64"


def _problems(encoding: Encoding, parts: Mapping[str, Array], first: int, last: int) -> list[str]:
    """Return what is wrong with successive rows of both."""
    (port,) = encoding.inputs
    positions = np.arange(first, last + 1, dtype=np.int64)[None]
    reference = encoding.reference({port.name: positions}, None)
    tolerance = encoding.tolerance(Case("rows", {"batch": 1, "seq": last + 1 - first}, first, last))
    problems = []
    for name, part in parts.items():
        judgement = judge(measure(part, np.asarray(reference[name], np.float64)), tolerance)
        if not judgement.passed:
            problems.append(f"{name} of rows {first}..{last} is not what float64 says: {judgement.reason}")
    return problems
