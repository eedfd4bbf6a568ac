"""Small decoders by the plain exporter, whose attentions turn queries and keys in the ways that people get wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

Turn = Callable[[Tensor, Tensor, Tensor], Tensor]


def halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pair a feature with the one half a head further on."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pair neighbours."""
    return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin


def unsigned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Forget the sign of one half, so that nothing is turned."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([second, first], -1) * sin


class Decoder(nn.Module):
    """Attentions with rotary positions: a subclass turns something else, or otherwise."""

    turn: Turn = staticmethod(halves)
    layout = "halves"
    key_heads = 0

    def __init__(self, layers: int = 2, heads: int = 2, head: int = 16, theta: float = 1e4, width: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads, self.head, self.width = heads, head, width or head
        self.words = nn.Embedding(40, heads * head)
        self.layers = nn.ModuleList(nn.Linear(heads * head, 3 * heads * head) for _ in range(layers))
        self.register_buffer("inv_freq", theta ** (-torch.arange(0, self.width, 2).double() / self.width).float())

    def angles(self, positions: Tensor) -> Tensor:
        """Return the angle of each feature: (batch, 1, tokens, width)."""
        angles = positions[:, None, :, None].float() * self.inv_freq  # type: ignore[operator]
        return (
            torch.cat([angles, angles], -1)
            if self.layout == "halves"
            else torch.stack([angles, angles], -1).flatten(-2)
        )

    def rotate(self, x: Tensor, angles: Tensor) -> Tensor:
        """Turn the first features of heads; the others pass."""
        turned = type(self).turn(x[..., : self.width], angles.cos(), angles.sin())
        return turned if self.width == self.head else torch.cat([turned, x[..., self.width :]], -1)

    def sides(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values as they go into the product."""
        angles = self.angles(positions)
        return self.rotate(q, angles), self.rotate(k, angles), v

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Return the hidden states: (batch, tokens, heads * head)."""
        x: Tensor = self.words(input_ids)
        for layer in self.layers:
            q, k, v = layer(x).unflatten(-1, (3, self.heads, self.head)).permute(2, 0, 3, 1, 4)
            q, k, v = self.sides(q, k, v, position_ids)
            x = x + ((q @ k.transpose(-1, -2) * self.head**-0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x


def saved(
    model: nn.Module,
    path: Path,
    names: tuple[str, str] = ("input_ids", "position_ids"),
    rows: int = 0,
    newer: bool = False,
) -> Path:
    """Write a decoder as ONNX, by the exporter of old or by the newer one.

    Args:
        model: the decoder.
        path: where to.
        names: of its inputs.
        rows: positions that each token has; 0 for one.
        newer: by which exporter.
    """
    ids = torch.zeros(2, 5, dtype=torch.int64)
    positions = torch.arange(5).expand(*((rows, 2, 5) if rows else (2, 5))).contiguous()
    axes = {names[0]: {0: "batch", 1: "seq"}, names[1]: {1: "batch", 2: "seq"} if rows else {0: "batch", 1: "seq"}}
    arguments: dict[str, object] = {"input_names": list(names), "output_names": ["hidden"]}
    if newer:
        shapes = tuple(dict.fromkeys(axes[name], torch.export.Dim.DYNAMIC) for name in names)
        arguments |= {"dynamo": True, "verbose": False, "dynamic_shapes": shapes}
    else:
        arguments |= {"dynamo": False, "dynamic_axes": {**axes, "hidden": {0: "batch", 1: "seq"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), (ids, positions), str(path), **arguments)  # type: ignore[arg-type]
    return path
