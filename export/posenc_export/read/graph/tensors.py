"""Stored tensors as lazy constants: raw, typed, sparse, or in a file beside the model, checked before they are read."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from posenc_export.read.graph.cutting import PLACE
from posenc_export.read.graph.external import Location
from posenc_export.read.graph.store import Store
from posenc_export.read.values import Array, Constant, Shape

BITS = {
    onnx.TensorProto.UINT4: 4,
    onnx.TensorProto.INT4: 4,
    onnx.TensorProto.FLOAT4E2M1: 4,
    getattr(onnx.TensorProto, "UINT2", -1): 2,
    getattr(onnx.TensorProto, "INT2", -2): 2,
    getattr(onnx.TensorProto, "FLOAT6E2M3", -3): 6,
    getattr(onnx.TensorProto, "FLOAT6E3M2", -4): 6,
}
"""Element types that are stored packed; versions of onnx differ in which they know."""

Indices = NDArray[np.int64]


@cache
def dtype_of(element: int) -> np.dtype[np.generic]:
    """Return the NumPy or ml_dtypes dtype of an ONNX element type; object for strings and where there is none."""
    if element == onnx.TensorProto.UNDEFINED:
        return np.dtype(object)
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        raise ValueError(
            f"element type {element} is unknown to onnx {onnx.__version__}: it may need a newer one"
        ) from None


def constant(tensor: onnx.TensorProto, name: str, store: Store) -> Constant:
    """Return a stored tensor as a constant that is read when asked for."""
    label = f"tensor {name!r}"
    shape = _shape(tensor.dims, label)
    # sizes and type are checked at once; the numbers may be large, missing, or never asked for
    dtype = dtype_of(tensor.data_type)
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        raise ValueError(f"{label} has no element type: the file is damaged")
    stored = stored_bytes(tensor.data_type, shape)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        place = Location.find(tensor, label, store.path, store.files)

        def load() -> Array:
            check_size(shape, dtype, label, store.limit)
            return _from_bytes(tensor, place.read(stored), shape)

    else:
        _check_embedded(stored, label)

        def load() -> Array:
            check_size(shape, dtype, label, store.limit)
            return _embedded(tensor, stored, shape, label, store)

    return Constant(shape, dtype, load, frozenset({name}))


def sparse_constant(tensor: onnx.SparseTensorProto, name: str, store: Store) -> Constant:
    """Return a sparse tensor as a dense constant that is made when asked for."""
    label = f"sparse tensor {name!r}"
    shape = _shape(tensor.dims, label)
    values, places = constant(tensor.values, name, store), constant(tensor.indices, name, store)

    def load() -> Array:
        check_size(shape, values.dtype, label, store.limit)
        dense, flat = np.zeros(prod(shape), values.dtype), places.load().astype(np.int64)
        if flat.ndim == 2 and flat.shape[1] == len(shape):
            flat = _flat(flat, shape, label)
        numbers = values.load().reshape(-1)
        if flat.ndim != 1 or flat.size != numbers.size or np.any((flat < 0) | (flat >= dense.size)):
            raise ValueError(
                f"{label} has {numbers.size} values and indices of shape {places.shape}, or some outside of "
                f"{list(shape)}: the file is damaged"
            )
        dense[flat] = numbers
        return dense.reshape(shape)

    return Constant(shape, values.dtype, load, frozenset({name}))


def check_size(shape: Shape, dtype: np.dtype[np.generic], label: str, limit: int) -> None:
    """Raise ValueError where an array would take more memory than a constant may."""
    size = prod(shape) * dtype.itemsize
    if size > limit:
        raise ValueError(f"{label} of shape {list(shape)} takes {size} bytes, above the limit of {limit}")


def _flat(places: Indices, shape: Shape, label: str) -> Indices:
    if np.any(places < 0) or np.any(places >= np.array(shape)):
        raise ValueError(f"{label} has an index outside of {list(shape)}: the file is damaged")
    return np.asarray(np.ravel_multi_index(tuple(places.T), shape), np.int64)


def _shape(dims: object, label: str) -> Shape:
    shape = tuple(int(size) for size in dims)  # type: ignore[attr-defined]
    if any(size < 0 for size in shape):
        raise ValueError(f"{label} has a negative size: {list(shape)}; the file is damaged")
    return shape


def stored_bytes(element: int, shape: Shape) -> int:
    """Return how many bytes the numbers of a tensor take where they are stored."""
    bits = BITS.get(element, 8 * dtype_of(element).itemsize)
    return (prod(shape) * bits + 7) // 8


def _check_embedded(stored: int, label: str) -> None:
    # lengths are compared when it is read, since a look at the bytes copies them; here it is held to what a file can be
    if stored >= 2**31:
        raise ValueError(f"{label} would take {stored} bytes, which no ONNX file can hold: the file is damaged")


def _embedded(tensor: onnx.TensorProto, stored: int, shape: Shape, label: str, store: Store) -> Array:
    if tensor.HasField("raw_data"):
        content: bytes | memoryview = tensor.raw_data
        if store.mark and tensor.raw_data.startswith(store.mark):
            offset, length = PLACE.unpack(tensor.raw_data[len(store.mark) :])
            content = store.read(offset, length, label)
        if len(content) != stored:
            raise ValueError(
                f"{label} of shape {list(shape)} has {len(content)} bytes for {stored}: the file is damaged"
            )
        return _from_bytes(tensor, content, shape)
    # numbers in fields by type, as texts are always
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{label} does not fill its shape {list(shape)}: the file is damaged") from error


def _from_bytes(tensor: onnx.TensorProto, content: bytes | memoryview, shape: Shape) -> Array:
    if tensor.data_type not in BITS and tensor.data_type != onnx.TensorProto.STRING:
        dtype = dtype_of(tensor.data_type).newbyteorder("<") if dtype_of(tensor.data_type).isbuiltin else None
        return np.frombuffer(content, dtype or dtype_of(tensor.data_type)).reshape(shape)
    if tensor.data_type == onnx.TensorProto.STRING:
        raise ValueError(f"tensor {tensor.name!r} has texts as bytes, which ONNX does not have: the file is damaged")
    bits = onnx.TensorProto(dims=shape, data_type=tensor.data_type, raw_data=bytes(content))
    return np.asarray(numpy_helper.to_array(bits))
