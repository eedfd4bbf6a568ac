"""Grids of patches: what a vision model adds to an image of nothing, and what its modules of rows and columns give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc.hf.asking import diffusion
from posenc.hf.asking.built import Built, built, put
from posenc.hf.asking.model import Disagrees, HfConfig, Model, Question
from posenc.hf.asking.planes import planes
from posenc.hf.asking.running import array, in_order, only, output_name, output_of, takes
from posenc.hf.encodings.parts import CLASS
from posenc.ports import Array, Extents, Feeds, Values, carrying

Sides = tuple[int, int]


def model_of(question: Question) -> Model:
    """Return a model with our grid, or with its own rows and columns."""
    if CLASS in question.content:
        return diffusion.model_of(question)
    if question.reading.scheme != "interpolated":
        return planes(question)
    grid = Grid.of(question)
    return Model(grid.words, grid.made.library, grid.call)


@dataclass(frozen=True)
class Grid:
    """A model with our table in it, which it resizes to an image.

    owner: the path of the module that has the table, or of the one around an embedding.
    prefix: rows before those of the places.
    """

    question: Question
    made: Built
    owner: str
    table: Array
    prefix: int

    @classmethod
    def of(cls, question: Question) -> Grid:
        """Put our table into a model."""
        made = built(question)
        (table,) = in_order(question.tables)
        name = made.holding(made.row.tables[0])[0]
        put(made.model, name, table)
        owner = name.rpartition(".")[0]
        if type(made.model.get_submodule(owner)).__name__ == "Embedding":
            owner = owner.rpartition(".")[0]
        return cls(question, made, owner, table, int(str(question.reading.parameters.get("prefix", 1))))

    @property
    def words(self) -> str:
        """What answers."""
        return type(self.made.model.get_submodule(self.owner)).__name__

    def call(self, feeds: Feeds) -> dict[str, Array]:
        """Return the rows for the sizes of a call, added to x where ours are."""
        question, name = self.question, output_name(self.question)
        if carrying(question.inputs, Extents):
            return {name: self.of_each(feeds)}
        if not question.inputs:
            return {name: self.shaped(self.rows(self.own_sides()))}
        x = feeds[carrying(question.inputs, Values)[0].name]
        rows = self.rows((x.shape[1], x.shape[2]))
        if question.outputs[0].axes[0].name == "batch":
            return {name: x + rows[:, self.prefix :].reshape(1, *x.shape[1:])}
        return {name: self.shaped(rows)}

    def shaped(self, rows: Array) -> Array:
        """Return rows with the axes of our output."""
        axes = self.question.outputs[0].axes
        return rows if len(axes) == 3 else rows.reshape(1, *(axis.size or 1 for axis in axes[1:]))

    def own_sides(self) -> Sides:
        """Return the sides of a baked grid."""
        parameters = self.question.reading.parameters
        height, width = parameters.get("size") or parameters["grid"]
        return int(height), int(width)

    def rows(self, sides: Sides) -> Array:
        """Return the rows that its code gives an image: (1, prefix + places, features).

        Rows before the places that its code cuts off are those of our table: nobody reads them.
        """
        places = sides[0] * sides[1]
        rows = self.of_image(sides)[:1]
        if rows.shape[1] == places and self.prefix:
            rows = np.concatenate([self.table[None, : self.prefix], rows], 1)
        more = rows.shape[1] - self.prefix - places
        if more < 0:
            raise Disagrees(f"{self.words} has {rows.shape[1]} rows: {places} places, {self.prefix} before them")
        return np.concatenate([rows[:, : self.prefix], rows[:, self.prefix + more :]], 1)  # more: of registers, zeros

    def of_image(self, sides: Sides) -> Array:
        """Return what comes of an image of nothing: of its embeddings, or before the first layer."""
        owner, patch = self.made.model.get_submodule(self.owner), patch_of(self.made.config)
        inputs = pixels(self.made.config, (sides[0] * patch[0], sides[1] * patch[1]), sides)
        if takes(owner, "spatial_shapes"):
            import torch

            shapes = torch.tensor([sides])
            inputs = {"pixel_values": torch.zeros(1, sides[0] * sides[1], pixel_count(self.made.config))}
            return flat(output_of(owner, lambda: owner(**inputs, spatial_shapes=shapes)), self.table.shape[-1])
        layers = [module for name, module in owner.named_children() if name == "layers"]
        first = next(iter(layers[0].children())) if layers else owner
        return flat(output_of(first, lambda: owner(**only(owner, **inputs)), before=bool(layers)), self.table.shape[-1])

    def of_each(self, feeds: Feeds) -> Array:
        """Return x with the rows of images of sizes of their own."""
        import torch

        owner = self.made.model.get_submodule(self.owner)
        x, sizes = (feeds[port.name] for port in self.question.inputs)
        patches = torch.zeros(*x.shape[:2], pixel_count(self.made.config))
        inputs = {"pixel_values": patches, "spatial_shapes": torch.from_numpy(sizes)}
        values: Array = x + flat(output_of(owner, lambda: owner(**inputs)), x.shape[-1])
        return values


def pixel_count(config: HfConfig) -> int:
    """Return the numbers of a patch."""
    height, width = patch_of(config)
    return int(getattr(config, "num_channels", 3)) * height * width


def patch_of(config: HfConfig) -> Sides:
    """Return the sides of a patch in pixels."""
    size = config.patch_size
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def pixels(config: HfConfig, sides: Sides, places: Sides) -> dict[str, object]:
    """Return an image of nothing, as vision models take it: in pixels, or in a row of patches."""
    import torch

    image = torch.zeros(()).expand(1, int(getattr(config, "num_channels", 3)), *sides)
    masked = torch.zeros(1, places[0] * places[1], dtype=torch.bool)
    return {"pixel_values": image, "interpolate_pos_encoding": True, "prompt_pixel_values": image} | (
        {"bool_masked_pos": masked} if getattr(config, "model_type", "") == "seggpt" else {}
    )


def flat(output: Any, width: int) -> Array:
    """Return rows as (batch, places, width), which some modules give in lines, after features, or with sizes beside."""
    rows = array(output[0] if isinstance(output, tuple) else output)
    if rows.ndim == 4 and rows.shape[-1] != width:
        rows = rows.transpose(0, 2, 3, 1)
    return rows.reshape(rows.shape[0], -1, rows.shape[-1])
