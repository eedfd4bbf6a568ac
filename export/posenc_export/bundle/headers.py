"""The headers of the arrays in golden.npz, compared with the manifest before any array is read.

A file of 3 MB may unpack to 3 GiB: the header, a hundred bytes, says how much memory an array takes.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import IO

import numpy as np
from numpy.lib import format as npy

from posenc.memory import check_room
from posenc.ports import Array

HEADER_BYTES = 10_000
"""Bytes of a header: NumPy's own limit; the header of an array of numbers has a hundredth of that."""
SIZE = "[0-9]{1,19}"
SHAPE = rf"\(({SIZE},|{SIZE}(, {SIZE})+)?\)"
TEXT = re.compile(rf"\{{'descr': '[^']*', 'fortran_order': (True|False), 'shape': {SHAPE}, \}} *\n".encode())
"""A header as NumPy writes it of numbers: it reads other text, too, and fails in ways of its own."""
MAX_NUMBERS = 2**27
"""Numbers of an array whose size the manifest does not say; other arrays are bounded by the free memory."""
Shape = tuple[int, ...]
Header = tuple[Shape, bool, np.dtype[np.generic]]
HEADERS: dict[tuple[int, int], Callable[..., Header]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}


@dataclass(frozen=True)
class GoldenArrays:
    """The arrays of an open golden.npz, which are read only in the expected shape and dtype."""

    archive: zipfile.ZipFile

    def __contains__(self, key: str) -> bool:
        return f"{key}.npy" in self.archive.NameToInfo

    def read(self, key: str, shape: Sequence[int | None], dtype: str) -> Array:
        """Return an array; None in a shape stands for any size.

        Raises ValueError, in one line, if its header says something else or it needs more than the free memory.
        """
        with self.archive.open(f"{key}.npy") as file:
            header_shape, _, header_dtype = header_of(file)
            expected = "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"
            sizes = zip(shape, header_shape, strict=False)
            fits = len(header_shape) == len(shape) and all(n in (None, m) for n, m in sizes)
            if not fits or header_dtype != np.dtype(dtype):
                raise ValueError(f"{key} is {header_dtype}{list(header_shape)}, expected {dtype}{expected}")
            if None in shape and prod(header_shape) > MAX_NUMBERS:
                raise ValueError(f"{key} has {prod(header_shape):,} numbers, expected at most {MAX_NUMBERS:,}")
            check_room(key, header_shape, dtype)
        # A stream of a zip file is not rewound but opened again.
        with self.archive.open(f"{key}.npy") as file:
            return np.asarray(npy.read_array(file, allow_pickle=False))


def header_of(file: IO[bytes]) -> Header:
    """Return the header of a .npy file; raise ValueError if it is not one that NumPy writes for numbers."""
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"an array of .npy version {version} is not one that NumPy writes of numbers")
    length = file.read(2 if version == (1, 0) else 4)
    size = int.from_bytes(length, "little")
    # NumPy reads as many bytes as the header claims, up to 4 GiB, before it looks at them.
    if size > HEADER_BYTES:
        raise ValueError(f"the header of an array has {size:,} bytes, expected at most {HEADER_BYTES:,}")
    text = file.read(size)
    if not TEXT.fullmatch(text):
        raise ValueError("the header of an array is not one that NumPy writes of numbers")
    return HEADERS[version](io.BytesIO(length + text))
