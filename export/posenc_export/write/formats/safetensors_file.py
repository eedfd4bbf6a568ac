"""Files of safetensors, written and read without the package: eight bytes, a JSON of names and places, the numbers.

The format has no code in it. A file from elsewhere is read only where its header is short, its numbers lie one tensor
behind the other, and nothing is left over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posenc.ports import Array
from posenc.strict_json import parse
from posenc_export.common.arrays import numpy_dtype

CODES: Mapping[str, str] = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}
"""What the format calls a dtype."""
METADATA = "__metadata__"
MAX_HEADER = 2**20
"""Bytes of a header: ours have a few thousand, with all parameters of a model."""
SIZE, ALIGNED = 8, 8
"""Bytes that say how long the header is, and what the place of the first number is a multiple of."""


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name, one behind the other."""
    header: dict[str, object] = {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [begin, end]}
    with path.open("wb") as file:
        file.write(_head(header))
        for array in arrays.values():
            # bytes, as NumPy writes no bfloat16
            np.ascontiguousarray(array).view(np.uint8).tofile(file)


def read(path: Path) -> dict[str, Array]:
    """Return the matrices of a file by name; raise ValueError, in one line, for any other file."""
    header, first = _header(path)
    arrays, place = {}, 0
    for name, entry in header.items():
        if name != METADATA:
            dtype, shape = _entry(name, entry, place)
            count = shape[0] * shape[1]
            # a header may claim any size: nothing is read for it before the file is known to have it
            if first + place + count * dtype.itemsize > path.stat().st_size:
                raise ValueError(f"{name} of {path.name} ends behind the file")
            arrays[name] = np.fromfile(path, np.uint8, count * dtype.itemsize, offset=first + place)
            arrays[name] = arrays[name].view(dtype).reshape(shape)
            place += arrays[name].nbytes
    if first + place != path.stat().st_size:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, its header says {first + place:,}")
    return arrays


def stamp(path: Path, metadata: Mapping[str, str]) -> None:
    """Put texts by keys into the header of a file, which the numbers do not change by."""
    header, first = _header(path)
    numbers = path.read_bytes()[first:]
    with path.open("wb") as file:
        file.write(_head({METADATA: dict(metadata), **header}))
        file.write(numbers)


def stamped(path: Path, key: str) -> str:
    """Return what a file says under a key, or nothing, as where it is none."""
    try:
        said = _header(path)[0].get(METADATA)
    except (OSError, ValueError):
        return ""
    text = said.get(key) if isinstance(said, dict) else None
    return text if isinstance(text, str) else ""


def _head(header: Mapping[str, object]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    # spaces behind the text, so that numbers lie where every processor reads them fast
    text += b" " * (-len(text) % ALIGNED)
    return len(text).to_bytes(SIZE, "little") + text


def _header(path: Path) -> tuple[dict[str, object], int]:
    """Return the header of a file, and where its numbers begin; raise ValueError where there is none."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(SIZE), "little")
        if not 0 < size <= MAX_HEADER:
            raise ValueError(f"{path.name} has a header of {size:,} bytes, expected at most {MAX_HEADER:,}")
        text = file.read(size)
    header = parse(text.decode("utf-8"))
    if len(text) < size or not isinstance(header, dict):
        raise ValueError(f"{path.name} has no header of safetensors")
    return header, SIZE + size


def _entry(name: str, entry: object, place: int) -> tuple[np.dtype[np.generic], tuple[int, int]]:
    """Return the dtype and the shape of a matrix that must begin at a place; raise ValueError for anything else."""
    said = entry if isinstance(entry, dict) else {}
    dtype = next((numpy_dtype(dtype) for dtype, code in CODES.items() if code == said.get("dtype")), None)
    shape = said.get("shape")
    # True is an int, and a row of no numbers has no place
    sizes = [size for size in shape if type(size) is int and size > 0] if isinstance(shape, list) else []
    if dtype is None or len(sizes) != 2 or sizes != shape:
        raise ValueError(f"{name} is {said.get('dtype')} {shape}, expected a matrix of {', '.join(CODES.values())}")
    if said.get("data_offsets") != [place, place + sizes[0] * sizes[1] * dtype.itemsize]:
        raise ValueError(f"{name} lies elsewhere than behind the tensor before it")
    return dtype, (sizes[0], sizes[1])
