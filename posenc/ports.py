"""What goes in and out of an encoding: ports, their axes, and arrays by the names of ports.

Axis names, everywhere: `batch`, `head`, `head_kv`, `seq`, `seq_k`, `height`, `width`, `dim`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Feeds = Mapping[str, Array]
"""Arrays by port name."""

NO_LENGTH = ("batch", "dim", "head", "head_kv")
"""Axes along which no positions run; along every other axis they do."""


@dataclass(frozen=True)
class Port:
    """One input or output: a `str` axis is dynamic, an `int` axis fixed; integers fed to it are below `end`."""

    name: str
    axes: tuple[str | int, ...]
    dtype: str
    end: int | None = None

    @property
    def dynamic(self) -> dict[int, str]:
        """The dynamic axes: {index: name}."""
        return {i: axis for i, axis in enumerate(self.axes) if isinstance(axis, str)}

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.axes))}]"


def axes_of(ports: Iterable[Port]) -> list[str]:
    """Return the dynamic axes of ports, each once, in order."""
    return list(dict.fromkeys(axis for port in ports for axis in port.dynamic.values()))


def is_length(axis: str) -> bool:
    """Return whether positions run along an axis."""
    return axis not in NO_LENGTH
