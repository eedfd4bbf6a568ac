"""Weights in blocks of 4 or 8 bits, as ONNX Runtime's MatMulNBits has them: linear layers are rounded to them.

A model that was rounded holds the same numbers as a file of blocks, so that the file can be held against it by the
usual tolerances. Rounding again changes nothing: the largest number of a block is stored exactly.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

    from posenc.ports import Array

Quantize = Literal["int8", "int4"]
"""What the weights of linear layers are rounded to."""
BITS: dict[str, int] = {name: int(name.removeprefix("int")) for name in get_args(Quantize)}
BLOCK = 32
"""Weights of a block, which share a scale; a block lies along the axis that is summed."""
IN_BLOCKS = "weight_in_blocks"
"""The attribute of layers whose weights are rounded."""
LARGEST = 127
"""The largest number of 8 bits that an input is rounded to."""


@dataclass(frozen=True)
class Blocks:
    """A matrix of weights in blocks.

    Args:
        packed: unsigned numbers of some bits, the lower half of a byte first: (columns, blocks, bytes of a block).
        scales: what a block is multiplied by, in the dtype of the weights: (columns, blocks).
        bits: those of one weight.
        rows: of the matrix, the length of each sum.
    """

    packed: Array
    scales: Array
    bits: int
    rows: int

    @property
    def weights(self) -> Array:
        """The numbers that the blocks stand for, in the dtype of the scales: (rows, columns)."""
        numbers = self.packed
        if self.bits == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], -1)
        numbers = numbers.reshape(*self.scales.shape, BLOCK).astype(np.float32) - 2 ** (self.bits - 1)
        numbers *= self.scales[..., None].astype(np.float32)
        flat: Array = numbers.reshape(len(numbers), -1)[:, : self.rows].T.astype(self.scales.dtype)
        return flat


def blocks_of(weights: Array, quantize: Quantize) -> Blocks:
    """Return the blocks that are nearest to a matrix, by ONNX Runtime's own quantizer: (rows, columns) of floats."""
    nbits, bits = _quantizer(), BITS[quantize]
    config = nbits.DefaultWeightOnlyQuantConfig(block_size=BLOCK, is_symmetric=True, bits=bits)
    # in float32: the quantizer computes 1 / scale in the dtype of its input, where half may overflow
    wide = np.ascontiguousarray(weights, np.float32)
    packed, scales, _ = nbits.DefaultWeightOnlyQuantizer(config).qbits_block_quant(wide)
    return Blocks(packed, scales.astype(weights.dtype), bits, len(weights))


def _quantizer() -> Any:
    """Return ONNX Runtime's quantizer: its import changes the root logger, which is put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    from onnxruntime.quantization import matmul_nbits_quantizer

    root.handlers[:] = handlers
    root.setLevel(level)
    return matmul_nbits_quantizer


def round_linear(model: nn.Module, quantize: Quantize) -> None:
    """Round the weights of a model's linear layers to numbers that blocks hold, in place.

    A weight that another kind of layer shares, as an embedding does, stays there as it is.
    """
    import torch
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    rounded: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}
    for layer in model.modules():
        weight = layer._parameters.get("weight") if isinstance(layer, nn.Linear | Conv1D) else None
        if weight is None:
            continue
        if id(weight) not in rounded:
            across = isinstance(layer, nn.Linear)  # its weight is (columns, rows)
            matrix = weight.detach().numpy()
            numbers = blocks_of(matrix.T if across else matrix, quantize).weights
            made = torch.from_numpy(np.ascontiguousarray(numbers.T if across else numbers))
            # the first one is kept, so that no later one has its id
            rounded[id(weight)] = weight, nn.Parameter(made, requires_grad=weight.requires_grad)
        layer.register_parameter("weight", rounded[id(weight)][1])
        setattr(layer, IN_BLOCKS, True)


def round_inputs(model: nn.Module) -> None:
    """Have linear layers with rounded weights round what goes in, too, in place: to 8 bits, in blocks with a scale.

    So MatMulNBits computes at accuracy level 4: sums of products of whole numbers, multiplied by both scales.
    """
    for layer in model.modules():
        if getattr(layer, IN_BLOCKS, False):
            layer.register_forward_pre_hook(lambda _, inputs: (_in_eight_bits(inputs[0]), *inputs[1:]))


def _in_eight_bits(x: Tensor) -> Tensor:
    """Return the nearest numbers to x that blocks of 8 bits hold: (..., rows)."""
    import torch
    from torch.nn import functional

    blocks = functional.pad(x.float(), (0, -x.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    scales = blocks.abs().amax(-1, keepdim=True) / LARGEST
    whole = torch.where(scales > 0, (blocks / scales).round(), 0.0)
    numbers: Tensor = (whole * scales).flatten(-2)[..., : x.shape[-1]].to(x.dtype)
    return numbers
