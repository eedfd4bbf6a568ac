"""Images of any size: which heights and widths a model takes is asked of it, in calls at sizes beside its own.

A ViT whose images have 224 pixels a side takes others where its `forward` has `interpolate_pos_encoding`; convolutions
and DINOv2 take them as they are. A model that is made for one size fails in such a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc_models.whole.port_texts import config_values

STRETCHED = "interpolate_pos_encoding"
"""The argument at which models fit the positions that they learned to another size."""
STEPS = (1, 2, 4, 8, 14, 16, 32, 64)
"""Of how many pixels sides may have to be multiples."""
BESIDE = ((1, 2), (3, 1), (4, 4), (0, 1))
"""By how many steps the sides of images are longer than usual on which a step is tried."""
USUAL = 64
"""The side of an image where neither config nor processor says one."""
SIDES = ("height", "width")


ANY_SIDES: tuple[dict[str, str], tuple[str, ...]] = ({side: side for side in SIDES}, ())
"""What `free_sides` gives where nothing is asked of the model."""


def with_sides(text: str, sides: Mapping[str, str]) -> str:
    """Return the text of a port whose images have these sides."""
    for side, axis in sides.items():
        text = text.replace(f"{{{side}}}", axis)
    return text


def stretching(model: Any) -> Mapping[str, bool]:
    """Return the keywords at which a model takes images of other sizes than its own."""
    return dict.fromkeys({STRETCHED} & set(inspect.signature(model.forward).parameters), True)


def free_sides(
    model: Any, call: Callable[[Tensor], Any], usual: Sequence[int]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the text of each side's axis, as `height % 14 >= 28`, and lines that say which sizes those are.

    Args:
        model: by whose class a line speaks, and whose dtype pixels have.
        call: calls it with pixels.
        usual: the height and the width of its own images; none where nothing says them.

    Raises ValueError, in one line, where it takes images of one size alone.
    """
    height, width = usual or (USUAL, USUAL)
    said = config_values(model)
    channels = said.get("num_channels", 3)

    def takes(*sides: int) -> bool:
        """Return whether the model answers to an image of these sides."""
        try:
            with torch.no_grad():
                call(torch.zeros(1, channels, *sides, dtype=model.dtype))
        except Exception:  # a model of a stranger's config raises what comes
            return False
        return True

    def steps_by(step: int) -> bool:
        """Return whether the model takes images whose sides are other multiples of so many pixels."""
        rows, columns = height // step, width // step
        return all(takes((rows + down) * step, (columns + right) * step) for down, right in BESIDE)

    patch = said.get("patch_size")
    # what is left over of a patch would be cut off without a word
    tried = (patch, *(step for step in STEPS if step > patch)) if isinstance(patch, int) else STEPS
    step = next((step for step in tried if steps_by(step)), 0)
    if not step:
        raise ValueError(
            f"{type(model).__name__} takes images of one size alone, {height} x {width}: leave out --any-image-size"
        )
    least = _least(lambda side: takes(side, side), step, min(height, width) // step * step)
    of_step = f" % {step}" * (step > 1)
    multiples = f"multiples of {step} " * (step > 1)
    made_for = f"; those that it was made for are {height} x {width}" * bool(usual)
    line = f"images have any height and width, {multiples}from {least} on{made_for}"
    return {side: f"{side}{of_step} >= {least}" for side in SIDES}, (line,)


def _least(takes: Callable[[int], bool], step: int, usual: int) -> int:
    """Return the shortest side that is taken, a multiple of a step; each longer one up to the usual is taken, too."""
    low, high = 0, usual // step  # steps that are too few, and enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if takes(middle * step) else (middle, high)
    return high * step
