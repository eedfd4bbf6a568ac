"""The numpy evaluator of the onnx package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.limit import stop_python
from posenc_export.proof.runtimes import Missing, Runner, runtime
from posenc_export.write.formats.onnx.operators import ONNX, operators_of

if TYPE_CHECKING:
    from onnx import ModelProto


@runtime(
    "onnx-reference",
    format_="onnx",
    device="cpu",
    lenient="NumPy cuts a slice short without an error",
)
def load_onnx_reference(path: Path, manifest: Manifest) -> Runner:
    """The onnx package's own evaluator in NumPy: slow, and shares no code with ONNX Runtime."""
    from posenc_export.write.formats.onnx import read_onnx

    check_operators(read_onnx(path))
    return Runner(evaluator(str(path)), manifest.inputs, manifest.outputs, ("numpy",), stop=stop_python)


def check_operators(model: ModelProto) -> None:
    """Raise Missing where a graph has operators that the onnx package lacks."""
    # optimizers import domains of which no node is
    others = {operator.domain for operator in operators_of(model)} - {ONNX}
    if others:
        raise Missing(f"the onnx package has no operators of {', '.join(sorted(others))}")


def evaluator(model: str | ModelProto) -> Callable[[Feeds], dict[str, Array]]:
    """Return a function that evaluates a file or a model in NumPy, in the dtypes of the graph."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):
        """GatherElements of any number of rows; the package's own fails beyond 64."""

        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (np.take_along_axis(data, indices, axis),)

    session = ReferenceEvaluator(model, new_ops=[GatherElements])

    def call(feeds: Feeds) -> dict[str, Array]:
        return dict(zip(session.output_names, session.run(None, dict(feeds)), strict=True))

    return call
