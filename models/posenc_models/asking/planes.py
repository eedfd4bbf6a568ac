"""Sines, cosines and learned rows of places: what a model's module of an image's rows and columns gives."""

from copy import copy

import numpy as np
import torch
from torch import nn

from posenc.encoding import eps
from posenc.ports import Array, Feeds
from posenc_models.asking.built import built, classes_of, config_of, part_of, put_rows, zeros
from posenc_models.asking.load import library_of
from posenc_models.asking.model import Answer, OwnModel, Question
from posenc_models.asking.running import Sides, answer, array, in_order, mask_in, run_, takes, values_of
from posenc_models.config.foreign import HfConfig, HfModule

CLASSES = {
    "sine_2d": "SinePositionEmbedding$",
    "learned_2d": "LearnedPositionEmbedding$",
    "sincos_2d": "SinePositionEmbedding$",
}
"""How the names of their classes end."""
TABLES = ("row_embeddings.weight", "column_embeddings.weight")

FRACTIONS = 8 * 2 * np.pi * eps("float32")
"""What float32 costs the sines of fractions of a circle, which are up to 2 pi.

A count is divided by another, multiplied by 2 pi and divided by a power, whose exponent's rounding is one of 4.6 eps
where the temperature is 10000; the others are half an eps each.
"""


def planes(question: Question) -> OwnModel:
    """Return a model's module of rows and columns."""
    if part_of(question)[0].model_type == "vit_mae":
        return _mae(question)
    scheme = question.reading.scheme
    made = built(question, lambda made: bool(made.paths(CLASSES[scheme])))
    module = made.model.get_submodule(made.paths(CLASSES[scheme])[0])
    for name, table in zip(TABLES, in_order(question.tables), strict=False):
        put_rows(module, name, table)

    def call(feeds: Feeds) -> Answer:
        return answer(question, _planes(question, feeds, module))

    amplitude, atol = float(scheme == "sincos_2d"), FRACTIONS if scheme == "sine_2d" else 0.0
    return OwnModel(type(module).__name__, made.library, call, amplitude=amplitude, atol=atol)


def _planes(question: Question, feeds: Feeds, module: nn.Module) -> Array:
    """Return what a module gives for the grid of a call, with our axes."""
    x = feeds[question.inputs[0].name]
    layout = str(question.reading.parameters.get("tensor_layout", "bdhw"))
    of_rows = question.reading.scheme == "sincos_2d"
    height, width = x.shape[1:3] if x.ndim == 3 or of_rows or layout == "bhwd" else x.shape[2:]
    mask = mask_in(question, feeds)
    values = _of_grid(module, (int(height), int(width)), mask)
    if mask is not None:
        values = np.where(_counted(mask), values, np.nan)
    if of_rows:
        values = values.reshape(1, height, width, -1)  # (1, height * width, features) -> a grid
        return x + values if question.reading.parameters.get("output", "add") == "add" else values
    return values if layout == "bdhw" else values.transpose(0, 2, 3, 1)


def _counted(mask: Array) -> Array:
    """Return which places share a row and a column with a valid place: attention reads nothing of the others."""
    valid = np.asarray(mask, bool)
    counted: Array = np.any(valid, 1, keepdims=True) & np.any(valid, 2, keepdims=True)
    return counted[:, None]  # (batch, 1, height, width)


def _of_grid(module: nn.Module, sides: Sides, mask: Array | None) -> Array:
    """Return what a module gives for an image, or for images whose padding a mask says."""
    (height, width), kind, device = sides, torch.float32, torch.device("cpu")
    valid = torch.ones(1, height, width, dtype=torch.bool) if mask is None else torch.from_numpy(mask) != 0
    if takes(module, "width", "height"):  # RT-DETR
        return values_of(lambda: module(width, height, device, kind))
    if takes(module, "shape"):  # DETR, which makes a mask of its own
        shape, padding = (len(valid), 1, height, width), None if mask is None else valid
        return values_of(lambda: module(shape, device, kind, padding))
    return values_of(lambda: module(torch.zeros(len(valid), 1, height, width), valid))


def _mae(question: Question) -> OwnModel:
    """Return ViT-MAE's table, which its code computes for square images: the square that holds the grid of a call.

    A smaller grid's rows are among those of a larger one: they are those of a row and a column.
    """
    part, row = part_of(question)
    config = config_of(question.content, part)
    own_side = config.image_size // config.patch_size

    def call(feeds: Feeds) -> Answer:
        x = feeds[question.inputs[0].name]
        side = max(own_side, *x.shape[1:3])
        return answer(question, x + _mae_table(row.part, config, side)[:, : x.shape[1], : x.shape[2]])

    _mae_table(row.part, config, own_side)
    words = {"encoder": "ViTMAEEmbeddings", "decoder": "ViTMAEDecoder"}[row.part]
    return OwnModel(words, library_of(), call, amplitude=1.0)


def _mae_table(part: str, config: HfConfig, side: int) -> Array:
    """Return the table of a square grid: (1, side, side, features)."""
    sized = copy(config)
    sized.image_size = side * config.patch_size
    (kind,) = (kind for kind in classes_of(config) if kind.__name__ == "ViTMAEForPreTraining")
    model: HfModule = zeros(kind, sized)
    encodes = part == "encoder"
    owner = model.vit.embeddings if encodes else model.decoder
    name = "position_embeddings" if encodes else "decoder_pos_embed"
    for module in owner.modules() if encodes else (owner,):
        for leaf, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[leaf] = nn.Parameter(torch.zeros(parameter.shape), False)
    run_(owner.initialize_weights if encodes else lambda: owner.initialize_weights(side * side))
    return array(getattr(owner, name))[:, 1:].reshape(1, side, side, -1)  # without the class token
