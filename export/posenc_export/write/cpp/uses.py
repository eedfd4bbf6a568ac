"""How a class uses the memory of a call: inputs of which it takes only sizes, outputs in the place of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from posenc.ports import Port, Values, carrying

MayReplace = Callable[[str, str], bool]
"""Whether an output, by its name, may be written over an input of its shape and dtype."""


@dataclass(frozen=True)
class Uses:
    """How a class uses the memory of a call.

    Args:
        unread: Inputs of which only the sizes are taken.
        replaces: The input that an output may exactly replace, by output.
        caches: The input that an output of a decoder shares a buffer with which has room for more, by output.

    """

    unread: frozenset[str] = frozenset()
    replaces: Mapping[str, str] = field(default_factory=dict)
    caches: Mapping[str, str] = field(default_factory=dict)

    def fed(self, inputs: Iterable[Port]) -> tuple[Port, ...]:
        """Return the inputs whose memory a call is given."""
        return tuple(port for port in inputs if port.name not in self.unread)


def in_place(inputs: Iterable[Port], outputs: Iterable[Port], may: MayReplace) -> Mapping[str, str]:
    """Return the input that each output may exactly replace, by their names: of the same dtype and axes."""
    free = carrying(inputs, Values)
    replaces: dict[str, str] = {}
    for output in outputs:
        source = next((port for port in free if _alike(port, output) and may(output.name, port.name)), None)
        if source is not None:
            replaces[output.name] = source.name
            free.remove(source)
    return replaces


def _alike(port: Port, output: Port) -> bool:
    return (port.dtype, [str(axis) for axis in port.axes]) == (output.dtype, [str(axis) for axis in output.axes])
