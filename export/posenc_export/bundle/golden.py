"""golden.npz: for every case its inputs, eager outputs and float64 reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from posenc.ports import Array, Port
from posenc_export.arrays import FLOATS, from_stored, numpy_dtype, to_stored
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.sampling import long_axis, spread
from posenc_export.errors import BadInput

GOLDEN = "golden.npz"
REFERENCE, ROWS = ".reference", ".rows"


def write_golden(folder: Path, cases: list[GoldenCase]) -> None:
    """Write cases: keys CASE/PORT, CASE/OUTPUT, CASE/OUTPUT.reference, and .rows where an array was sampled."""
    arrays: dict[str, Array] = {}
    for golden in cases:
        name = golden.case.name
        arrays |= {f"{name}/{k}": to_stored(v) for k, v in {**golden.feeds, **golden.eager}.items()}
        arrays |= {f"{name}/{k}{REFERENCE}": v for k, v in golden.reference.items()}
        arrays |= {f"{name}/{k}{ROWS}": v for k, v in golden.rows.items()}
    np.savez(folder / GOLDEN, **arrays)  # type: ignore[arg-type]


def read_golden(folder: Path, manifest: Manifest) -> Iterator[GoldenCase]:
    """Yield every case with what was recorded of it, one at a time; raise BadInput where the file is damaged."""
    try:
        with np.load(folder / GOLDEN, allow_pickle=False) as arrays:
            for case in manifest.cases:
                yield _golden_case(arrays, manifest, case)
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise BadInput(f"{folder / GOLDEN} is damaged: {error}") from error


def _golden_case(arrays: Mapping[str, Array], manifest: Manifest, case: Case) -> GoldenCase:
    feeds = {port.name: _feed(arrays, case, port) for port in manifest.inputs}
    if case.refused:
        return GoldenCase(case, feeds)
    keys = {port.name: f"{case.name}/{port.name}" for port in manifest.outputs}
    return GoldenCase(
        case,
        feeds,
        {port.name: from_stored(arrays[keys[port.name]], port.dtype) for port in manifest.outputs},
        {name: arrays[key + REFERENCE] for name, key in keys.items() if key + REFERENCE in arrays},
        {name: arrays[key + ROWS] for name, key in keys.items() if key + ROWS in arrays},
    )


def _feed(arrays: Mapping[str, Array], case: Case, port: Port) -> Array:
    """Return the input of a case: absent floats are zeros, and so is what was left out of a large array."""
    key, shape = f"{case.name}/{port.name}", port.shape(case.sizes)
    if key not in arrays and port.dtype in FLOATS:
        return np.zeros(shape, numpy_dtype(port.dtype))
    stored = from_stored(arrays[key], port.dtype)
    if key + ROWS not in arrays:
        return stored
    return spread(stored, arrays[key + ROWS], shape, long_axis(port, shape))
