"""RoPE-Mixed (arXiv:2403.13298): patches are rotated by row and column at once, at learned frequencies of each head.

    angle of pair k of head h = column * f[0, h, k] + row * f[1, h, k]

Tokens before the patches (class, registers) are not rotated there: a model rotates what it splits off behind them.
"""

import math
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.formulas.parts import rotation
from posenc.formulas.rope_mixed import reference
from posenc.joins.apply_rotary import Heads
from posenc.memory import check_room
from posenc.ports import Floats
from posenc.ranges import above, minimum
from posenc.scheme import DATA, Unsupported, scheme
from posenc.sincos import check_table
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.by_head import head_angles
from posenc.spec import Spec
from posenc.weight_files import read_tensor
from posenc.weights import load_tensor, record

HEADS, HEAD_DIM = 6, 64
"""Those of the smallest published model, where neither weights nor numbers are given."""


@scheme(
    "rope_mixed",
    paper="arXiv:2403.13298",
    formula="as rope, pair k of head h at a = column f[0,h,k] + row f[1,h,k]; frequencies f are learned",
    models=("RoPE-Mixed ViT",),
    not_held={"_drawn": DATA},
    samples=({"heads": 3, "head_dim": 8}, {"heads": 2, "head_dim": 12, "rope_theta": 100.0, "tensor_layout": "bshd"}),
    unsupported=Unsupported(
        positions={
            "offset": "a grid has no first position to shift; give all of them with --positions explicit",
            "mask": "a mask counts one position a token, and a place has two; give them with --positions explicit",
        }
    ),
)
def rope_mixed(
    spec: Spec,
    *,
    heads: Annotated[int | None, minimum(1)] = None,
    head_dim: int | None = None,
    weights: str | None = None,
    key: str | None = None,
    layer: int | None = None,
    rope_theta: Annotated[float, above(1)] = 10.0,
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
) -> Encoding:
    """Queries and keys rotated by row and column at once, at learned frequencies of each head, on a grid of any size.

    Args:
        heads: heads of q, and of k [default: those of the weights, or 6].
        head_dim: features of a head; feature 2 i and 2 i + 1 are a pair [default: those of the weights, or 64].
        weights: frequencies in a .npy, .safetensors, .pt, .pth or .bin file, or a model's folder: (2, heads, pairs) of
            a layer, or (2, layers, heads, pairs) of all; first those of the column, then those of the row.
        key: the name of the frequencies in a file that holds several tensors (timm: rope.freqs).
        layer: which layer, from 0, of weights that hold all layers.
        rope_theta: the base of the frequencies that are drawn, where no weights are given: each head's axes are turned
            by chance, as before training.
        tensor_layout: "bhsd" (batch, head, height, width, dim) or "bshd" (batch, height, width, head, dim).
    """
    if weights is None:
        table = _drawn(heads or HEADS, HEAD_DIM if head_dim is None else head_dim, rope_theta, key, layer)
    else:
        table = _read(weights, key, layer)
        _check_sizes(table, heads, head_dim, weights)
    frequencies: Floats = table.detach().cpu().double().numpy()  # NumPy has no bfloat16
    _, count, pairs = frequencies.shape
    check_table(spec, 2 * count * pairs)
    shape = Heads(2 * pairs, 2 * pairs, "interleaved", tensor_layout, count=count)
    formula = partial(reference, frequencies=frequencies, pairs=rotation.Pairs("interleaved", tensor_layout))
    return rotary.encode(head_angles(spec, frequencies, shape), spec, shape, rotary.RotaryOutput(), formula=formula)


def _drawn(heads: int, head_dim: int, rope_theta: float, key: str | None, layer: int | None) -> Tensor:
    """Return the frequencies of a layer before training: (2, heads, head_dim / 2)."""
    if key is not None or layer is not None:
        name, value = ("layer", layer) if key is None else ("key", key)
        raise ValueError(f"{name} is of a file: give weights=FILE beside {name}={value}")
    if head_dim < 4 or head_dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4 where frequencies are drawn, got {head_dim}")
    check_room("a table", (2, heads, head_dim // 2), "float32")
    quarter = head_dim // 4
    lengths = rope_theta ** -(torch.arange(quarter) / quarter)
    turn = 2 * math.pi * torch.rand(heads, 1)
    # one half of the pairs along a direction of the image, the other half across it
    directions = torch.cat([turn.expand(-1, quarter), turn.expand(-1, quarter) + math.pi / 2], 1)
    return record(lengths.repeat(2) * torch.stack([directions.cos(), directions.sin()]))


def _read(weights: str, key: str | None, layer: int | None) -> Tensor:
    """Return the frequencies of a layer in a file: (2, heads, pairs)."""
    held, _ = read_tensor(weights, key, lambda tensor: tensor.dim() in (3, 4))
    if isinstance(held, Tensor) and held.dim() == 4 and layer is None:
        raise ValueError(f"weights {tuple(held.shape)} hold all layers: give layer=N, from 0 to {held.shape[1] - 1}")
    axes = ("2", "heads", "pairs") if layer is None else ("2", "layers", "heads", "pairs")
    table = load_tensor(weights, key, axes)
    if table.shape[0] != 2:
        raise ValueError(f"weights must be ({', '.join(axes)}), got {tuple(table.shape)} in {weights}")
    if layer is None:
        return table
    if not 0 <= layer < table.shape[1]:
        raise ValueError(f"layer must be 0 to {table.shape[1] - 1}, the layers of {weights}, got {layer}")
    return table[:, layer]


def _check_sizes(table: Tensor, heads: int | None, head_dim: int | None, weights: str) -> None:
    """Raise ValueError, in one line, where a number is given that is not that of the weights."""
    held = {"heads": table.shape[1], "head_dim": 2 * table.shape[2]}
    for name, value in (("heads", heads), ("head_dim", head_dim)):
        if value not in (None, held[name]):
            raise ValueError(f"{name} must be {held[name]} as in {weights}, or left out, got {value}")
