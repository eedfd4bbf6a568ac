"""Sources that begin at another position than 0: the rows of an implicit call far out, without all tokens before."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from posenc.sincos.angle_addition import AngleAddition


def digits_of(module: nn.Module) -> dict[str, AngleAddition]:
    """Return the parts of a module that compose rows of digits, each by its place."""
    return {place: part for place, part in module.named_modules() if isinstance(part, AngleAddition)}


@contextmanager
def begun_at(module: nn.Module, start: int) -> Iterator[None]:
    """Add `start` to every position that such parts of a module are asked for, while this lasts.

    Of positions 0..length-1, those that are stored stay: a graph takes them as they are, and counts the others.
    """
    parts = list(digits_of(module).values())
    for part in parts:
        part.cos_sin = partial(_cos_sin, part.cos_sin, start)  # type: ignore[method-assign]
        part.arange = partial(_arange, part)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part in parts:
            del part.cos_sin, part.arange


def _cos_sin(
    cos_sin: Callable[[Tensor], tuple[Tensor, Tensor]], start: int, positions: Tensor
) -> tuple[Tensor, Tensor]:
    return cos_sin(positions + start)


def _arange(part: AngleAddition, length: int, width: int) -> Tensor:
    """Return rows of a call; a position has the same bits whichever way it is given."""
    others: Tensor = part(torch.arange(min(part.table_rows, length), length), width)
    return torch.cat([part.first[:length], others]).unsqueeze(0)
