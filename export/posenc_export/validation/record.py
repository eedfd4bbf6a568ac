"""Golden data: what the eager module and the float64 reference give in every case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Port, axes_of, is_strict
from posenc_export.arrays import FLOATS, call_on_arrays
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.sampling import long_axis, sample, sampled_rows
from posenc_export.errors import BadInput, ToolFailed, check_machine, first_line
from posenc_export.validation.compare import measure
from posenc_export.validation.feeds import feeds_for
from posenc_export.validation.sizes import advice


@dataclass(frozen=True)
class GoldenCases:
    """The cases that were recorded, and those that a user's module itself refuses, each in words."""

    cases: tuple[GoldenCase, ...]
    dropped: tuple[str, ...]


def record(encoding: Encoding, cases: Sequence[Case], seed: int) -> GoldenCases:
    """Run the uncalled module and the reference in every case; large outputs are kept at some rows only.

    Where several lengths meet in a user's module, meetings that it refuses are dropped. Raises BadInput where it
    refuses anything else, or all of them.
    """
    golden_cases: list[GoldenCase] = []
    dropped: list[str] = []
    refused_alike: list[RefusedByModule] = []
    several = encoding.family == "module" and sum(axis.is_length for axis in axes_of(encoding.inputs)) > 1
    for case in cases:
        try:
            golden_cases.append(_record(encoding.uncalled(), case, feeds_for(encoding.inputs, case, seed)))
        except RefusedByModule as error:
            if not several:
                raise
            dropped.append(f"{case.name}: {error.message}")
            if _alike(encoding, case):
                refused_alike.append(error)
    if dropped and not golden_cases:
        raise BadInput(f"the module itself refuses every way in which its lengths meet: {dropped[0]}")
    if refused_alike and any(_alike(encoding, golden.case) for golden in golden_cases):
        raise refused_alike[0]  # it takes lengths that are alike, but not all of them
    return GoldenCases(tuple(golden_cases), tuple(dropped))


def _alike(encoding: Encoding, case: Case) -> bool:
    return len({case.sizes[axis.name] for axis in axes_of(encoding.inputs) if axis.is_length}) == 1


class RefusedByModule(BadInput):
    """The module itself fails in a case."""


def _record(encoding: Encoding, case: Case, feeds: Mapping[str, Array]) -> GoldenCase:
    if case.refused:  # absent floats are read back as zeros: no refusal depends on them, but that of numbers themselves
        names = [p.name for p in encoding.inputs if p.dtype not in FLOATS or is_strict(p)]
        return GoldenCase(case, {name: feeds[name] for name in names})
    eager, rows = _eager(encoding, case, feeds)
    reference = _reference(encoding, feeds, eager, rows)
    rows |= {p.name: at for p in encoding.inputs if (at := _sparse(p, feeds[p.name])) is not None}
    return GoldenCase(case, {p.name: at_rows(p, feeds[p.name], rows) for p in encoding.inputs}, eager, reference, rows)


def _eager(encoding: Encoding, case: Case, feeds: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the outputs of the eager module, and the rows at which large ones are kept."""
    rows: dict[str, Array] = {}
    eager: dict[str, Array] = {}
    for port, output in zip(encoding.outputs, _called(encoding, case, feeds), strict=True):
        if output.dtype.name in FLOATS and np.isnan(output).any():
            raise BadInput(
                f"the module itself gives NaN in {port.name} at {case.name}: nothing can be compared with it"
            )
        at = sampled_rows(port, output.shape)
        rows |= {} if at is None else {port.name: at}
        eager[port.name] = at_rows(port, output, rows)
    return eager, rows


def _called(encoding: Encoding, case: Case, feeds: Mapping[str, Array]) -> list[Array]:
    try:
        return call_on_arrays(encoding.module, [feeds[p.name] for p in encoding.inputs])
    except Exception as error:
        check_machine(error)
        reason = f"fails at {case.name}: {type(error).__name__}: {first_line(error)}"
        if encoding.family != "module":  # whoever asked for a scheme can mend nothing in it
            raise ToolFailed(f"the encoding {reason}") from error
        raise RefusedByModule(f"the module itself {reason}{advice(encoding.inputs, case.sizes)}") from error


def _reference(
    encoding: Encoding, feeds: Mapping[str, Array], eager: Mapping[str, Array], rows: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the reference of each output at the rows that are kept; none of a module that cannot run in float64.

    Integers of a user's module have none: in float64 it may round otherwise, as an argmax of what is nearly alike.
    """
    try:
        whole = encoding.reference(feeds, rows.get(encoding.outputs[0].name))
    except TypeError:
        return {}
    reference = {}
    for port in encoding.outputs:
        value = np.asarray(whole[port.name], np.float64)
        if value.shape != eager[port.name].shape:  # a reference may give every row
            value = at_rows(port, value, rows)
        if eager[port.name].dtype.name in FLOATS or encoding.family != "module":
            reference[port.name] = value
    return reference


def at_rows(port: Port, array: Array, rows: Mapping[str, Array]) -> Array:
    """Return the rows of an array of a port that are kept, if not all are."""
    return sample(array, rows.get(port.name), long_axis(port, array.shape))


def _sparse(port: Port, feed: Array) -> Array | None:
    """Return the rows of an input that are not zeros by construction."""
    return sampled_rows(port, feed.shape) if feed.dtype.name in FLOATS else None


def worst_error(cases: Sequence[GoldenCase]) -> float | None:
    """Return how far the eager outputs, which a graph must equal, are from the reference; None without one."""
    errors = [measure(golden.eager[k], value).max_abs for golden in cases for k, value in golden.reference.items()]
    return max(errors, default=None)
