"""NumPy arrays and torch tensors with the same bits, bfloat16 included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]

FLOATS = ("float32", "float16", "bfloat16", "float64")
DTYPES = (*FLOATS, "int64", "int32", "bool")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a name in DTYPES; bfloat16 is the one of ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(name)


def to_torch(array: Array) -> torch.Tensor:
    """Return a tensor over the same memory."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return an array of the tensor's values, on the CPU."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.uint16).numpy().view(numpy_dtype("bfloat16"))
    return np.asarray(tensor.numpy())


def to_stored(array: Array) -> Array:
    """Return what a .npz can hold: bfloat16 as its bits in uint16."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def from_stored(array: Array, dtype: str) -> Array:
    """Undo to_stored."""
    return array.view(numpy_dtype(dtype)) if dtype == "bfloat16" else array
