"""A model without weights is called, and each rotation in it is noted: its function, its arguments, its cos and sin.

The model is made on the meta device, where tensors have a shape and no numbers: layers, experts and tables of words
take no memory. Modules that make angles are made, and called, for real. So one sees what the model's own code does to
queries and keys: which layers rotate, which part of a head, by which angles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from posenc_models.asking.load import quiet, said


@dataclass(frozen=True)
class RotatedArgument:
    """A place among the arguments of a rotation that holds queries or keys.

    Args:
        shape: its shape in the traced call.
        first: the feature of a head with which it begins, where it is a part of a head.
    """

    shape: tuple[int, ...]
    first: int = 0


@dataclass(frozen=True)
class RotaryCall:
    """A call of a function that rotates.

    Args:
        function: the model's function.
        arguments: real tensors and constants, or a `Rotated` for queries or keys.
        keywords: the same, by name.
        owner: the class of the module that called it.
        head_dim: the features of this module's heads, where it says so.
    """

    function: Callable[..., Any]
    arguments: tuple[object, ...]
    keywords: Mapping[str, object]
    owner: str
    head_dim: int | None = None

    @property
    def places(self) -> list[RotatedArgument]:
        """The places of queries and keys, in order."""
        values = (*self.arguments, *self.keywords.values())
        return [value for value in values if isinstance(value, RotatedArgument)]

    def again(self, tensors: list[Tensor]) -> list[Tensor]:
        """Call it with tensors in the places of queries and keys; return its outputs."""
        values = iter(tensors)
        arguments = [next(values) if isinstance(value, RotatedArgument) else value for value in self.arguments]
        keywords = {k: next(values) if isinstance(v, RotatedArgument) else v for k, v in self.keywords.items()}
        with torch.no_grad():
            outputs = self.function(*arguments, **keywords)
        return list(outputs) if isinstance(outputs, tuple) else [outputs]


@dataclass
class TracedLayer:
    """The rotations that were seen in a layer, and why the call did not come to its end, if it did not."""

    calls: list[RotaryCall] = field(default_factory=list)
    error: str = ""


class Enough(Exception):
    """The last layer that was asked for is done."""


@dataclass
class MetaModel:
    """A model on the meta device, and how it is called.

    Args:
        model: the model.
        modeling: the module of its code.
        angle_classes: the classes that make angles.
        run: calls it, or each of its attentions alone, where the model itself takes more than tokens.
        watch: what stands in the place of the model's functions while it is called.
        layers: the layers of the last call.
        loose: the rotations outside of layers.
        makers: the classes that made angles in the last call.
        last: the layer after which the call may end.
        current: the layers that are being called, the innermost last.
        depth: how many functions that rotate are being called.
    """

    model: nn.Module
    modeling: ModuleType
    angle_classes: tuple[type[nn.Module], ...]
    run: Callable[[MetaModel, int, int, Tensor | None], None]
    watch: Callable[[MetaModel], AbstractContextManager[None]]
    layers: list[TracedLayer] = field(default_factory=list)
    loose: TracedLayer = field(default_factory=TracedLayer)
    makers: list[str] = field(default_factory=list)
    last: int | None = None
    current: list[TracedLayer] = field(default_factory=list)
    depth: int = 0

    def call(self, batch: int, length: int, positions: Tensor | None, last: int | None = None) -> str:
        """Call the model: (batch, length) tokens at positions; return why it did not come to its end, if it did not.

        Args:
            batch: how many sequences.
            length: how many tokens.
            positions: (batch, length), or (axes, batch, length); None where the model counts them itself.
            last: the layer after which the call may end; all layers are called by default.
        """
        self.layers, self.loose, self.makers = [], TracedLayer(), []
        self.last, self.current, self.depth = last, [], 0
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
    def layer(self) -> TracedLayer:
        """The layer that is being called."""
        return self.current[-1] if self.current else self.loose
