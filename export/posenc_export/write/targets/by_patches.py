"""Modules that take only whole patches: the size of a patch, found by trying where `-i` does not say it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING

from posenc.ports import Axis, Port, axes_of
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.common.errors import BadInput
from posenc_export.write.targets import Target
from posenc_export.write.targets.answering import answers

if TYPE_CHECKING:
    from torch import nn

Make = Callable[[object, tuple[Port, ...], Spec, Mapping[str, object], int], Target]
SIDES = range(2, 65)
"""Sizes of patches that are tried, after those that the module's configuration says."""
CONFIGURED = ("patch_size", "patch_sizes", "window_size", "stride", "strides", "tubelet_size", "patch")
"""Attributes of modules, and of their configurations, that say how large patches and windows are."""
PRIMES = (67, 71)
"""Sides that are multiples of no patch: a module that takes them only wants images that are large enough."""
FEW, MORE, MANY = 2, 3, 5
"""Patches along a side of the images that are tried."""
MOST = 512
"""The largest product of a patch and a window."""
SECONDS = 10.0
"""How long sizes are tried: afterwards the user is asked."""


@dataclass(frozen=True)
class PatchSides:
    """What sides a module takes.

    Args:
        multiple: of which they are multiples.
        least: the smallest.
    """

    multiple: int = 1
    least: int = 1

    def words(self, name: str) -> str:
        """Return it as `-i` says it of an axis."""
        return f"'{name} % {self.multiple}'" if self.multiple > 1 else f"'{name} >= {self.least}'"


def in_whole_patches(make: Make) -> Make:
    """Make a target again, with whole patches, where its module fails since the sides of its grid must be multiples.

    A module that takes any image which is large enough gets a least size instead.
    """

    @wraps(make)
    def made(
        source: object, ports: tuple[Port, ...], spec: Spec, parameters: Mapping[str, object], seed: int
    ) -> Target:
        try:
            return make(source, ports, spec, parameters, seed)
        except BadInput as error:
            sides = _sides(error, ports, spec.max_len, seed)
            if sides is None:
                raise
        target = make(source, _of_sides(ports, sides), spec, parameters, seed)
        names = ", ".join(sides.words(axis.name) for axis in _grid(ports))
        note = f"{names}, as -i says it: the module fails at other sizes that were tried, and only such are tried"
        return replace(target, notes=(*target.notes, note))

    return made


def _grid(ports: Sequence[Port]) -> list[Axis]:
    """Return the sides of grids that may have any size, as far as the text says."""
    return [axis for axis in axes_of(ports) if axis.kind == "grid" and axis.multiple == axis.least == 1]


def _of_sides(ports: tuple[Port, ...], sides: PatchSides) -> tuple[Port, ...]:
    """Return ports whose grids have such sides."""
    names = {axis.name for axis in _grid(ports)}

    def of_sides(axis: Axis) -> Axis:
        return replace(axis, multiple=sides.multiple, least=sides.least) if axis.name in names else axis

    return tuple(replace(port, axes=tuple(map(of_sides, port.axes))) for port in ports)


def _sides(error: BadInput, ports: tuple[Port, ...], max_len: int, seed: int) -> PatchSides | None:
    """Return the sides that a module takes, for a call that failed; None where none are found in time."""
    module = next(_modules(error), None)
    if module is None or not _grid(ports):
        return None
    end = time.monotonic() + SECONDS
    said = _said(module)
    if _takes(module, ports, PRIMES, seed):
        fits = (n for n in said if n <= max_len and _takes(module, ports, (n, n + 1), seed))
        least = next((n for n in fits if time.monotonic() < end), None)
        return None if least is None else PatchSides(least=least)
    # the smallest that fits: a multiple of a patch would fit, too
    for side in dict.fromkeys((*said, *SIDES)):
        if time.monotonic() > end:
            return None
        if FEW * side <= max_len and _fits(module, ports, side, seed):
            return PatchSides(multiple=side)
    return None


def _said(module: nn.Module) -> list[int]:
    """Return sizes of patches and windows that a module and its parts say, and products of two of them."""
    owners = [
        owner for part in module.modules() for owner in (part, getattr(part, "config", None)) if owner is not None
    ]
    values = (getattr(owner, name, None) for owner in owners for name in CONFIGURED)
    sizes = {int(size) for value in values for size in _numbers(value) if SIDES[0] <= size <= SIDES[-1]}
    products = {one * other for one in sizes for other in sizes if one * other <= MOST}
    return [*sorted(sizes), *sorted(products - sizes)]


def _numbers(value: object) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _numbers(item)


def _modules(error: BadInput) -> Iterator[nn.Module]:
    """Yield the modules that were being called when an error came up, the outermost first."""
    from torch import nn

    frame = error.__cause__ and error.__cause__.__traceback__
    while frame:
        yield from (value for value in frame.tb_frame.f_locals.values() if isinstance(value, nn.Module))
        frame = frame.tb_next


def _fits(module: nn.Module, ports: tuple[Port, ...], side: int, seed: int) -> bool:
    """Return whether a module takes images of whole patches, and no image of other sides, not even a larger one."""
    few, more, many = FEW * side, MORE * side, MANY * side
    whole = all(_takes(module, ports, sides, seed) for sides in ((few, more), (more, few), (many, few)))
    return whole and not any(_takes(module, ports, (many + part, many + part), seed) for part in (1, -1))


def _takes(module: nn.Module, ports: tuple[Port, ...], sides: tuple[int, int], seed: int) -> bool:
    """Return whether a module takes an image whose sides are these, in turn."""
    usual = {axis.name: axis.allowed(FEW) for axis in axes_of(ports)}
    grid = {axis.name: sides[i % len(sides)] for i, axis in enumerate(_grid(ports))}
    return answers(copy.deepcopy(module), ports, Case("probe", {**usual, **grid}), seed)
