"""Caches of cosines and sines, a row for each position and a column for each pair, as attention kernels take them.

Kernels rotate queries and keys by themselves: GroupQueryAttention and MRotaryEmbedding of ONNX Runtime, paged attention
of servers. Their caches are what an encoding with output=cos_sin looks its rows up in; both pairings of features
have the same.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.arrays import to_numpy
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.write.formats import Digests, Format, WriteRequest, npz_file, safetensors_file
from posenc_export.write.formats.capture import Findings, tensor_digests

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from posenc.encoding import Encoding
    from posenc.ports import Array

COS, SIN = "cos_cache", "sin_cache"
"""The names of both tensors, which are those of the kernels' inputs."""
WHOLE_BLOCKS = 8
"""GroupQueryAttention takes a number of pairs that is a multiple of this."""
NPZ = ".npz"
"""How the name of a file of NumPy ends."""
MOST_BYTES = 2**31 - 1
"""A tensor that a kernel's graph stores has no more: a file of protobuf ends there."""


class Caches(dict[str, "Tensor"]):
    """Cosines and sines by name, with what is to be said of them."""

    findings = Findings()


def caches(encoding: Encoding, request: WriteRequest, bfloat16: bool = True) -> Caches:
    """Return the cosines and sines of all positions: (rows, pairs) each; raise BadInput, in one line, without any.

    Args:
        encoding: What looks its rows up in them.
        request: Nothing of it changes them.
        bfloat16: Whether a file holds that dtype.
    """
    if encoding.family not in ("rotary", "cos_sin"):
        raise BadInput(f"a cache holds cosines and sines of a rotation; the family {encoding.family} has none")
    import torch

    with bad_input():
        tables = encoding.tables()
    # a kernel looks all pairs of a token up in one row
    if any(tables.axes):
        axes = max(tables.axes) + 1
        instead = "; MRotaryEmbedding takes the cache of rope, of the same base and width" if axes == 3 else ""
        raise BadInput(f"a row of a cache is of one position, and a token has {axes}{instead}")
    if tables.kind != "rows":
        raise BadInput("a cache has a row for each position up to --max-len: give --baked")
    if encoding.family == "rotary":
        raise BadInput("with a cache a kernel rotates queries and keys: give -p output=cos_sin")
    if encoding.outputs[0].axes[-1].size != tables.width // 2:
        raise BadInput("kernels take a column a pair: give -p width=half")
    if encoding.outputs[0].dtype == "bfloat16" and not bfloat16:
        raise BadInput("NumPy has no bfloat16, and a .npz file no place for it: give -f cache, or another --dtype")
    (table,) = tables.arrays.values()
    return halves(table, getattr(torch, encoding.outputs[0].dtype))


def halves(table: Tensor, dtype: dtype) -> Caches:
    """Return the cosines and sines of a table, in a dtype; raise BadInput where they are too large for a file."""
    pairs = table.shape[1] // 2
    end = MOST_BYTES // (pairs * dtype.itemsize)
    if len(table) > end:
        rows = f"{len(table):,} rows is over 2 GiB, which no ONNX file stores"
        raise BadInput(f"a cache of {rows}: give --max-len {end}")
    # a table has sines first; each row was rounded once from float64, and once more to a half
    columns = {COS: table[:, pairs:], SIN: table[:, :pairs]}
    made = Caches({name: part.to(dtype).contiguous() for name, part in columns.items()})
    if pairs % WHOLE_BLOCKS:
        line = f"a row has {pairs} pairs: GroupQueryAttention takes multiples of {WHOLE_BLOCKS} alone"
        made.findings = Findings((line,))
    return made


def read_cache(path: Path) -> dict[str, Array]:
    """Return the arrays of a cache by name; raise ValueError, in one line, for any other file."""
    arrays = npz_file.read(path) if path.suffix == NPZ else safetensors_file.read(path)
    if set(arrays) != {COS, SIN}:
        raise ValueError(f"{path.name} holds {', '.join(arrays) or 'no array'}, expected {COS} and {SIN}")
    return arrays


def _digests(made: Caches) -> Digests:
    return tensor_digests(made)


CACHE = partial(Format, digests=_digests, runs_code=False, tells_at_once=True)
"""The formats whose files are such caches."""


@CACHE(
    "cache",
    file="cos_sin_cache.safetensors",
    capture=caches,
    stamp=safetensors_file.stamp,
    stamped=safetensors_file.stamped,
)
def write_cache(made: Caches, request: WriteRequest, path: Path) -> None:
    """Cosines and sines of all positions as safetensors, for kernels that rotate: cos_cache and sin_cache."""
    safetensors_file.write(path, _arrays(made))


@CACHE(
    "cache-npz",
    file=f"cos_sin_cache{NPZ}",
    capture=partial(caches, bfloat16=False),
    stamp=npz_file.stamp,
    stamped=npz_file.stamped,
)
def write_npz(made: Caches, request: WriteRequest, path: Path) -> None:
    """The same two arrays for NumPy, all but bfloat16: cos_cache.npy and sin_cache.npy in a zip without compression."""
    npz_file.write(path, _arrays(made))


def _arrays(made: Caches) -> dict[str, Array]:
    return {name: to_numpy(tensor) for name, tensor in made.items()}
