"""Modules that take whole patches alone: of which size those are, where `-i` does not say it, found by trying."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

from posenc.ports import Axis, Port, axes_of
from posenc.spec import Spec
from posenc_export.arrays import call_on_arrays
from posenc_export.bundle.case import Case
from posenc_export.errors import BadInput, check_machine
from posenc_export.targets import Target
from posenc_export.validation.planning.feeds import feeds_for

if TYPE_CHECKING:
    from torch import nn

Make = Callable[[object, tuple[Port, ...], Spec, Mapping[str, object], int], Target]
SIDES = range(2, 65)
"""Sizes of patches that are tried, after the strides of convolutions."""
PRIMES = (67, 71)
"""Sides of which none is a multiple: what takes them takes images that are large enough."""
FEW, MORE, MOST = 2, 3, 5
"""Patches along a side of the images that are tried."""


def in_whole_patches(make: Make) -> Make:
    """Make a target again where its module fails since sides of its grid must be multiples of a number: of that one."""

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
        target = make(source, _of(ports, side), spec, parameters, seed)
        names = ", ".join(f"'{axis.name} % {side}'" for axis in _grid(ports))
        note = f"{names}, as -i says it: the module fails at other sizes that were tried, and only such are tried"
        return replace(target, notes=(*target.notes, note))

    return made


def _grid(ports: Sequence[Port]) -> list[Axis]:
    """Return the sides of grids of which the text does not say what sizes they have."""
    return [axis for axis in axes_of(ports) if axis.kind == "grid" and axis.multiple == axis.least == 1]


def _of(ports: tuple[Port, ...], side: int) -> tuple[Port, ...]:
    """Return ports whose grids are of whole patches."""
    names = {axis.name for axis in _grid(ports)}

    def whole(axis: Axis) -> Axis:
        return replace(axis, multiple=side) if axis.name in names else axis

    return tuple(replace(port, axes=tuple(map(whole, port.axes))) for port in ports)


def _side(error: BadInput, ports: tuple[Port, ...], max_len: int, seed: int) -> int | None:
    """Return the least number of which the sides must be multiples, where they must, for a call that failed."""
    module = next(_modules(error), None)
    if module is None or not _grid(ports) or _takes(module, ports, PRIMES, seed):
        return None
    sides = sorted({*_strides(module), *SIDES})
    return next((side for side in sides if FEW * side <= max_len and _fits(module, ports, side, seed)), None)


def _modules(error: BadInput) -> Iterator[nn.Module]:
    """Yield the modules that were called when another error came up, the outermost first."""
    from torch import nn

    frame = error.__cause__ and error.__cause__.__traceback__
    while frame:
        yield from (value for value in frame.tb_frame.f_locals.values() if isinstance(value, nn.Module))
        frame = frame.tb_next


def _strides(module: nn.Module) -> set[int]:
    """Return the strides of a module's convolutions, but for those of 1."""
    strides = (getattr(part, "stride", ()) for part in module.modules() if part._get_name().startswith("Conv"))
    return {int(number) for stride in strides if isinstance(stride, tuple) for number in stride if number > 1}


def _fits(module: nn.Module, ports: tuple[Port, ...], side: int, seed: int) -> bool:
    """Return whether a module takes images of whole patches, and of others none, not even of a larger one."""
    few, more, most = FEW * side, MORE * side, MOST * side
    whole = all(_takes(module, ports, sides, seed) for sides in ((few, more), (more, few), (most, few)))
    return whole and not any(_takes(module, ports, (most + part, most + part), seed) for part in (1, -1))


def _takes(module: nn.Module, ports: tuple[Port, ...], sides: tuple[int, int], seed: int) -> bool:
    """Return whether a module takes an image of these sides, by turns."""
    usual = {axis.name: axis.allowed(FEW) for axis in axes_of(ports)}
    grid = {axis.name: sides[i % len(sides)] for i, axis in enumerate(_grid(ports))}
    feeds = feeds_for(ports, Case("probe", {**usual, **grid}), seed)
    try:
        call_on_arrays(copy.deepcopy(module), [feeds[port.name] for port in ports])
    except Exception as error:
        check_machine(error)
        return False
    return True
