"""Grids of patches: what a vision model adds to an empty image, and what its modules of rows and columns give."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from posenc.ports import Array, Extents, Feeds, carrying
from posenc_models.asking import diffusion
from posenc_models.asking.built import Built, built, parent_of, put
from posenc_models.asking.model import Answer, Disagrees, OwnModel, Question
from posenc_models.asking.planes import planes
from posenc_models.asking.running import Sides, answer, array, in_order, only, output_of, pair, takes, x_of
from posenc_models.config.encodings.parts import CLASS
from posenc_models.config.foreign import HfConfig


def model_of(question: Question) -> OwnModel:
    """Return a model with our grid, or with its own rows and columns."""
    if CLASS in question.content:
        return diffusion.model_of(question)
    if question.reading.scheme != "interpolated":
        return planes(question)
    grid = with_our_table(question)
    return OwnModel(grid.words, grid.made.library, grid.call)


@dataclass(frozen=True)
class ImageGrid:
    """A model with our table in it, which it resizes to an image.

    Args:
        question: what is asked.
        made: the model.
        owner: the module that holds the table, or the module around an embedding.
        table: our table, (rows, features).
        prefix: rows before those of the places.
    """

    question: Question
    made: Built
    owner: nn.Module
    table: Array
    prefix: int

    @property
    def words(self) -> str:
        """The class that answers."""
        return type(self.owner).__name__

    def call(self, feeds: Feeds) -> Answer:
        """Return the rows for the sizes of a call, added to x where ours are."""
        question = self.question
        if carrying(question.inputs, Extents):
            return answer(question, self.of_sizes(feeds))
        if not question.inputs:
            return answer(question, self.shaped(self.rows(self.own_sides())))
        x = x_of(question, feeds)
        rows = self.rows((x.shape[1], x.shape[2]))
        if question.outputs[0].axes[0].name == "batch":
            # (1, places, features) -> (1, height, width, features)
            return answer(question, x + rows[:, self.prefix :].reshape(1, *x.shape[1:]))
        return answer(question, self.shaped(rows))

    def shaped(self, rows: Array) -> Array:
        """Return rows with the axes of our output."""
        axes = self.question.outputs[0].axes
        return rows if len(axes) == 3 else rows.reshape(1, *(axis.size or 1 for axis in axes[1:]))

    def own_sides(self) -> Sides:
        """Return the sides of a baked grid."""
        parameters = self.question.reading.parameters
        return pair(parameters.get("size") or parameters["grid"])

    def rows(self, sides: Sides) -> Array:
        """Return the rows that its code gives an image: (1, prefix + places, features).

        Where its code cuts off the rows before the places, they are those of our table: nobody reads them.
        """
        places = sides[0] * sides[1]
        rows = self.of_image(sides)[:1]
        if rows.shape[1] == places and self.prefix:
            rows = np.concatenate([self.table[None, : self.prefix], rows], 1)
        registers = rows.shape[1] - self.prefix - places
        if registers < 0:
            raise Disagrees(f"{self.words} has {rows.shape[1]} rows: {places} places, {self.prefix} before them")
        # DINOv2's registers stand between the class token and the places, and have no positions
        return np.concatenate([rows[:, : self.prefix], rows[:, self.prefix + registers :]], 1)

    def of_image(self, sides: Sides) -> Array:
        """Return the rows of an empty image: those of its embeddings, or those before the first layer."""
        owner, patch = self.owner, patch_of(self.made.config)
        if takes(owner, "spatial_shapes"):
            return self.in_patches(1, sides[0] * sides[1], torch.tensor([sides]))
        inputs = pixels(self.made.config, (sides[0] * patch[0], sides[1] * patch[1]), sides)
        layers = [module for name, module in owner.named_children() if name == "layers"]
        first = next(iter(layers[0].children())) if layers else owner
        return flat(output_of(first, lambda: owner(**only(owner, **inputs)), before=bool(layers)), self.table.shape[-1])

    def of_sizes(self, feeds: Feeds) -> Array:
        """Return x with the rows of images that have sizes of their own."""
        x, sizes = (feeds[port.name] for port in self.question.inputs)
        return np.asarray(x + self.in_patches(x.shape[0], x.shape[1], torch.from_numpy(sizes)))

    def in_patches(self, batch: int, places: int, sizes: torch.Tensor) -> Array:
        """Return the rows of empty images that are given as rows of patches, with their sizes."""
        patches = torch.zeros(batch, places, pixel_count(self.made.config))
        output = output_of(self.owner, lambda: self.owner(pixel_values=patches, spatial_shapes=sizes))
        return flat(output, self.table.shape[-1])


def with_our_table(question: Question) -> ImageGrid:
    """Return a model with our table in it."""
    made = built(question)
    (table,) = in_order(question.tables)
    put(made.model, made.table, table)
    owner, path = parent_of(made.model, made.table), made.table.rpartition(".")[0]
    if type(owner).__name__ == "Embedding":
        owner = parent_of(made.model, path)
    return ImageGrid(question, made, owner, table, int(str(question.reading.parameters.get("prefix", 1))))


def pixel_count(config: HfConfig) -> int:
    """Return how many numbers a patch has: channels * height * width."""
    height, width = patch_of(config)
    return int(getattr(config, "num_channels", 3)) * height * width


def patch_of(config: HfConfig) -> Sides:
    """Return the sides of a patch in pixels."""
    return pair(config.patch_size)


def pixels(config: HfConfig, sides: Sides, places: Sides) -> dict[str, object]:
    """Return an empty image as vision models take it, of `sides` in pixels and `places` in patches."""
    image = torch.zeros(()).expand(1, int(getattr(config, "num_channels", 3)), *sides)
    masked = torch.zeros(1, places[0] * places[1], dtype=torch.bool)
    inputs = {"pixel_values": image, "interpolate_pos_encoding": True, "prompt_pixel_values": image}
    # other models put a learned token in the place of masked patches
    return {**inputs, "bool_masked_pos": masked} if getattr(config, "model_type", "") == "seggpt" else inputs


def flat(output: Any, width: int) -> Array:
    """Return rows as (batch, places, width): some modules give a grid, features first, or sizes beside the rows."""
    rows = array(output[0] if isinstance(output, tuple) else output)
    if rows.ndim == 4 and rows.shape[-1] != width:
        rows = rows.transpose(0, 2, 3, 1)
    return rows.reshape(rows.shape[0], -1, rows.shape[-1])  # (batch, [height, width | places], width)
