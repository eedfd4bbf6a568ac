"""Vision towers that rotate by row and column: their own module of angles, and the function that their attention calls.

The tower is made without numbers: only its frequencies, which its code computes, are real.
"""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import positions_of
from posenc.ports import Array, Feeds, Integers, Values, carrying
from posenc_models.asking import attending
from posenc_models.asking.alone import alone
from posenc_models.asking.angles import ANGLES, Angles, At, angles_of
from posenc_models.asking.built import Built, built
from posenc_models.asking.load import said
from posenc_models.asking.model import Answer, CannotAsk, Disagrees, OwnModel, Question
from posenc_models.asking.running import array

FUNCTION = re.compile(r"^(vision_)?apply_(rotary|multidimensional_rope)\w*$")
"""What the functions are called that rotate queries and keys."""
INPUTS = ("position_embeddings", "freqs_ci")
"""What the attention calls the angles that it is given."""
HEADS_FIRST = re.compile(r"_2d|^(chmv2|dinov3_vit|sapiens2|eomt_dinov3|neomme)$")
"""Functions, and model types, whose heads come before their places."""
BEFORE = re.compile(r"(^|\.)embeddings\.(cls_token|register_tokens)$")
"""What the tokens before the places of an image are called, (1, tokens, features) each."""
Rotate = Callable[..., Angles]
"""Queries and keys, and angles, to rotated queries and keys."""


@dataclass(frozen=True)
class Tower:
    """A tower's module of angles, and its function.

    Args:
        question: what is asked.
        angles: the angles at places.
        function: the function that its attention calls.
        heads_first: whether that takes (batch, heads, places, features); else heads come behind places.
        before: the class and register tokens before its places; None where its embeddings are not known.
    """

    question: Question
    angles: At
    function: Rotate
    heads_first: bool
    before: int | None = None

    def call(self, feeds: Feeds) -> Answer:
        """Return queries and keys rotated at the places of a call, or the cosines and sines there."""
        question, names = self.question, [port.name for port in self.question.outputs]
        places = positions_of(0, question.inputs, feeds)  # (axes, batch or 1, ...)
        if question.reading.parameters.get("output") == "cos_sin":
            return dict(zip(names, self.cos_sin(places), strict=True))
        flat = places.reshape(*places.shape[:2], -1)
        values = [feeds[port.name] for port in carrying(question.inputs, Values)]
        # each is rotated as queries and as keys, and the answer in its own role counts
        return {name: self.rotated(x, flat, role) for role, (name, x) in enumerate(zip(names, values, strict=True))}

    def cos_sin(self, places: Integers) -> tuple[Array, Array]:
        """Return the cosines and sines at places, a column a pair or a feature: (batch, ..., columns)."""
        flat = places.reshape(*places.shape[:2], -1)
        images = [self.pairs(flat[:, image]) for image in range(flat.shape[1])]
        cos, sin = (np.stack([pair[i] for pair in images]) for i in range(2))
        before = int(self.question.reading.parameters.get("prefix", 0))
        if before:
            # places behind each other, and the tokens before them as the tower's function leaves them
            self.check_passes(before, flat[:, 0])
            width = [(0, 0), (before, 0), (0, 0)]
            return np.pad(cos, width, constant_values=1.0), np.pad(sin, width)
        shape = places.shape[1:]
        return cos.reshape(*shape, -1), sin.reshape(*shape, -1)

    def check_passes(self, before: int, places: Integers) -> None:
        """Raise Disagrees unless so many tokens stand before an image's places, and pass as they are."""
        if self.before not in (None, before):
            raise Disagrees(f"it has {self.before} tokens before the places of an image, ours {before}")
        angles = self.angles(places)
        tokens = torch.linspace(-1, 1, (before + places.shape[1]) * angles[0].shape[-1])
        heads = tokens.reshape(1, 1, -1, angles[0].shape[-1])
        for out in self.function(heads, heads, *angles):
            if not torch.equal(out[:, :, :before], heads[:, :, :before]):
                raise Disagrees(f"it rotates the {before} tokens before the places of an image")

    def pairs(self, places: Integers) -> tuple[Array, Array]:
        """Return the cosines and sines of an image's places, (axes, seq): each (seq, columns)."""
        full = self.question.reading.parameters.get("width") == "full"
        angles = self.angles(places)
        if len(angles) == 1:  # complex numbers, one a pair
            numbers = array(angles[0]).reshape(places.shape[1], -1).repeat(2 if full else 1, axis=-1)
            return numbers.real, numbers.imag
        columns = [array(values).reshape(places.shape[1], -1) for values in angles]
        if not full:
            columns = _halved(columns, len(places))
        return columns[0], columns[1]

    def rotated(self, x: Array, places: Integers, role: int) -> Array:
        """Return heads as the tower rotates them, with the axes of ours."""
        by_place = self.question.reading.parameters.get("tensor_layout") == "bshd"
        swapped = x if by_place else np.moveaxis(x, 1, -2)  # (batch, places..., heads, head_dim)
        images = [self.image_rotated(heads, places[:, i % places.shape[1]], role) for i, heads in enumerate(swapped)]
        out = np.stack(images)
        return out if by_place else np.moveaxis(out, -2, 1)

    def image_rotated(self, heads: Array, places: Integers, role: int) -> Array:
        """Return an image's heads, (places..., heads, head_dim), as the tower rotates them."""
        flat = torch.from_numpy(np.array(heads, np.float32)).reshape(1, -1, *heads.shape[-2:])
        theirs = flat.transpose(1, 2) if self.heads_first else flat
        angles = self.angles(places)
        try:
            out = self.function(theirs, theirs, *angles)[role]
        except RuntimeError as error:
            features = angles[0].shape[-1]
            raise Disagrees(f"its heads have {features} features, ours {heads.shape[-1]}: {said(error)}") from None
        return array(out.transpose(1, 2) if self.heads_first else out).reshape(heads.shape)


