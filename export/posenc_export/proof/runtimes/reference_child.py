"""A file that another is held against, on ONNX Runtime in a child process: neither of the two is trusted."""

from __future__ import annotations

from pathlib import Path

from posenc.ports import Array, Feeds
from posenc_export.common.memory_limit import limit_memory
from posenc_export.proof.runtimes import Runner
from posenc_export.proof.runtimes.in_child import Call, ChildPort, Ports, in_child


def load_reference(path: Path, ports: Ports) -> Runner:
    """Return a runner of an ONNX file on the CPU; raise RunFailed where ONNX Runtime cannot load it."""
    return in_child("ONNX Runtime", __name__, path, ports)


def opened(path: Path, inputs: tuple[ChildPort, ...], outputs: tuple[ChildPort, ...]) -> Call:
    """Load a file, in a process of bounded memory."""
    import onnxruntime

    limit_memory()
    options = onnxruntime.SessionOptions()
    # a refusal is an exception: the log would repeat it
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [slot.name for slot in outputs]

    def call(feeds: Feeds) -> dict[str, Array]:
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))

    return call
