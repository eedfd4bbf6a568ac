"""Which rows of what a graph stores its golden cases read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Array, Port
from posenc_export.bundle.case import GoldenCase
from posenc_export.formats.onnx.cutting import pruned
from posenc_export.formats.onnx.tensors import LookUp, look_ups
from posenc_export.runtimes import RunFailed, Runner
from posenc_export.runtimes.onnx_runtime import part_runner

if TYPE_CHECKING:
    from onnx import ModelProto

Bools = NDArray[np.bool_]


def axes_read(model: ModelProto, tensors: Mapping[str, Array]) -> dict[str, int]:
    """Return the axis along which each stored tensor is looked up; of one that is read whole, the first with rows."""
    found = {name: look_ups(model.graph, name, array.shape) for name, array in tensors.items()}
    return {name: _axis(tensors[name], lookups) for name, lookups in found.items()}


def rows_read(
    model: ModelProto, tensors: Mapping[str, Array], inputs: tuple[Port, ...], folder: Path, cases: Iterable[GoldenCase]
) -> dict[str, Bools]:
    """Return which rows of stored tensors the cases read that are compared; every row, where one is read whole."""
    found = {name: look_ups(model.graph, name, array.shape) for name, array in tensors.items()}
    read = {
        name: np.full(tensors[name].shape[_axis(tensors[name], lookups)], lookups is None)
        for name, lookups in found.items()
    }
    partly = [lookup for lookups in found.values() for lookup in lookups or ()]
    for values in _values(model, partly, inputs, folder, cases):
        for name, lookups in found.items():
            for lookup in lookups or ():
                rows = lookup.rows(values)
                read[name][rows[(rows >= 0) & (rows < len(read[name]))]] = True
    return read


def _axis(array: Array, lookups: Sequence[LookUp] | None) -> int:
    several = (i for i, size in enumerate(array.shape) if size > 1)
    return lookups[0].axis if lookups else next(several)


def _values(
    model: ModelProto, partly: Sequence[LookUp], inputs: tuple[Port, ...], folder: Path, cases: Iterable[GoldenCase]
) -> Iterator[dict[str, Array]]:
    """Yield, case by case, the values that say which rows are looked up; nothing of a case that is refused."""
    from onnx import numpy_helper

    needs = dict.fromkeys(name for lookup in partly for name in lookup.needs)
    constants = {t.name: numpy_helper.to_array(t, str(folder)) for t in model.graph.initializer if t.name in needs}
    given = {port.name for port in inputs}
    computed = [name for name in needs if name not in constants and name not in given]
    if not partly:
        return
    runner = part_runner(pruned(model, computed), folder, inputs) if computed else None
    for golden in cases:
        if not golden.case.refused:
            yield from _of_case(runner, constants, golden)


def _of_case(runner: Runner | None, constants: Mapping[str, Array], golden: GoldenCase) -> Iterator[dict[str, Array]]:
    try:
        yield {**constants, **golden.feeds, **(runner.run(golden.feeds) if runner else {})}
    except RunFailed:  # that it gives no answer is said where it is run
        return