def _halved(columns: Sequence[Array], axes: int) -> list[Array]:
    """Return a column a pair of columns a feature: the first half, or that of each axis, or every other one."""
    for parts in (1, axes):
        halves = [values.reshape(len(values), parts, 2, -1) for values in columns]
        # a b a b, or by axis a a b b: halves repeat what is before them; neighbours do not
        if all(np.array_equal(values[:, :, 0], values[:, :, 1]) for values in halves):
            return [values[:, :, 0].reshape(len(values), -1) for values in halves]
    return [values[:, ::2] for values in columns]


def model_of(question: Question) -> OwnModel:
    """Return the rotations of a tower; raise CannotAsk, in one line, where it cannot be made."""
    made = _made(question)
    if not made.paths(ANGLES):
        return attending.model_in(question, made)
    module, angles = angles_of(made)
    function = _function(made, module)
    heads_first = any(HEADS_FIRST.search(name) for name in (function.__name__, made.part.model_type))
    tower = Tower(question, angles, function, heads_first, _before(made))
    words = f"{type(module).__name__}, {function.__name__}"
    return OwnModel(words, made.library, tower.call, amplitude=1.0)


def _made(question: Question) -> Built:
    """Return a whole tower; where that cannot be made, its module of angles with what is around it."""
    try:
        return built(question, lambda made: bool(made.paths(f"{ANGLES}|{attending.ATTENTIONS}")))
    except CannotAsk as error:
        try:
            return alone(question, ANGLES)
        except CannotAsk:
            raise error from None


def _before(made: Built) -> int | None:
    """Return how many tokens a model's embeddings put before the places of an image; None where that is not known."""
    if not made.row.returned:
        # others stand there, too, such as EoMT's queries, which come in after some layers
        return None
    tokens = [tensor.shape[1] for name, tensor in made.model.named_parameters() if BEFORE.search(name)]
    return sum(tokens) or None


def _function(made: Built, angles: nn.Module) -> Rotate:
    """Return the function that the tower's attention calls; raise CannotAsk where none is seen."""
    kinds = [type(module) for module in made.model.modules()]
    if made.model is angles:  # made alone: its attention stands in the same file
        file = vars(sys.modules[type(angles).__module__]).values()
        kinds += [kind for kind in file if isinstance(kind, type) and issubclass(kind, nn.Module)]
    for kind in kinds:
        takes_angles = any(name in inspect.signature(kind.forward).parameters for name in INPUTS)
        # a release that renames an argument wraps forward
        code = inspect.unwrap(kind.forward).__code__ if takes_angles else None
        name = next((name for name in code.co_names if FUNCTION.match(name)), "") if code else ""
        if name:
            function: Callable[..., Any] = getattr(sys.modules[kind.__module__], name)
            return _of_both(function) if "position_ids" in inspect.signature(function).parameters else function
    raise CannotAsk(f"no attention of {type(made.model).__name__} calls a function that rotates")


def _of_both(function: Callable[..., Tensor]) -> Rotate:
    """Return a function of queries and keys that calls one of either: its places say how many axes there are."""
    places = torch.zeros(1, 1, 2)

    @wraps(function)
    def of_pair(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Angles:
        return function(q, cos, sin, places), function(k, cos, sin, places)

    return of_pair
