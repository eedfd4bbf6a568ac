"""Operators on complex numbers that torch.onnx does not write, as operators on their real and imaginary parts.

Rotations are often products of complex numbers: Llama's first code, Llama 4 and DeepSeek-V2 rotate so. ONNX has no
complex numbers. torch.onnx writes each as a pair of reals, but knows only some operators on such pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram

Decomposition = Callable[..., Any]


def without_complex_operators(program: ExportedProgram) -> ExportedProgram:
    """Return a program in which torch.onnx knows every operator on complex numbers, or the program that has none."""
    import torch

    values = [node.meta.get("val") for node in program.graph.nodes]
    if not any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
        return program
    lowered: ExportedProgram = program.run_decompositions(_decompositions())
    return lowered


def _decompositions() -> dict[Any, Decomposition]:
    """Return how operators on complex numbers are computed: those that only move numbers move pairs."""
    import torch

    aten = torch.ops.aten
    return {
        aten.alias.default: _of_pairs(lambda x: x),
        aten.unsqueeze.default: _of_pairs(aten.unsqueeze.default, axis=0),
        aten.select.int: _of_pairs(aten.select.int, axis=0),
        aten.index_select.default: _of_pairs(aten.index_select.default, axis=0),
        aten.split.Tensor: _of_pairs(aten.split.Tensor, axis=1),
        aten.split_with_sizes.default: _of_pairs(aten.split_with_sizes.default, axis=1),
        aten.index.Tensor: _of_pairs(aten.index.Tensor),
        aten.embedding.default: _of_pairs(lambda x, index, *_: aten.index.Tensor(x, [index])),
        aten.expand.default: _of_pairs(lambda x, sizes: aten.expand.default(x, [*sizes, 2])),
        aten.repeat.default: _of_pairs(lambda x, times: aten.repeat.default(x, [*times, 1])),
        aten.pad_sequence.default: _pad_sequence,
        aten.exp.default: _exp,
        aten.mul.Tensor: _times_number,
        aten.mul.Scalar: _times_number,
    }


def _of_pairs(operator: Callable[..., Tensor | Sequence[Tensor]], axis: int | None = None) -> Decomposition:
    """Return an operator that moves complex numbers, computed on pairs, whose own axis is behind the others.

    Args:
        operator: moves real numbers.
        axis: which of its arguments behind the tensor is an axis; one counted from behind is one further away in pairs.
    """

    def decomposition(x: Tensor, *arguments: Any, **_: object) -> Any:
        import torch

        if not x.is_complex():
            return NotImplemented
        values = [value - (value < 0) if place == axis else value for place, value in enumerate(arguments)]
        pairs = operator(torch.view_as_real(x), *values)
        return torch.view_as_complex(pairs) if isinstance(pairs, torch.Tensor) else [*map(torch.view_as_complex, pairs)]

    return decomposition


def _pad_sequence(rows: Sequence[Tensor], batch_first: bool = False, value: float = 0.0, side: str = "right") -> Any:
    import torch

    if not rows[0].is_complex() or value:
        return NotImplemented
    pairs = [torch.view_as_real(row) for row in rows]
    return torch.view_as_complex(torch.ops.aten.pad_sequence.default(pairs, batch_first, 0.0, side))


def _exp(x: Tensor) -> Any:
    import torch

    return torch.polar(x.real.exp(), x.imag) if x.is_complex() else NotImplemented


def _times_number(x: Tensor, number: object) -> Any:
    """Return numbers times a complex one, such as 1j."""
    import torch

    if not isinstance(number, complex):
        return NotImplemented
    if not x.is_complex():
        return torch.complex(x * number.real, x * number.imag)
    real, imaginary = x.real, x.imag
    return torch.complex(real * number.real - imaginary * number.imag, real * number.imag + imaginary * number.real)
