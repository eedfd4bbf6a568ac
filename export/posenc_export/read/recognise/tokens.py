"""Which token each element of data is of: what a row of positions turns, or is added to, must be of one token.

Tokens are the rows of what a weight makes, and those of words that are looked up. From there on elements are moved,
scaled, normed and joined. A Reshape in the place of a Transpose gives a row the features of several tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.findings import finding
from posenc_export.read.inspection import Finding
from posenc_export.read.interpret.state import is_data
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.rotations import rotations
from posenc_export.read.recognise.sides import NORMS, PLAIN_PRODUCTS
from posenc_export.read.recognise.trails import shape_of
from posenc_export.read.values import Data, Meeting, Operand, Position, Run

Tokens = NDArray[np.int64]
"""Of each element of a tensor the number of its token; -1 for what is filled in."""
KEEPING = frozenset(("Add", "Sub", "Mul", "Div", "Sum", "Neg", "Cast", "Identity", "Pow", "Where", "Clip", *NORMS))
"""Nodes that leave elements where they are."""
DEEPEST = 60
LARGEST = 1 << 22
"""Elements of a tensor that is followed, at most."""
SHOWN = 3
WORDS = (
    "a row of positions meets features of several tokens: that of position {place} those of tokens {tokens}; "
    "heads and tokens were mixed, as by a Reshape in the place of a Transpose"
)


def mixed_tokens(run: Run, named: Sequence[Named]) -> Iterator[Finding]:
    """Yield a finding for each encoding whose rows meet features of several tokens.

    Args:
        run: an interpreted graph.
        named: its encodings, of which those that are added to tokens are looked at, too.
    """
    tracer = _Tracer(Flow(run))
    found: dict[str, str] = {}
    for rotation in rotations(tracer.flow):
        for turned in rotation.turned:
            tokens = tracer.tokens(turned.output)
            axes = [axis for axis in _varying(turned.cosine) if turned.cosine.shape[axis] == len(rotation.positions)]
            if tokens is not None and tokens.shape == turned.cosine.shape and len(axes) == 1:
                _note(found, rotation.multiplied.node, tokens, axes[0])
    for node in run.nodes:
        if node.op_type.endswith("RotaryEmbedding") and node.operands and node.operands[0] is not None:
            tokens = tracer.tokens(node.operands[0].tensor)
            if tokens is not None and tokens.ndim in (3, 4):
                _note(found, node.node, tokens, tokens.ndim - 2 if tokens.ndim == 4 else 1)
    added = {name for entry in named if entry.form.traits.is_absolute for name in entry.nodes}
    for node in run.nodes:
        if node.node in added and node.op_type in ("Add", "Sum"):
            _note_sum(tracer, found, node)
    yield from (finding("mixed-tokens", node, words) for node, words in found.items())


def _note_sum(tracer: _Tracer, found: dict[str, str], node: Meeting) -> None:
    """Look at rows that are added to data, axis by axis from the last."""
    data = [o for o in node.operands if o is not None and is_data(o.value)]
    rows = [o.value.array for o in node.operands if o is not None and isinstance(o.value, Position)]
    if len(data) != 1 or len(rows) != 1:
        return
    tokens = tracer.tokens(data[0].tensor)
    # of several tokens, and features of each
    axes = [axis - rows[0].ndim for axis in _varying(rows[0])]
    if tokens is None or len(axes) != 2 or axes[0] < -tokens.ndim:
        return
    lengths = [axis for axis in axes if tokens.shape[axis] == rows[0].shape[axis] == tracer.count(tokens)]
    if len(lengths) == 1:
        _note(found, node.node, tokens, lengths[0])


def _varying(numbers: NDArray[np.generic]) -> list[int]:
    """Return the axes along which numbers differ."""
    return [
        axis
        for axis, size in enumerate(numbers.shape)
        if size > 1 and not np.array_equal(numbers, np.broadcast_to(numbers.take([0], axis), numbers.shape))
    ]


def _note(found: dict[str, str], node: str, tokens: Tokens, axis: int) -> None:
    """Note a node where the elements of a row along an axis are of several tokens."""
    rows = np.moveaxis(tokens, axis, 0).reshape(tokens.shape[axis], -1)
    if not rows.size or (rows < 0).any():
        return
    several = np.flatnonzero(rows.min(1) != rows.max(1))
    if several.size and node not in found:
        place = int(several[0])
        numbers = np.unique(rows[place]).tolist()
        words = ", ".join(map(str, numbers[:SHOWN])) + ", ..." * (len(numbers) > SHOWN)
        found[node] = WORDS.format(place=place, tokens=words)


@dataclass
class _Tracer:
    """A run whose elements are followed back to the tokens that they are of."""

    flow: Flow
    _known: dict[str, Tokens | None] = field(default_factory=dict)

    def tokens(self, tensor: str, depth: int = 0) -> Tokens | None:
        """Return the token of each element of a tensor; None where nobody knows."""
        if tensor not in self._known:
            value = self.flow.run.values.get(tensor)
            followed = isinstance(value, Data) and depth <= DEEPEST and np.prod(value.shape, dtype=np.int64) <= LARGEST
            self._known[tensor] = self._tokens(tensor, value, depth) if followed and isinstance(value, Data) else None
        return self._known[tensor]

    def count(self, tokens: Tokens) -> int:
        """Return how many tokens elements are of."""
        return int(tokens.max(initial=-1)) + 1

    def _tokens(self, tensor: str, value: Data, depth: int) -> Tokens | None:
        node = self.flow.maker(tensor)
        if node is None:
            return None
        moved = value.moved() if value.moved is not None else None
        if moved is not None and moved.tensor != tensor:
            before = self.tokens(moved.tensor, depth + 1)
            return None if before is None else np.where(moved.index < 0, -1, before.ravel()[moved.index])
        data = [o for o in node.operands if o is not None and is_data(o.value)]
        if _is_weighted(node, data) or (node.op_type == "Gather" and _is_looked_up(node)):
            return _along(value.shape)
        if node.op_type not in KEEPING:
            return None
        alike = (self.tokens(o.tensor, depth + 1) for o in data if shape_of(o.value) == value.shape)
        return next((tokens for tokens in alike if tokens is not None), None)


def _is_weighted(node: Meeting, data: Sequence[Operand]) -> bool:
    """Return whether a node multiplies rows of data by a stored weight."""
    return node.op_type in PLAIN_PRODUCTS and len(data) == 1 and data[0] is node.operands[0]


def _is_looked_up(node: Meeting) -> bool:
    """Return whether a node takes rows of a stored table, a row for each index."""
    table = node.operands[0]
    return table is not None and not is_data(table.value) and node.attributes.get("axis", 0) == 0


def _along(shape: tuple[int, ...]) -> Tokens | None:
    """Return the tokens of rows with features last; None where they lie along several axes."""
    axes = [axis for axis, size in enumerate(shape[:-1]) if size > 1]
    if len(axes) != 1:
        return None
    places = np.arange(shape[axes[0]], dtype=np.int64)
    return np.broadcast_to(places.reshape([-1 if axis == axes[0] else 1 for axis in range(len(shape))]), shape)
