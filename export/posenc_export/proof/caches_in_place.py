"""A decoder whose keys and values stay where they are: one buffer for past and present, to which a call adds a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array, Feeds, Port
from posenc_export.bundle.decoders import is_cache, is_in_place, mask_of_keys
from posenc_export.proof.runtimes.sessions import quiet_options
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.memory import caches_in_place

if TYPE_CHECKING:
    import onnxruntime


@dataclass
class CachesInPlace:
    """Calls of a file whose every cache may share a buffer with what comes out for it.

    What a call gives as present are views of these buffers, as long as the mask. Where the next call gets them as past,
    nothing is copied until a text outgrows them; then they become twice as long. Any other past is copied.

    Args:
        session: The file, on the CPU.
        mask: The name of the mask of all tokens, (batch, keys).
        caches: The output of each cache, by its input.
    """

    session: onnxruntime.InferenceSession
    mask: str
    caches: Mapping[str, str]
    buffers: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, inputs: tuple[Port, ...]) -> CachesInPlace | None:
        """Load a file, or return None where a cache of it cannot share a buffer."""
        import onnxruntime

        shared = {past: present for present, past in caches_in_place(read_onnx(path)).items()}
        mask = mask_of_keys(inputs)
        if mask is None or not is_in_place(inputs, shared):
            return None
        session = onnxruntime.InferenceSession(str(path), quiet_options(), providers=["CPUExecutionProvider"])
        return cls(session, mask.name, {port.name: shared[port.name] for port in inputs if is_cache(port)})

    def begin(self) -> CachesInPlace:
        """Return calls of the same file with buffers of their own."""
        return replace(self, buffers={})

    def __call__(self, feeds: Feeds) -> dict[str, Array]:
        """Run the file; return what comes out, by name."""
        import onnxruntime

        total = feeds[self.mask].shape[1]
        if not self._hold(feeds) or total > self.capacity:
            self._take(feeds, total)
        binding = self.session.io_binding()
        for name, array in feeds.items():
            if name not in self.caches:
                binding.bind_cpu_input(name, np.ascontiguousarray(array))
        for past, present in self.caches.items():
            buffer = onnxruntime.OrtValue.ortvalue_from_numpy(self.buffers[past])  # on the CPU this is no copy
            binding.bind_ortvalue_input(past, buffer)
            binding.bind_ortvalue_output(present, buffer)
        others = [each.name for each in self.session.get_outputs() if each.name not in self.caches.values()]
        for name in others:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        values = [value.numpy() for value in binding.get_outputs()[-len(others) :]]  # and no cache is copied
        presents = {present: self.buffers[past][:, :, :total] for past, present in self.caches.items()}
        return {**dict(zip(others, values, strict=True)), **presents}

    @property
    def capacity(self) -> int:
        """How many tokens the buffers have room for."""
        return min((buffer.shape[2] for buffer in self.buffers.values()), default=0)

    def _hold(self, feeds: Feeds) -> bool:
        """Return whether every cache that comes in is the beginning of its buffer."""
        return bool(self.buffers) and all(
            feeds[name].base is self.buffers[name] and feeds[name].ctypes.data == self.buffers[name].ctypes.data
            for name in self.caches
        )

    def _take(self, feeds: Feeds, total: int) -> None:
        """Copy what comes in to buffers with room for twice as many tokens as before."""
        larger: dict[str, Array] = {}
        for name in self.caches:
            past = feeds[name]
            room = max(total, 2 * self.capacity)
            larger[name] = np.zeros((*past.shape[:2], room, past.shape[3]), past.dtype)
            larger[name][:, :, : past.shape[2]] = past
        self.buffers = larger
