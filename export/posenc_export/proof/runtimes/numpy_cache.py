"""Caches of cosines and sines, read and looked up by NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posenc.call import positions_of
from posenc.ports import Array, Feeds, sizes_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import RunFailed, Runner, runtime
from posenc_export.write.formats.cache import COS, SIN, read_cache


@runtime("numpy-cache", format_="cache", device="cpu")
def load_cache(path: Path, manifest: Manifest) -> Runner:
    """Caches of cosines and sines, looked up by NumPy."""
    arrays = read_cache(path)
    if len(manifest.outputs) != len(arrays):
        raise RunFailed(f"{path.name} holds {COS} and {SIN}, the manifest lists {len(manifest.outputs)} outputs")
    held = [arrays[COS], arrays[SIN]]
    for port, array in zip(manifest.outputs, held, strict=True):
        if array.dtype.name != port.dtype or array.shape != (manifest.max_len, port.axes[-1].size):
            raise RunFailed(f"{port.name} of {path.name} is {array.dtype}{list(array.shape)}, the manifest says {port}")

    def call(feeds: Feeds) -> dict[str, Array]:
        places = positions_of(manifest.max_len, manifest.inputs, feeds)
        # NumPy would count a negative index from the end
        if np.any((places < 0) | (places >= manifest.max_len)):
            raise RunFailed(f"a position is not among the {manifest.max_len:,} rows of the cache")
        sizes = sizes_of(manifest.inputs, feeds)
        outputs = zip(manifest.outputs, held, strict=True)
        return {port.name: array[places].reshape(port.shape(sizes)) for port, array in outputs}

    return Runner(call, manifest.inputs, manifest.outputs)


@runtime("numpy-cache-npz", format_="cache-npz", device="cpu")
def load_npz(path: Path, manifest: Manifest) -> Runner:
    """The same caches in a file of NumPy's own."""
    return load_cache(path, manifest)
