"""The angles of a vision tower at places of ours: its module of angles is called in the way that its code calls it.

Modules take places, with or without a table of them beside, or an image, of which they make a grid of places.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from posenc.ports import Integers
from posenc_models.asking.built import Built, parent_of
from posenc_models.asking.model import CannotAsk
from posenc_models.asking.running import pair, run_, takes
from posenc_models.config.foreign import HfConfig

ANGLES = "(Rotary|Rope)(Position)?Embedding$"
"""How the names of the classes end whose modules make cosines and sines."""
LARGEST = 2**18
"""Places of the largest grid that is asked about whole."""
Angles = tuple[Tensor, ...]
"""Cosines and sines, or complex numbers, as the tower's function takes them."""
At = Callable[[Integers], Angles]
"""Places of ours, (axes, tokens), to the angles there."""


@dataclass(frozen=True)
class Counting:
    """How a tower counts the places that it gives its module of angles.

    Args:
        order: which of our axes it gives first, second, ...; () as they are.
        first: its number of the first place.
        in_batches: whether it gives several images at once, (images, places, axes).
    """

    order: tuple[int, ...] = ()
    first: int = 0
    in_batches: bool = False


COUNTING: Mapping[str, Counting] = {
    "gemma4_vision": Counting((1, 0), in_batches=True),
    "inkling2_vision": Counting(first=1),
    **dict.fromkeys(("muse_glimmer_vision", "muse_spark_vision"), Counting((1, 0), 1)),
}
"""How towers count that make places in their own forward otherwise than ours: a test runs each."""


def angles_of(made: Built) -> tuple[nn.Module, At]:
    """Return a tower's module of angles, and the angles that it gives at places of ours."""
    path = path_of(made)
    module, config = made.model.get_submodule(path), _config_at(made, path) or made.config
    table = getattr(parent_of(made.model, path), "position_ids", None)
    if takes(module, "pixel_values"):
        return module, _of_image(module, config.patch_size)
    if takes(module, "layer_type"):
        layer_type = made.part.name.rpartition(".")[2]
        # a batch of one: (axes, 1, tokens)
        return module, lambda places: _run(module, torch.zeros(1), _tensor(places[:, None]), layer_type)
    if table is not None:
        return module, _listed(module, table)
    if takes(module, "position_ids"):
        counting = COUNTING.get(made.part.model_type, Counting())
        return module, lambda places: _run(module, torch.zeros(1), _tensor(_counted(places, counting)))
    if takes(module, "hidden_states"):
        return module, _of_own_grid(module, config.image_size // config.patch_size)
    return module, _of_features(module, config.q_aggregation_kernel_size, config.q_aggregation_stride)


def path_of(made: Built) -> str:
    """Return the path of a tower's module of angles: of the layers that are read, where each has one."""
    numbers = made.row.layer_numbers(made.part.config, made.part.absent)
    in_layer = re.compile(rf"\blayers\.({'|'.join(map(str, numbers))})\." if numbers else "")
    paths = [path for path in made.paths(ANGLES) if in_layer.search(path)]
    # a tower may have another within it, of a config of its own
    own = [path for path in paths if isinstance(_config_at(made, path), type(made.config))]
    return (own or paths)[0]


def _config_at(made: Built, path: str) -> HfConfig | None:
    config: HfConfig | None = getattr(made.model.get_submodule(path), "config", None)
    return config


def _counted(places: Integers, counting: Counting) -> Integers:
    """Return places as a tower counts them, and as it gives them: (places, axes), or (1, places, axes)."""
    order = counting.order or range(len(places))
    rows = np.stack([places[axis] for axis in order], -1) + counting.first
    return rows[None] if counting.in_batches else rows


def _of_image(module: nn.Module, patch_size: int | Sequence[int]) -> At:
    """Return the angles of a module that makes a grid of an image's sizes: ours is all zeros in one number."""
    patch = pair(patch_size)

    def at(places: Integers) -> Angles:
        height, width = _sides(places)
        image = torch.zeros(()).expand(1, 1, height * patch[0], width * patch[1])
        return _picked(_run(module, image), places[0] * width + places[1])

    return at


def _of_features(module: nn.Module, kernel: int, stride: int) -> At:
    """Return the angles of a module that makes a grid of the windows that features have room for."""

    def at(places: Integers) -> Angles:
        height, width = _sides(places)
        sizes = ((side - 1) * stride + kernel for side in (height, width))
        return _picked(_run(module, torch.zeros(()).expand(1, 1, *sizes)), places[0] * width + places[1])

    return at


def _of_own_grid(module: nn.Module, side: int) -> At:
    """Return the angles, complex numbers, of a module that has those of a square of patches, row by row."""
    table = run_(lambda: module(torch.zeros(1)))

    def at(places: Integers) -> Angles:
        if places.max() >= side:
            raise CannotAsk(f"its grid is {side} x {side}")
        return (table[_tensor(places[0] * side + places[1])],)

    return at


def _listed(module: nn.Module, table: Tensor) -> At:
    """Return the angles at the places that a tower has a table of, row by row: (places, axes)."""
    fast = int(torch.nonzero(table[1] != table[0])[0])  # the axis that changes first is that of columns
    again = torch.nonzero(table[1:, fast] == table[0, fast])
    width = int(again[0]) + 1 if len(again) else len(table)

    def at(places: Integers) -> Angles:
        height = len(table) // width
        if places[0].max() >= height or places[1].max() >= width:
            raise CannotAsk(f"its grid is {height} x {width}")
        return _run(module, torch.zeros(1), table[_tensor(places[0] * width + places[1])])

    return at


def _run(module: nn.Module, *inputs: object) -> Angles:
    angles: Angles = run_(lambda: module(*inputs))
    return angles


def _sides(places: Integers) -> tuple[int, int]:
    """Return height and width of the smallest grid that has all places; raise CannotAsk for one that is too large."""
    height, width = (int(axis.max()) + 1 for axis in places)
    if height * width > LARGEST:
        raise CannotAsk(f"a grid of {height} x {width} is not asked about: at most {LARGEST:,} places are")
    return height, width


def _picked(angles: Angles, index: Integers) -> Angles:
    """Return the rows of angles at places, (tokens, features) each."""
    return tuple(values.flatten(0, -2)[_tensor(index)] for values in angles)


def _tensor(places: Integers) -> Tensor:
    return torch.from_numpy(np.array(places))
