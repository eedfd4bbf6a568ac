"""Which rows of what a graph stores its golden cases read, and which of those are in what is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Array, Port
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.sampling import long_axis
from posenc_export.formats.onnx.cutting import pruned
from posenc_export.formats.onnx.tensors import LookUp, look_ups
from posenc_export.runtimes import RunFailed, Runner, TimedOut
from posenc_export.runtimes.onnx_runtime import part_runner

if TYPE_CHECKING:
    from onnx import ModelProto

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Calls:
    """The golden cases of a file, its ports, where weights beside it lie, and seconds that a call may take."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    folder: Path
    cases: Iterable[GoldenCase]
    timeout: float = 0.0


@dataclass(frozen=True)
class Read:
    """Rows of a stored tensor: those that a case reads, and those in an output that is compared.

    Large outputs are compared at some rows: what the others were made of counts as read alone.
    """

    read: Bools
    compared: Bools


def axes_read(model: ModelProto, tensors: Mapping[str, Array]) -> dict[str, int]:
    """Return the axis along which each stored tensor is looked up; of one that is read whole, the first with rows."""
    by_name = {name: look_ups(model.graph, name, array.shape) for name, array in tensors.items()}
    return {name: _axis(tensors[name], lookups) for name, lookups in by_name.items()}


def rows_read(model: ModelProto, tensors: Mapping[str, Array], calls: Calls) -> dict[str, Read]:
    """Return which rows of stored tensors the cases read; every row, where one is read whole."""
    by_name = {name: look_ups(model.graph, name, array.shape) for name, array in tensors.items()}
    counts = {name: tensors[name].shape[_axis(tensors[name], lookups)] for name, lookups in by_name.items()}
    every = {name: np.full(counts[name], lookups is None) for name, lookups in by_name.items()}
    rows = {name: Read(whole, whole.copy()) for name, whole in every.items()}
    partly = [lookup for lookups in by_name.values() for lookup in lookups or ()]
    for golden, values in _values(model, partly, calls) if partly else ():
        for name, lookups in by_name.items():
            for lookup in lookups or ():
                _mark(rows[name], lookup.rows(values), calls.outputs, golden)
    return rows


def _axis(array: Array, lookups: Sequence[LookUp] | None) -> int:
    several = (i for i, size in enumerate(array.shape) if size > 1)
    return lookups[0].axis if lookups else next(several)


def _mark(rows: Read, index: Array, outputs: tuple[Port, ...], golden: GoldenCase) -> None:
    """Note what one look-up of a case reads, in place."""
    count = len(rows.read)
    for noted, part in ((rows.read, index), (rows.compared, _compared(index, outputs, golden))):
        noted[part[(part >= 0) & (part < count)]] = True


def _compared(index: Array, outputs: tuple[Port, ...], golden: GoldenCase) -> Array:
    """Return what is looked up for the rows of outputs that are kept: along the axis that is as long as theirs.

    Of an output that is kept in part, whose length no index has, nothing is.
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
    model: ModelProto, partly: Sequence[LookUp], calls: Calls
) -> Iterator[tuple[GoldenCase, Mapping[str, Array]]]:
    """Yield each case with the values that say which rows are looked up; none that is refused, or gives no answer."""
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
        except (RunFailed, TimedOut):  # that is said where the whole file is run
            continue


def _runner(model: ModelProto, computed: Sequence[str], calls: Calls) -> Runner:
    return replace(part_runner(pruned(model, computed), calls.folder, calls.inputs), limit=calls.timeout)
