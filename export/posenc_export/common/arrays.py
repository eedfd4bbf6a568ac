"""NumPy arrays and torch tensors with the same bits, bfloat16 included."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array

if TYPE_CHECKING:
    import torch

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int64", "int32")
DTYPES = (*FLOATS, *INTEGERS, "bool")
LARGE = 2**24
"""Bytes from which on garbage is collected at once, which takes a tenth of a second."""


def free(nbytes: int) -> None:
    """Free now the objects that only a cycle of references holds, where they may be large."""
    if nbytes >= LARGE:
        gc.collect()


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return the numpy dtype of a name in DTYPES; bfloat16 is the one of ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def to_torch(array: Array) -> torch.Tensor:
    """Return a tensor over the same memory."""
    import torch

    if array.dtype.name == "bfloat16":
        # torch does not know the dtype of ml_dtypes: hand over the bits
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> Array:
    """Return an array of the tensor's values, on the CPU."""
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.uint16).numpy().view(numpy_dtype("bfloat16"))
    return np.asarray(tensor.numpy())


def same_bits(a: Array, b: Array) -> bool:
    """Return whether two arrays of one shape and dtype have the same bits."""
    bits = f"u{a.dtype.itemsize}"  # NaN and -0.0 compare by their bits alone
    return np.array_equal(a.view(bits), b.view(bits))


def to_stored(array: Array) -> Array:
    """Return an array as a .npz can hold it: bfloat16 as its bits in uint16."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def from_stored(array: Array, dtype: str) -> Array:
    """Undo to_stored."""
    return array.view(numpy_dtype(dtype)) if dtype == "bfloat16" else array


def call_on_arrays(function: Callable[..., object], args: Sequence[Array], device: str = "cpu") -> list[Array]:
    """Call a function of tensors on arrays; return the outputs as arrays, in order."""
    import torch

    with torch.no_grad():
        return flatten(function(*(to_torch(array).to(device) for array in args)))


def call_on_copies(function: Callable[..., object], args: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Call a function that may write into its inputs on copies; return the outputs, and the copies after the call."""
    copies = [array.copy() for array in args]
    return call_on_arrays(function, copies), copies


def flatten(outputs: object) -> list[Array]:
    """Return the tensors of an output, as `tensors_of` finds them, as arrays."""
    return [to_numpy(tensor) for tensor in tensors_of(outputs)]


def tensors_of(outputs: object) -> list[torch.Tensor]:
    """Return the tensors of an output: one, or those in tuples, lists, dicts and dataclasses; None is left out.

    Raises TypeError where there is none, or something else among them.
    """
    import torch

    leaves = _leaves(outputs)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(tensors) < len(leaves) or not leaves:
        wrong = next((leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)), None)
        raise TypeError(f"outputs must be tensors, got {type(wrong).__name__}")
    return tensors


def _leaves(outputs: object) -> list[object]:
    from torch.utils import _pytree as pytree

    leaves: list[object] = []
    for leaf in pytree.tree_leaves(outputs):
        if is_dataclass(leaf) and not isinstance(leaf, type):
            leaves += _leaves([getattr(leaf, field.name) for field in fields(leaf)])
        elif leaf is not None:
            leaves.append(leaf)
    return leaves
