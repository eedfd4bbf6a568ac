"""The numpy evaluator of the onnx package."""

from __future__ import annotations

from pathlib import Path

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.runtimes import Missing, Runner, runtime
from posenc_export.runtimes.limit import stop_python


@runtime(
    "onnx-reference",
    format_="onnx",
    device="cpu",
    lenient="NumPy cuts a slice short without an error",
)
def load_onnx_reference(path: Path, manifest: Manifest) -> Runner:
    """The onnx package's own evaluator in NumPy: slow, and shares no code with ONNX Runtime."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    others = {o.domain for o in onnx.load(path, load_external_data=False).opset_import} - {"", "ai.onnx"}
    if others:
        raise Missing(f"the onnx package has no operators of {', '.join(sorted(others))}")
    session = ReferenceEvaluator(str(path))

    def call(feeds: Feeds) -> dict[str, Array]:
        return dict(zip(session.output_names, session.run(None, dict(feeds)), strict=True))

    return Runner(call, manifest.inputs, manifest.outputs, ("numpy",), stop=stop_python)
