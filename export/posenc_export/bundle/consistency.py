"""Whether the parts of a manifest fit each other: what no table of fields can say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posenc.ports import Extents, Port, Positions, Size, Start, Values, axes_of, is_number
from posenc_export.bundle.case import Case

INTEGERS = {"int64": 2**63, "int32": 2**31}
"""What integers of a dtype are below."""


def misfits(inputs: Sequence[Port], outputs: Sequence[Port], cases: Sequence[Case]) -> list[str]:
    """Return what does not fit, a line each, with the place; nothing where all does."""
    lines = [
        *_twice("cases", [case.name for case in cases]),
        *_ports(inputs, outputs),
        *_among(inputs),
        *_formulas(inputs),
        *_sizes(inputs, cases),
    ]
    if all(case.refused for case in cases):
        lines.append("cases must hold at least one that is not refused: there is nothing to compare")
    return [f"manifest.json: {line}" for line in lines]


def _twice(place: str, names: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            yield f"{place}[{i}].name must be unlike the names before it, got {name!r}"
        seen.add(name)


def _ports(inputs: Sequence[Port], outputs: Sequence[Port]) -> Iterator[str]:
    """Yield axes that have neither a size nor a name, and sizes of axes that there are not."""
    dynamic = {axis.name for axis in axes_of(inputs)}
    for place, ports in (("inputs", inputs), ("outputs", outputs)):
        for i, port in enumerate(ports):
            for j, axis in enumerate(port.axes):
                if axis.is_dynamic and not axis.name:
                    yield f"{place}[{i}].axes[{j}] must have a name or a size, got neither"
            if isinstance(port.carries, Positions) and port.carries.ends and not _one_for_each(port, port.carries.ends):
                yield f"{place}[{i}].carries.ends must be one for each position of a token, along its first axis"
            if isinstance(port.carries, Values) and not _is_range(port, port.carries):
                yield f"{place}[{i}].carries must be a range that {port.dtype} holds, high above low, or null"
            if isinstance(port.carries, Size | Extents) and port.carries.of not in dynamic:
                yield f"{place}[{i}].carries.of must name a dynamic axis of an input, got {port.carries.of!r}"


def _among(inputs: Sequence[Port]) -> Iterator[str]:
    """Yield starts whose tokens are among the keys of an axis that there is not."""
    dynamic = {axis.name for port in inputs for axis in port.dynamic.values()}
    for i, port in enumerate(inputs):
        if isinstance(port.carries, Start) and port.carries.among not in (None, *dynamic):
            yield f"inputs[{i}].carries.among must name a dynamic axis of an input, got {port.carries.among!r}"


def _formulas(inputs: Sequence[Port]) -> Iterator[str]:
    """Yield axes of inputs that are products: nothing says how large their factors are, as it does of sums."""
    for i, port in enumerate(inputs):
        for j, axis in enumerate(port.axes):
            if not all(term in axis.names or is_number(term) for term in axis.terms if axis.is_dynamic):
                expected = "a name, or a sum of names and numbers, in an input"
                yield f"inputs[{i}].axes[{j}].name must be {expected}, got {axis.name!r}"


def _is_range(port: Port, values: Values) -> bool:
    """Return whether numbers of a dtype can be in a range, where one is said: of integers its ends are some, too."""
    ends = [end for end in (values.low, values.high) if end is not None]
    if port.dtype in INTEGERS and not all(end == int(end) and abs(end) < INTEGERS[port.dtype] for end in ends):
        return False
    return len(ends) < 2 or ends[0] < ends[1]


def _one_for_each(port: Port, ends: tuple[int, ...]) -> bool:
    return bool(port.axes) and port.axes[0].size == len(ends)


def _sizes(inputs: Sequence[Port], cases: Sequence[Case]) -> Iterator[str]:
    """Yield cases that do not give a size to each dynamic axis of the inputs, and to nothing else."""
    names = {axis.name for axis in axes_of(inputs)}
    for i, case in enumerate(cases):
        if case.sizes.keys() != names:
            expected, actual = (", ".join(sorted(some)) or "nothing" for some in (names, case.sizes))
            yield f"cases[{i}].sizes must be those of {expected}, got {actual}"
        yield from _unlike(inputs, case, f"cases[{i}].unlike")


def _unlike(inputs: Sequence[Port], case: Case, place: str) -> Iterator[str]:
    """Yield sizes that no port has otherwise, and calls of unlike sizes that are not to be refused."""
    if case.unlike and not case.refused:
        yield f"{place} must be empty where a case is not refused"
    axes = {port.name: {axis.name for axis in port.dynamic.values()} for port in inputs}
    for name, sizes in case.unlike.items():
        if not sizes.keys() <= axes.get(name, set()):
            yield f"{place}.{name} must name axes of that input, got {', '.join(sizes)}"
