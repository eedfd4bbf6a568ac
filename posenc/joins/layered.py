"""Cosines and sines of several bases at the same positions: what models turn by whose types of layers differ in it."""

from collections.abc import Mapping

from torch import Tensor, nn

from posenc.spec import Positions


class Layered(nn.Module):
    """Modules that each return cosines and sines: what the ways to give positions share.

    Args:
        layers: A module for each type of layers, all with the same inputs.
    """

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class WholeLayers(Layered):
    """Cosines and sines of all positions, with no input."""

    def forward(self) -> list[Tensor]:
        """Return cos and sin of each type of layers in turn: (max_len, width) each."""
        outputs: list[Tensor] = []  # TorchScript has no tuple whose length only the modules say
        for layer in self.layers:
            cos, sin = layer()
            outputs.append(cos)
            outputs.append(sin)
        return outputs


# Each way has a forward of its own: TorchScript and torch.export read the names of its inputs.
class OffsetLayers(Layered):
    """Cosines and sines of positions start..start+seq-1."""

    def forward(self, x: Tensor, start: Tensor) -> list[Tensor]:
        """Return cos and sin of each type of layers in turn: (batch, seq, hidden), (1,) -> (1, seq, width) each."""
        outputs: list[Tensor] = []
        for layer in self.layers:
            cos, sin = layer(x, start)
            outputs.append(cos)
            outputs.append(sin)
        return outputs


class ExplicitLayers(Layered):
    """Cosines and sines of the position of each token of each sequence."""

    def forward(self, positions: Tensor) -> list[Tensor]:
        """Return cos and sin of each type of layers in turn: (batch, seq) -> (batch, seq, width) each."""
        outputs: list[Tensor] = []
        for layer in self.layers:
            cos, sin = layer(positions)
            outputs.append(cos)
            outputs.append(sin)
        return outputs


class MaskLayers(Layered):
    """Cosines and sines of positions counted from an attention mask."""

    def forward(self, mask: Tensor) -> list[Tensor]:
        """Return cos and sin of each type of layers in turn: (batch, seq) -> (batch, seq, width) each."""
        outputs: list[Tensor] = []
        for layer in self.layers:
            cos, sin = layer(mask)
            outputs.append(cos)
            outputs.append(sin)
        return outputs


FORWARDS: Mapping[Positions, type[Layered]] = {
    "implicit": WholeLayers,
    "offset": OffsetLayers,
    "explicit": ExplicitLayers,
    "mask": MaskLayers,
}
"""The module for each way in which a call gives positions."""
