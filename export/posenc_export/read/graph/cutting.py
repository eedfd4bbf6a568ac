"""Large tensors left in the file: the protobuf around them is read without them, and they are read when asked for.

A message is a run of fields, each a tag, and for texts, bytes and messages a length. Only the way to the bytes of
tensors is followed here; all else is copied as it is.
"""

from __future__ import annotations

from mmap import mmap
from struct import Struct

LARGE = 2**16
"""Bytes from which a tensor stays in the file."""
DEEPEST = 100
"""Messages inside messages that protobuf reads."""
PLACE = Struct("<QQ")
"""How the place and the length of a tensor's bytes are written where the bytes were."""
MOST_FIELDS = 2_000_000
"""Fields that are looked at: 200000 nodes and as many tensors have half of them."""
BYTES = "bytes"
INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {9: BYTES},
}
"""Fields that lead to the bytes of tensors, by the kind of message; their numbers are those of the ONNX standard."""
SKIPS = {1: 8, 5: 4}
"""Bytes of a field without a length, by its wire type."""


def without_tensors(file: mmap | bytes, mark: bytes) -> bytes:
    """Return the message of a model in which a mark and a place stand for the bytes of large tensors.

    Raises ValueError where the file is no message.

    Args:
        file: its bytes.
        mark: what stands before the place: random, so that no file can have it.
    """
    return _Cutting(file, mark).message("model", 0, len(file), 0)


class TooMany(ValueError):
    """A file has more fields than any model: reading it would take minutes."""


class _Cutting:
    """What copies a message without the bytes of its large tensors."""

    def __init__(self, file: mmap | bytes, mark: bytes) -> None:
        self.file = file
        self.mark = mark
        self.fields = 0

    def message(self, kind: str, start: int, end: int, depth: int) -> bytes:
        """Return a message of a kind that stands between two places of the file."""
        parts, copied, place = [], start, start
        while place < end:
            self.fields += 1
            if self.fields > MOST_FIELDS:
                raise TooMany(f"has more than {MOST_FIELDS} fields, above what any model has: the file is damaged")
            # a tag is the number of a field and, in its last three bits, how its value is written
            tag, before = self._number(place, end)
            length, begin = self._length(tag & 7, before, end)
            place = begin + length
            if place > end:
                raise ValueError("a field is longer than what it is in")
            inside = INSIDE[kind].get(tag >> 3)
            if inside and tag & 7 == 2 and length >= LARGE and depth < DEEPEST:
                new = self._inside(inside, begin, place, depth)
                parts += [self.file[copied:before], _written(len(new)), new]
                copied = place
        return b"".join([*parts, self.file[copied:end]])

    def _inside(self, kind: str, start: int, end: int, depth: int) -> bytes:
        return (
            self.mark + PLACE.pack(start, end - start) if kind == BYTES else self.message(kind, start, end, depth + 1)
        )

    def _length(self, wire: int, place: int, end: int) -> tuple[int, int]:
        """Return how long the value of a field is, and where it begins."""
        if wire == 0:
            return 0, self._number(place, end)[1]
        if wire == 2:
            return self._number(place, end)
        if wire not in SKIPS:
            raise ValueError("a field has a type that ONNX does not use")
        return SKIPS[wire], place

    def _number(self, place: int, end: int) -> tuple[int, int]:
        # seven bits a byte, the lowest first; the eighth says that more follow
        number = 0
        for shift in range(0, 70, 7):
            if place >= end:
                break
            byte = self.file[place]
            place += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number, place
        raise ValueError("a number does not end")


def _written(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
