"""What makes a vector of a sentence of those of its tokens, step by step, as a folder of sentence-transformers says it.

`pipeline` reads the steps, and `sentences` makes modules of torch of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True)
class PoolingStep:
    """A vector for each text out of the vectors of its tokens: `modes` are joined in their order."""

    modes: tuple[str, ...]
    width: int | None
    include_prompt: bool


@dataclass(frozen=True)
class SpladeStep:
    """A number for each word of the vocabulary: the largest, or the sum, of log(1 + ReLU(logit)) over tokens."""

    strategy: str
    twice: bool


@dataclass(frozen=True)
class DenseStep:
    """A linear layer with an activation; where `residual`, what went in is added, projected if widths differ."""

    takes: str
    gives: str
    sizes: tuple[int, int]
    bias: bool
    activation: str
    residual: bool
    config: Path
    weights: Path

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its weights, by their names."""
        (rows, columns), projects = self.sizes, self.residual and self.sizes[0] != self.sizes[1]
        biases = {"linear.bias": (columns,)} if self.bias else {}
        return {
            "linear.weight": (columns, rows),
            **biases,
            **({"residual.weight": (columns, rows)} if projects else {}),
        }


@dataclass(frozen=True)
class NormalizeStep:
    """Vectors of length 1."""

    takes: str
    gives: str


@dataclass(frozen=True)
class LayerNormStep:
    """A layer norm of the vector of a text."""

    size: int
    config: Path
    weights: Path

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its weights, by their names."""
        return {"norm.weight": (self.size,), "norm.bias": (self.size,)}


@dataclass(frozen=True)
class LayerMixStep:
    """A weighted mean of what the layers from `first` on give for each token."""

    first: int
    layers: int
    config: Path
    weights: Path

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its weights, by their names."""
        return {"layer_weights": (self.layers + 1 - self.first,)}


Weighted: TypeAlias = DenseStep | LayerNormStep | LayerMixStep
Step: TypeAlias = PoolingStep | SpladeStep | NormalizeStep | Weighted


def check_stored(step: Weighted, stored: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError, in one line, where a file has not just the tensors of the shapes that a step's config says."""
    expected = step.shapes
    for name in sorted({*stored, *expected}):
        held, wanted = ("nothing" if shapes.get(name) is None else list(shapes[name]) for shapes in (stored, expected))
        if held != wanted:
            raise ValueError(f"{step.config} is not that of its weights: of {name} they have {held}, expected {wanted}")
