"""The headers of the arrays in golden.npz, held against the manifest before anything of an array is read.

A file of 3 MB may unpack to 3 GiB: what an array takes is known from its header, of a hundred bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.lib import format as npy

from posenc.memory import check_room
from posenc.ports import Array

Shape = tuple[int, ...]
Header = tuple[Shape, bool, np.dtype[np.generic]]
HEADERS: dict[tuple[int, int], Callable[..., Header]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}


@dataclass(frozen=True)
class Stored:
    """The arrays of an open golden.npz: each is read only as the shape and the dtype that are expected of it."""

    archive: zipfile.ZipFile

    def __contains__(self, key: str) -> bool:
        return f"{key}.npy" in self.archive.NameToInfo

    def read(self, key: str, shape: Sequence[int | None], dtype: str) -> Array:
        """Return an array; None in a shape stands for any size.

        Raises ValueError, in one line, where its header says something else, or it is more than the free memory.
        """
        with self.archive.open(f"{key}.npy") as file:
            header_shape, _, header_dtype = _header(file)
            expected = "[" + ", ".join("?" if n is None else str(n) for n in shape) + "]"
            sizes = zip(shape, header_shape, strict=False)
            fits = len(header_shape) == len(shape) and all(n in (None, m) for n, m in sizes)
            if not fits or header_dtype != np.dtype(dtype):
                raise ValueError(f"{key} is {header_dtype}{list(header_shape)}, expected {dtype}{expected}")
            check_room(key, header_shape, dtype)
        with self.archive.open(f"{key}.npy") as file:
            return np.asarray(npy.read_array(file, allow_pickle=False))


def _header(file: IO[bytes]) -> Header:
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"an array of .npy version {version} is not one that NumPy writes of numbers")
    return HEADERS[version](file)
