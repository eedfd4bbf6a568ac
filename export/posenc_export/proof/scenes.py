"""A model that sees or hears, called as one: its tower, its words, its positions and its decoder.

The graphs are called in the order in which an application calls them. Ids become embeddings; in the places of pictures
these are what the tower makes; positions are counted over both; the decoder reads all of it. What comes out takes ids
and pictures, and is called as any decoder is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from posenc.picture_places import PicturePlaces
from posenc.ports import Array, Blocks, Feeds, Frames, Grids, Mask, Port, Prompt, fixed, sizes_of
from posenc_export.bundle.carries.prompt import rule_of_prompt
from posenc_export.bundle.decoders import ROPE_DELTAS, text_ports
from posenc_export.common.arrays import FLOATS, numpy_dtype
from posenc_export.proof.callees import Callee, numbers_from
from posenc_models.whole.tasks import EMBEDDINGS, LAYER_FEATURES, TYPES

IDS, MASK, POSITIONS = "input_ids", "attention_mask", "position_ids"
ROWS = 3
"""Positions of a token where pictures count: in time, height and width."""
SIDE = 30
"""Pixels of a side of a picture of one row or column, where its size is given in pixels."""
COLUMNS = 4
"""A sound of so many columns has all frames that the tower takes."""
OF_LAYERS = LAYER_FEATURES.partition("{")[0]
"""What the names begin with of what layers of the decoder add to hidden states."""
Picture = Sequence[int]
"""A picture at random: a number that its pixels are made from, then its sizes where pictures have several."""


@dataclass(frozen=True)
class SceneGraphs:
    """The graphs of a model that sees or hears.

    Args:
        decoder: reads embeddings.
        words: gives those of ids.
        tower: gives those of pictures.
        places: which ids are places of pictures.
        positions: counts positions over pictures; None where they are counted as those of words.
    """

    decoder: Callee
    words: Callee
    tower: Callee
    places: PicturePlaces
    positions: Callee | None = None

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What goes into all of them, as into one decoder: ids, pictures, mask, and what its layers remember."""
        inside = {EMBEDDINGS, TYPES, *({POSITIONS} if self.positions else ())}
        own = [port for port in self.decoder.inputs if port.name not in inside and not port.name.startswith(OF_LAYERS)]
        deltas = text_ports(self.positions.inputs) if self.positions else []
        return (*self.words.inputs, *self.tower.inputs, *deltas, *own)

    @property
    def reserved_ids(self) -> set[int]:
        """The ids of the places of pictures and of videos, and of what stands around them."""
        prompts = [port.carries for port in (self.positions.inputs if self.positions else ())]
        ids = (rule_of_prompt(prompt).ids for prompt in prompts if isinstance(prompt, Prompt))
        return {self.places.token, *next(ids, ())}

    def callee(self) -> Callee:
        """Return the graphs as one decoder, which takes ids and, in a call that has places for them, pictures."""
        return Callee(self.call, self.inputs)

    def call(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs of the decoder for ids and pictures.

        Raises ValueError, in one line, where pictures do not fill the places that the ids have for them. Without
        pictures such an id is a word like others, as it is in a text that a model writes.
        """
        ids, mask = feeds[IDS], feeds[MASK]
        pictures = {port.name: feeds[port.name] for port in self.tower.inputs if port.name in feeds}
        embeddings = self.words.call({IDS: ids})[EMBEDDINGS]
        is_place = np.zeros(ids.shape, bool)
        features: Mapping[str, Array] = {}
        if pictures:
            features = self.tower.call(pictures)
            rows = features[self.places.sense.features]
            is_place = (ids == self.places.token) & (mask[:, -ids.shape[1] :] != 0)
            if is_place.sum() != len(rows):
                one = self.places.sense.picture
                raise ValueError(
                    f"input_ids have {is_place.sum()} places of {one}s (id {self.places.token}), and the {one}s "
                    f"fill {len(rows)}: give each {one} as many places as its tower makes rows"
                )
            embeddings = _in_places(embeddings, is_place, rows)
        of_layers = {
            port.name: _in_places(np.zeros_like(embeddings), is_place, features.get(port.name))
            for port in self.decoder.inputs
            if port.name.startswith(OF_LAYERS)
        }
        types = is_place if self.places.types else np.full(ids.shape, mask.shape[1] > ids.shape[1])
        given = {**feeds, **of_layers, EMBEDDINGS: embeddings, TYPES: types.astype(np.int64)}
        memory: dict[str, Array] = {}
        if self.positions is not None:
            positions, deltas = self._positions(self.positions, feeds, pictures)
            given[POSITIONS], memory = positions, {ROPE_DELTAS: deltas}
        outputs = self.decoder.call({port.name: given[port.name] for port in self.decoder.inputs})
        return {**outputs, **memory}

    def picture(self, seed: int, grid: Sequence[int]) -> Picture:
        """Return a picture as this model's tower takes it: of a grid, where it takes such.

        Args:
            seed: what its pixels are made from.
            grid: time steps, and rows and columns of squares of patches.
        """
        return (seed, *_sizes_of(self.tower.inputs, grid))

    def rows_of(self, picture: Picture) -> int:
        """Return how many embeddings the tower makes of a picture: so many places a prompt has for it."""
        return len(self.tower.call(pictures_of(self.tower.inputs, [picture]))[self.places.sense.features])

    @staticmethod
    def _positions(graph: Callee, feeds: Feeds, pictures: Feeds) -> tuple[Array, Array]:
        """Return positions, (rows, batch, seq), and what pictures so far add to those behind them, (batch, 1)."""
        ids, mask, deltas = feeds[IDS], feeds[MASK], feeds[ROPE_DELTAS]
        if not pictures:
            counted = np.maximum(mask.cumsum(1) - 1, 0)[:, -ids.shape[1] :] + deltas
            return np.broadcast_to(counted, (ROWS, *counted.shape)).copy(), deltas
        empty = {port.name: np.zeros([axis.size or 0 for axis in port.axes], port.dtype) for port in graph.inputs}
        given = {**empty, **{name: one for name, one in feeds.items() if name in empty}}
        outputs = graph.call(given)
        return outputs[POSITIONS], outputs["rope_deltas"]


def _in_places(vectors: Array, is_place: Array, rows: Array | None) -> Array:
    """Return vectors of tokens, (batch, seq, hidden), with those of pictures in their places; None: there are none."""
    if rows is None:
        return vectors
    vectors = vectors.copy()
    vectors[is_place] = rows.astype(vectors.dtype)
    return vectors


def check_pictures(tower: Sequence[Port], pictures: Feeds) -> None:
    """Raise ValueError, in one line, where what goes into a tower does not fit together.

    Args:
        tower: the inputs of a tower.
        pictures: what goes in, by their names; each array has the shape of its own input.
    """
    _check_axes(tower, pictures)
    _check_blocks(tower, pictures)
    _check_grids(tower, pictures)


def _check_axes(tower: Sequence[Port], pictures: Feeds) -> None:
    """Raise ValueError where an axis has one size in an input, and another in a second one."""
    first: dict[str, tuple[int, str]] = {}
    for port in tower:
        for i, axis in port.dynamic.items():
            size = pictures[port.name].shape[i]
            known, other = first.setdefault(axis.name, (size, port.name))
            if known != size:
                raise ValueError(f"{port.name} has {axis.name} {size}, and {other} {known}: give as many of each")


def _check_blocks(tower: Sequence[Port], pictures: Feeds) -> None:
    """Raise ValueError where a mask has fewer columns than blocks of frames make places: rows would be left out."""
    sizes = sizes_of(tower, pictures)
    for port in tower:
        if isinstance(port.carries, Blocks):
            frames, columns = sizes[port.carries.of], pictures[port.name].shape[1]
            places = -(-frames // port.carries.multiple) * port.axes[1].multiple
            if columns < places:
                raise ValueError(
                    f"{port.name} must have {places} columns at least, as {frames} frames make, got {columns}"
                )


def _check_grids(tower: Sequence[Port], pictures: Feeds) -> None:
    """Raise ValueError where grids do not fill the patches that they are of."""
    sizes = sizes_of(tower, pictures)
    for port in tower:
        if not isinstance(port.carries, Grids):
            continue
        of, multiple, grids = port.carries.of, port.carries.multiple, pictures[port.name].tolist()
        for number, (steps, rows, columns) in enumerate(grids):
            if min(steps, rows, columns) < 0 or rows % multiple or columns % multiple:
                raise ValueError(
                    f"{port.name} has {(steps, rows, columns)} for picture {number}: expected steps, rows and columns, "
                    f"the last two multiples of {multiple}"
                )
        patches = next(other for other in tower if any(axis.name == of for axis in other.axes))
        size, filled = sizes[of], sum(map(prod, grids))
        if filled != size:
            raise ValueError(
                f"{port.name} has grids of {filled} patches in all, and {patches.name} has {size}: expected as many"
            )


def pictures_of(tower: Sequence[Port], pictures: Sequence[Picture]) -> dict[str, Array]:
    """Return what goes into a tower for pictures at random, which are the same on every machine; nothing for none.

    Args:
        tower: the inputs of a tower.
        pictures: each a number that its pixels are made from, then the steps, rows and columns of its grid if the
            tower takes grids.
    """
    if not pictures:
        return {}
    of_grids = any(isinstance(port.carries, Grids) for port in tower)
    return {port.name: _of_pictures(port, pictures, of_grids) for port in tower}


def _sizes_of(tower: Sequence[Port], grid: Sequence[int]) -> Picture:
    """Return what a tower is told of a picture's size; nothing where all pictures have one size.

    Args:
        tower: the inputs of the tower.
        grid: time steps, and rows and columns of squares of patches. A sound has as many quarters of its frames as
            columns.
    """
    for port in tower:
        steps, rows, columns = grid
        if isinstance(port.carries, Grids):
            return (steps, rows * port.carries.multiple, columns * port.carries.multiple)
        if isinstance(port.carries, Frames):
            return (rows * port.carries.multiple, columns * port.carries.multiple)
        if _holds_sizes(port):
            return (rows * SIDE, columns * SIDE)
        if isinstance(port.carries, Blocks):
            # the last block is not full
            return (columns * port.carries.multiple - 1,)
        if _is_of_frames(port):
            # all of a sound, or chunks of which the last is not full
            size, chunk = port.axes[1].size, port.axes[1].multiple
            return (size * columns // COLUMNS if size else chunk * columns - chunk // 3,)
    return ()


def _holds_sizes(port: Port) -> bool:
    """Return whether an input of a tower holds the height and the width of each picture, whatever these are."""
    return port.dtype not in FLOATS and [axis.size for axis in port.axes] == [None, 2]


def _is_of_frames(port: Port) -> bool:
    """Return whether an input of a tower says which frames of each sound are there."""
    return isinstance(port.carries, Mask)


def _of_pictures(port: Port, pictures: Sequence[Picture], of_grids: bool) -> Array:
    """Return what an input of a tower holds: pixels, sizes, or ones, as a mask without padding."""
    if isinstance(port.carries, Grids) or _holds_sizes(port):
        return np.array([picture[1:] for picture in pictures], np.int64)
    if isinstance(port.carries, Blocks):
        blocks = -(-np.array([picture[1:] for picture in pictures], np.int64) // port.carries.multiple)
        return np.asarray(np.arange(int(blocks.max()) * port.axes[1].multiple) < blocks * port.axes[1].multiple)
    if _is_of_frames(port):
        ends = np.array([picture[1:] for picture in pictures], np.int64)
        frames = port.axes[1].size or port.axes[1].allowed(int(ends.max()))
        return (np.arange(frames) < ends).astype(np.int64)
    if of_grids:
        # each patch is made from the picture's number and its own
        patches = [1009 * seed + patch for seed, *grid in pictures for patch in range(int(np.prod(grid)))]
        return numbers_from(port, np.array(patches, np.int64))
    along = 1 if port.dynamic.keys() >= {0, 1} and port.axes[1].kind == "batch" and port.axes[1].least == 1 else 0
    axes = port.axes[along + 1 :]
    sides = iter(np.array([picture[1:] for picture in pictures], np.int64).reshape(len(pictures), -1).T)
    free = [[axis.size or axis.least] * len(pictures) if axis.size or axis.least > 1 else next(sides) for axis in axes]
    shapes = np.array(free).T
    frame = [axis.size or axis.allowed(side) for axis, side in zip(axes, shapes.max(0).tolist(), strict=True)]
    values = np.zeros((len(pictures), *frame), numpy_dtype(port.dtype))
    for (seed, *_), shape, value in zip(pictures, shapes, values, strict=True):
        own = replace(port, axes=(port.axes[along], *map(fixed, map(int, shape))))
        pixels = numbers_from(own, np.array([seed], np.int64)) if port.dtype in FLOATS else np.ones((1, *shape))
        value[tuple(map(slice, shape))] = pixels[0]
    return values.reshape(*[1] * along, *values.shape)
