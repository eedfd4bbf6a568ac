"""Operators on complex numbers that torch.onnx does not write, as operators on their real and imaginary parts.

Rotations are often a product of complex numbers: Llama's first code, Llama 4 and DeepSeek-V2 do so. ONNX has none;
torch.onnx writes a pair of reals for each, but only for some operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram

Decomposition = Callable[..., Any]


def in_pairs(program: ExportedProgram) -> ExportedProgram:
    """Return a program that torch.onnx writes, where only operators on complex numbers keep it from that."""
    import torch

    values = [node.meta.get("val") for node in program.graph.nodes]
    if not any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
        return program
    lowered: ExportedProgram = program.run_decompositions(_decompositions())
    return lowered


def _decompositions() -> dict[Any, Decomposition]:
    """Return how operators are computed: those that move numbers move pairs, whose axis is behind the others."""
    import torch

    aten = torch.ops.aten
    return {
        aten.alias.default: _moving(lambda x: x),
        aten.unsqueeze.default: _moving(lambda x, axis: aten.unsqueeze.default(x, axis % x.dim())),
        aten.select.int: _moving(lambda x, axis, index: aten.select.int(x, axis % (x.dim() - 1), index)),
        aten.index_select.default: _moving(
            lambda x, axis, index: aten.index_select.default(x, axis % (x.dim() - 1), index)
        ),
        aten.index.Tensor: _moving(aten.index.Tensor),
        aten.embedding.default: _moving(lambda x, index, *_: aten.index.Tensor(x, [index])),
        aten.expand.default: _moving(lambda x, sizes: aten.expand.default(x, [*sizes, 2])),
        aten.repeat.default: _moving(lambda x, times: aten.repeat.default(x, [*times, 1])),
        aten.split.Tensor: _moving(lambda x, size, axis=0: aten.split.Tensor(x, size, axis % (x.dim() - 1))),
        aten.split_with_sizes.default: _moving(
            lambda x, sizes, axis=0: aten.split_with_sizes.default(x, sizes, axis % (x.dim() - 1))
        ),
        aten.pad_sequence.default: _pad,
        aten.exp.default: _exp,
        aten.mul.Tensor: _times_number,
        aten.mul.Scalar: _times_number,
    }


def _moving(move: Callable[..., Tensor | Sequence[Tensor]]) -> Decomposition:
    """Return how complex numbers are moved: as pairs, in which their axis is the last."""

    def moved(x: Tensor, *arguments: int | Tensor | Sequence[Any], **more: Any) -> Any:
        import torch

        if not x.is_complex():
            return NotImplemented
        pairs = move(torch.view_as_real(x), *arguments)
        return torch.view_as_complex(pairs) if isinstance(pairs, torch.Tensor) else [*map(torch.view_as_complex, pairs)]

    return moved


def _pad(rows: Sequence[Tensor], batch_first: bool = False, value: float = 0.0, side: str = "right") -> Any:
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
