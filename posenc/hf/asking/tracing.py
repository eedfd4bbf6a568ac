"""A model without weights is called, and each rotation in it is noted: which function, of what, with which cos and sin.

The model is made on the meta device, where tensors have a shape and no numbers: layers, experts and tables of words
take no memory. Only what makes angles is made, and called, for real. So what a layer does to its queries and keys is
seen as the model's own code does it: which layers rotate, which part of a head, by which angles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from posenc.hf.asking.load import quiet, said


@dataclass(frozen=True)
class Rotated:
    """A place among the arguments of a rotation that holds queries or keys: its shape in the traced call.

    first: which feature of a head is its first, where it is a part of one.
    """

    shape: tuple[int, ...]
    first: int = 0


@dataclass(frozen=True)
class RotaryCall:
    """A call of a function that rotates; arguments are real tensors and constants, or stand for queries and keys.

    owner: the class of the module that called it. head_dim: the features of its heads, where it says so.
    """

    function: Callable[..., Any]
    arguments: tuple[object, ...]
    keywords: Mapping[str, object]
    owner: str
    head_dim: int | None = None

    @property
    def places(self) -> list[Rotated]:
        """What it rotates, in order."""
        values = (*self.arguments, *self.keywords.values())
        return [value for value in values if isinstance(value, Rotated)]

    def again(self, tensors: list[Tensor]) -> list[Tensor]:
        """Call it with numbers in the places of what it rotates; return what it gives in those places."""
        rest = iter(tensors)
        arguments = [next(rest) if isinstance(value, Rotated) else value for value in self.arguments]
        keywords = {k: next(rest) if isinstance(v, Rotated) else v for k, v in self.keywords.items()}
        with torch.no_grad():
            outputs = self.function(*arguments, **keywords)
        return list(outputs) if isinstance(outputs, tuple) else [outputs]


@dataclass
class Layer:
    """What was seen of a layer: its rotations, and why it did not come to its end, if it did not."""

    calls: list[RotaryCall] = field(default_factory=list)
    error: str = ""


class Enough(Exception):
    """The layer that was wanted is done."""


@dataclass
class Traced:
    """A model on the meta device, and how it is called.

    run: calls it, or, where the model itself takes more than tokens, each of its attentions alone.
    watch: what is otherwise while it is called. makers: the classes that made angles in the last call.
    """

    model: nn.Module
    modeling: ModuleType
    angle_classes: tuple[type[nn.Module], ...]
    run: Callable[[Traced, int, int, Tensor | None], None]
    watch: Callable[[Traced], AbstractContextManager[None]]
    layers: list[Layer] = field(default_factory=list)
    loose: Layer = field(default_factory=Layer)
    makers: list[str] = field(default_factory=list)
    wanted: int | None = None
    current: list[Layer] = field(default_factory=list)
    depth: int = 0

    def call(self, batch: int, length: int, positions: Tensor | None, wanted: int | None = None) -> str:
        """Call the model: (batch, length) tokens at positions; return why it did not come to its end, if it did not.

        wanted: the layer after which it is enough; all are called by default.
        """
        self.layers, self.loose, self.makers = [], Layer(), []
        self.wanted, self.current, self.depth = wanted, [], 0
        with ExitStack() as stack, torch.no_grad(), quiet():
            stack.enter_context(self.watch(self))
            try:
                self.run(self, batch, length, positions)
            except Enough:
                pass
            except Exception as error:
                return said(error)
        return ""

    @property
    def sizes(self) -> Mapping[str, object]:
        """The values of its config."""
        config: Any = self.model.config
        values: dict[str, object] = config.to_dict()
        return values

    @property
    def here(self) -> Layer:
        """The layer that is being called."""
        return self.current[-1] if self.current else self.loose
