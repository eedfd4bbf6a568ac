"""Whether the parts of a manifest fit each other: contradictions between fields, which the schema cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from posenc.ports import Port, axes_of, is_number
from posenc_export.bundle.carries import kind_of, named_axes
from posenc_export.bundle.case import Case


def misfits(inputs: Sequence[Port], outputs: Sequence[Port], cases: Sequence[Case]) -> list[str]:
    """Return a line for each contradiction, with its place; nothing if all parts fit."""
    lines = [
        *_twice("cases", [case.name for case in cases]),
        *_ports(inputs, outputs),
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
    """Yield axes without size and name, and how what ports carry contradicts them, or names an axis of no input."""
    dynamic = {axis.name for axis in axes_of(inputs)}
    for place, ports in (("inputs", inputs), ("outputs", outputs)):
        for i, port in enumerate(ports):
            for j, axis in enumerate(port.axes):
                if axis.is_dynamic and not axis.name:
                    yield f"{place}[{i}].axes[{j}] must have a name or a size, got neither"
            for misfit in kind_of(port.carries).misfits(port.carries, port):
                yield f"{place}[{i}].carries{misfit}"
            for field, name in named_axes(port.carries):
                if name not in dynamic:
                    yield f"{place}[{i}].carries.{field} must name a dynamic axis of an input, got {name!r}"


def _formulas(inputs: Sequence[Port]) -> Iterator[str]:
    """Yield axes of inputs that are products: their sizes do not determine the factors."""
    for i, port in enumerate(inputs):
        for j, axis in enumerate(port.axes):
            if not all(term in axis.names or is_number(term) for term in axis.terms if axis.is_dynamic):
                expected = "a name, or a sum of names and numbers, in an input"
                yield f"inputs[{i}].axes[{j}].name must be {expected}, got {axis.name!r}"


def _sizes(inputs: Sequence[Port], cases: Sequence[Case]) -> Iterator[str]:
    """Yield cases whose sizes are not those of exactly the dynamic axes of the inputs."""
    names = {axis.name for axis in axes_of(inputs)}
    for i, case in enumerate(cases):
        if case.sizes.keys() != names:
            expected, actual = (", ".join(sorted(some)) or "nothing" for some in (names, case.sizes))
            yield f"cases[{i}].sizes must be those of {expected}, got {actual}"
        yield from _unlike(inputs, case, f"cases[{i}].unlike")


def _unlike(inputs: Sequence[Port], case: Case, place: str) -> Iterator[str]:
    """Yield deviating sizes of axes that the port does not have, and calls with such sizes that are not refused."""
    if case.unlike and not case.refused:
        yield f"{place} must be empty where a case is not refused"
    axes = {port.name: {axis.name for axis in port.dynamic.values()} for port in inputs}
    for name, sizes in case.unlike.items():
        if not sizes.keys() <= axes.get(name, set()):
            yield f"{place}.{name} must name axes of that input, got {', '.join(sizes)}"
