"""Which stored rows of a graph its golden cases read, and which of these reach the output rows that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array, Bools, Port
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.sampling import long_axis
from posenc_export.proof.runtimes import RunFailed, Runner, TimedOut
from posenc_export.proof.runtimes.onnx_runtime import part_runner
from posenc_export.write.formats.onnx.cutting import pruned
from posenc_export.write.formats.onnx.tensors import LookUp, look_ups

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class GoldenCalls:
    """The golden cases of a file.

    Args:
        inputs: Its input ports.
        outputs: Its output ports.
        folder: Where weights beside it lie.
        cases: The golden cases.
        timeout: Seconds that a call may take; 0 for any.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    folder: Path
    cases: Iterable[GoldenCase]
    timeout: float = 0.0


@dataclass(frozen=True)
class RowsRead:
    """Rows of a stored tensor.

    Args:
        read: The rows that a case reads.
        compared: The rows that reach a compared output row: large outputs are compared at some of their rows.
    """

    read: Bools
    compared: Bools


def axes_read(model: ModelProto, tensors: Mapping[str, Array]) -> dict[str, int]:
    """Return the axis along which each stored tensor is looked up; if it is read whole, its first longer than 1."""
    by_name = {name: look_ups(model.graph, name, array.shape) for name, array in tensors.items()}
    return {name: _axis(tensors[name], lookups) for name, lookups in by_name.items()}


def rows_read(model: ModelProto, tensors: Mapping[str, Array], calls: GoldenCalls) -> dict[str, RowsRead]:
    """Return which rows of stored tensors the cases read; every row, where one is read whole."""
    by_name = {name: look_ups(model.graph, name, array.shape) for name, array in tensors.items()}
    counts = {name: tensors[name].shape[_axis(tensors[name], lookups)] for name, lookups in by_name.items()}
    read_whole = {name: np.full(counts[name], lookups is None) for name, lookups in by_name.items()}
    rows = {name: RowsRead(whole, whole.copy()) for name, whole in read_whole.items()}
    partly = [lookup for lookups in by_name.values() for lookup in lookups or ()]
    for golden, values in _values(model, partly, calls) if partly else ():
        for name, lookups in by_name.items():
            for lookup in lookups or ():
                _mark(rows[name], lookup.rows(values), calls.outputs, golden)
    return rows


def _axis(array: Array, lookups: Sequence[LookUp] | None) -> int:
    several = (i for i, size in enumerate(array.shape) if size > 1)
    return lookups[0].axis if lookups else next(several)


def _mark(rows: RowsRead, index: Array, outputs: tuple[Port, ...], golden: GoldenCase) -> None:
    """Mark, in place, the rows that a look-up of a case reads."""
    count = len(rows.read)
    for noted, part in ((rows.read, index), (rows.compared, _compared(index, outputs, golden))):
        # an index out of range reads no row
        noted[part[(part >= 0) & (part < count)]] = True


def _compared(index: Array, outputs: tuple[Port, ...], golden: GoldenCase) -> Array:
    """Return the indices that are looked up for the output rows that are kept.

    They lie along the axis of the index that is as long as the output's; without such an axis, no index counts.
    """
    for port in outputs:
        at, sizes = golden.rows.get(port.name), golden.case.sizes
        if at is not None:
            known = all(axis.size is not None or set(axis.names) <= sizes.keys() for axis in port.axes)
            shape = port.shape(sizes) if known else ()
            length = shape[long_axis(port, shape)] if shape else -1
            axis = next((i for i, size in enumerate(index.shape) if size == length), None)
            return index[:0] if axis is None else np.take(index, at, axis=axis)
    return index


def _values(
    model: ModelProto, partly: Sequence[LookUp], calls: GoldenCalls
) -> Iterator[tuple[GoldenCase, Mapping[str, Array]]]:
    """Yield each answered case with the values that say which rows its look-ups read."""
    from onnx import numpy_helper

    needs = dict.fromkeys(name for lookup in partly for name in lookup.needs)
    initializers = (tensor for tensor in model.graph.initializer if tensor.name in needs)
    constants = {tensor.name: numpy_helper.to_array(tensor, str(calls.folder)) for tensor in initializers}
    fed = {port.name for port in calls.inputs}
    computed = [name for name in needs if name not in constants and name not in fed]
    runner = _runner(model, computed, calls) if computed else None
    for golden in calls.cases:
        try:
            if not golden.case.refused:
                yield golden, {**constants, **golden.feeds, **(runner.run(golden.feeds) if runner else {})}
        except (RunFailed, TimedOut):  # the check that runs the whole file says so
            continue


def _runner(model: ModelProto, computed: Sequence[str], calls: GoldenCalls) -> Runner:
    return replace(part_runner(pruned(model, computed), calls.folder, calls.inputs), limit=calls.timeout)
