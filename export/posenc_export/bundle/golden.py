"""golden.npz: for every case its inputs, eager outputs, float64 reference and, if asked, a model's own outputs.

Where elements of masked tokens may be farther off, it says which these are; of hard rows, how far each element may be.

Arrays above 2^17 elements keep runs of rows from the first to the last; the rest of such an input is zeros. bfloat16,
which NumPy lacks, is stored as its bits in uint16.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from posenc.memory import check_room
from posenc.ports import Array, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.headers import GoldenArrays
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.sampling import long_axis, spread
from posenc_export.common.arrays import FLOATS, from_stored, numpy_dtype, to_stored
from posenc_export.common.errors import BadInput, check_machine

GOLDEN = "golden.npz"
REFERENCE, MODEL, ROWS, MASKED, ALLOWED = ".reference", ".model", ".rows", ".masked", ".allowed"
DAMAGE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""Exceptions of reading a file that is damaged, encrypted or compressed in an unknown way."""


def write_golden(folder: Path, cases: Sequence[GoldenCase]) -> None:
    """Write cases: CASE/PORT, CASE/OUTPUT and, beside it, .reference, .model if asked, .rows, .masked, .allowed."""
    arrays: dict[str, Array] = {}
    for golden in cases:
        name = golden.case.name
        arrays |= {f"{name}/{k}": to_stored(v) for k, v in {**golden.feeds, **golden.eager}.items()}
        arrays |= {f"{name}/{k}{REFERENCE}": v for k, v in golden.reference.items()}
        arrays |= {f"{name}/{k}{MODEL}": v for k, v in golden.model.items()}
        arrays |= {f"{name}/{k}{ROWS}": v for k, v in golden.rows.items()}
        arrays |= {f"{name}/{k}{MASKED}": v for k, v in golden.masked.items()}
        arrays |= {f"{name}/{k}{ALLOWED}": v for k, v in golden.allowed.items()}
    np.savez(folder / GOLDEN, **arrays)  # type: ignore[arg-type]


def read_golden(folder: Path, manifest: Manifest) -> Iterator[GoldenCase]:
    """Yield every recorded case, one at a time; raise BadInput if the file is damaged.

    An array that is not as the manifest says of ports and cases counts as damage, and is refused before it is read.
    """
    try:
        with zipfile.ZipFile(folder / GOLDEN) as archive:
            for case in manifest.cases:  # one at a time: all together may not fit into memory
                yield _golden_case(GoldenArrays(archive), manifest, case)
    except DAMAGE as error:
        check_machine(error)
        raise BadInput(f"{folder / GOLDEN} is damaged: {error}") from error


def _golden_case(stored: GoldenArrays, manifest: Manifest, case: Case) -> GoldenCase:
    feeds = {port.name: _feed(stored, case, port) for port in manifest.inputs}
    if case.refused:
        return GoldenCase(case, feeds)
    eager, reference, rows, model, masked, allowed = {}, {}, {}, {}, {}, {}
    for port in manifest.outputs:
        key, name = f"{case.name}/{port.name}", port.name
        shape = _sizes(port, case)
        if key + ROWS in stored:  # then the reference and the model's outputs have the same rows alone
            shape, rows[name] = _stored_rows(stored, key, port, shape)
        eager[name] = from_stored(stored.read(key, shape, _stored_dtype(port)), port.dtype)
        if key + REFERENCE in stored:
            reference[name] = stored.read(key + REFERENCE, eager[name].shape, "float64")
        if case.model_tolerance is not None:
            model[name] = stored.read(key + MODEL, eager[name].shape, "float64")
        if key + MASKED in stored:
            masked[name] = stored.read(key + MASKED, eager[name].shape, "bool")
        if case.hard:
            allowed[name] = stored.read(key + ALLOWED, eager[name].shape, "float64")
    return GoldenCase(case, feeds, eager, reference, rows, model, masked, allowed)


def _feed(stored: GoldenArrays, case: Case, port: Port) -> Array:
    """Return the input of a case: absent floats are zeros, and so are the rows that a sample leaves out."""
    key, shape = f"{case.name}/{port.name}", port.shape(case.sizes_of(port))
    check_room(key, shape, port.dtype)
    if key not in stored and port.dtype in FLOATS:
        return np.zeros(shape, numpy_dtype(port.dtype))
    if key + ROWS not in stored:
        return from_stored(stored.read(key, shape, _stored_dtype(port)), port.dtype)
    stored_shape, at = _stored_rows(stored, key, port, shape)
    rows = from_stored(stored.read(key, stored_shape, _stored_dtype(port)), port.dtype)
    return spread(rows, at, shape, long_axis(port, shape))


def _stored_dtype(port: Port) -> str:
    return "uint16" if port.dtype == "bfloat16" else port.dtype


def _sizes(port: Port, case: Case) -> list[int | None]:
    """Return the shape of an output in a case; None for an axis that the inputs lack."""
    known = [axis.size is not None or set(axis.names) <= case.sizes.keys() for axis in port.axes]
    return [axis.size_in(case.sizes) if is_known else None for axis, is_known in zip(port.axes, known, strict=True)]


def _stored_rows(
    stored: GoldenArrays, key: str, port: Port, shape: Sequence[int | None]
) -> tuple[list[int | None], Array]:
    """Return the stored shape of a sampled array, and its rows; raise ValueError if the rows are impossible."""
    at = stored.read(key + ROWS, (None,), "int64")
    if not at.size or at.min() < 0 or (np.diff(at) <= 0).any():
        raise ValueError(f"{key + ROWS} must be rising indices")
    known = [n for n in shape if n is not None]
    if len(known) < len(shape):  # then the longest axis is unknown, too
        return [None] * len(shape), at
    axis = long_axis(port, tuple(known))
    if at.max() >= known[axis]:
        raise ValueError(f"{key + ROWS} must be below {known[axis]}, got {at.max()}")
    return [*shape[:axis], len(at), *shape[axis + 1 :]], at
