"""Wrong twins of a grid: checks must tell them from the right one."""

from copy import deepcopy

from torch import Tensor

from posenc.sources.grid.encode import GridRows


class Swapped(GridRows):
    """A grid whose places are those of one as wide as this is high. It is right on squares."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows, in the order of another grid: (batch, height, width, dim) -> the same."""
        rows = self.places([x.shape[2], x.shape[1]]).flatten(1, 2)
        return (x + rows.reshape(1, x.shape[1], x.shape[2], self.width)).to(x.dtype)


def swapped(module: GridRows) -> GridRows:
    """The same, with its places in the order of another grid."""
    module.__class__ = Swapped
    return module


def with_a_wrong_last_row(module: GridRows) -> GridRows:
    """The same with the last row that columns read doubled; baked alone has it."""
    module.sources[1] = deepcopy(module.sources[1])  # rows and columns share it
    rows: Tensor = module.sources[1].rows  # type: ignore[assignment]
    rows[-1] *= 2
    return module
