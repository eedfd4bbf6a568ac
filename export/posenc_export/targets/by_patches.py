"""Modules that take only whole patches: the size of a patch, found by trying where `-i` does not say it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

from posenc.ports import Axis, Port, axes_of
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.errors import BadInput
from posenc_export.targets import Target
from posenc_export.validation.planning.answering import answers

if TYPE_CHECKING:
    from torch import nn

Make = Callable[[object, tuple[Port, ...], Spec, Mapping[str, object], int], Target]
SIDES = range(2, 65)
"""Sizes of patches that are tried, after the strides of convolutions."""
PRIMES = (67, 71)
"""Sides that are multiples of no patch: a module that takes them only wants images that are large enough."""
FEW, MORE, MANY = 2, 3, 5
"""Patches along a side of the images that are tried."""


def in_whole_patches(make: Make) -> Make:
    """Make a target again, with whole patches, where its module fails since the sides of its grid must be multiples."""

    @wraps(make)
    def made(
        source: object, ports: tuple[Port, ...], spec: Spec, parameters: Mapping[str, object], seed: int
    ) -> Target:
        try:
            return make(source, ports, spec, parameters, seed)
        except BadInput as error:
            side = _side(error, ports, spec.max_len, seed)
            if side is None:
                raise
        target = make(source, _in_patches(ports, side), spec, parameters, seed)
        names = ", ".join(f"'{axis.name} % {side}'" for axis in _grid(ports))
        note = f"{names}, as -i says it: the module fails at other sizes that were tried, and only such are tried"
        return replace(target, notes=(*target.notes, note))

    return made


def _grid(ports: Sequence[Port]) -> list[Axis]:
    """Return the sides of grids that may have any size, as far as the text says."""
    return [axis for axis in axes_of(ports) if axis.kind == "grid" and axis.multiple == axis.least == 1]


def _in_patches(ports: tuple[Port, ...], side: int) -> tuple[Port, ...]:
    """Return ports whose grids are of whole patches."""
    names = {axis.name for axis in _grid(ports)}

    def whole(axis: Axis) -> Axis:
        return replace(axis, multiple=side) if axis.name in names else axis

    return tuple(replace(port, axes=tuple(map(whole, port.axes))) for port in ports)


def _side(error: BadInput, ports: tuple[Port, ...], max_len: int, seed: int) -> int | None:
    """Return the side of a patch, for a call that failed; None where the module does not want whole patches."""
    module = next(_modules(error), None)
    if module is None or not _grid(ports) or _takes(module, ports, PRIMES, seed):
        return None
    # the smallest that fits: a multiple of a patch would fit, too
    sides = sorted({*_strides(module), *SIDES})
    return next((side for side in sides if FEW * side <= max_len and _fits(module, ports, side, seed)), None)


def _modules(error: BadInput) -> Iterator[nn.Module]:
    """Yield the modules that were being called when an error came up, the outermost first."""
    from torch import nn

    frame = error.__cause__ and error.__cause__.__traceback__
    while frame:
        yield from (value for value in frame.tb_frame.f_locals.values() if isinstance(value, nn.Module))
        frame = frame.tb_next


def _strides(module: nn.Module) -> set[int]:
    """Return the strides above 1 of a module's convolutions: the patches of vision transformers."""
    strides = (getattr(part, "stride", ()) for part in module.modules() if part._get_name().startswith("Conv"))
    return {int(number) for stride in strides if isinstance(stride, tuple) for number in stride if number > 1}


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
