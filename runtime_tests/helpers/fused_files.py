"""Decoders written twice from one capture: with plain operators, and with those of com.microsoft."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from posenc.ports import Array, Port
from posenc.spec import Spec
from posenc_export.bundle.case import Case, Padding
from posenc_export.bundle.decoders import decoder_axes
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.request import request_for
from posenc_export.write.formats import FORMATS
from posenc_export.write.formats.capture import findings
from posenc_export.write.formats.onnx import capture_onnx, read_onnx
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.whole import whole_target
from posenc_models import ModelFolder

CALLS: tuple[tuple[int, int, int, Padding], ...] = (
    (1, 5, 0, "none"),
    (3, 6, 0, "left"),
    (2, 7, 0, "right"),
    (3, 1, 7, "left"),
    (2, 1, 9, "right"),
    (1, 4, 9, "none"),
    (1, 30, 40, "none"),
    (1, 1, 70, "none"),
)
"""Texts, tokens, cached tokens and padding of the calls that are compared."""


@dataclass(frozen=True)
class Pair:
    """Two files of a model.

    Args:
        ports: what goes in.
        plain: the file with plain operators.
        fused: the other.
        notes: what is said of it.
    """

    ports: tuple[Port, ...]
    plain: Path
    fused: Path
    notes: tuple[str, ...]

    def operators(self) -> Counter[str]:
        """Return how many nodes of each operator the fused file has."""
        return Counter(node.op_type for node in read_onnx(self.fused).graph.node)

    def feeds(self, call: tuple[int, int, int, Padding], seed: int = 0) -> dict[str, Array]:
        """Return the inputs of a call."""
        axes = decoder_axes(self.ports)
        assert axes is not None
        sizes = dict(zip(axes, call[:3], strict=True))
        return feeds_for(self.ports, Case(f"call {call}", sizes, padding=call[3]), seed)

    def differences(self) -> dict[str, float]:
        """Return how far the files are apart in each call, as a share of the largest number, but in rows of padding."""
        sessions = [session_of(path) for path in (self.plain, self.fused)]
        found: dict[str, float] = {}
        for seed, call in enumerate(CALLS):
            feeds = self.feeds(call, seed)
            plain, fused = (session.run(None, dict(feeds)) for session in sessions)
            tokens = feeds["attention_mask"].astype(bool)
            new = tokens[:, -call[1] :]
            shares = [share(plain[0][new], fused[0][new])]
            for left, right in zip(plain[1:], fused[1:], strict=True):
                shares.append(share(*(array.transpose(0, 2, 1, 3)[tokens] for array in (left, right))))
            assert all(np.isfinite(array).all() for array in fused)  # rows of padding, too
            found[str(call)] = max(shares)
        return found


def share(plain: Array, fused: Array) -> float:
    """Return the largest difference as a share of the largest number."""
    return float(np.abs(plain - fused).max(initial=0) / max(np.abs(plain).max(initial=0), 1e-30))


def session_of(path: Path) -> onnxruntime.InferenceSession:
    """Load a file on the CPU, without a word of what it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def write_pair(model: Path, folder: Path) -> Pair:
    """Capture a model's folder once, and write both files.

    Raises BadInput where no attention becomes an operator.
    """
    loaded = ModelFolder.load(model)
    target = whole_target(loaded, Spec(mode="dynamic", max_len=loaded.length), 0)
    request = request_for(target, ExportOptions(formats=("onnx",), attention_op="microsoft"))
    captured = capture_onnx(target.encoding, request)
    plain, fused = folder / "plain.onnx", folder / "fused.onnx"
    FORMATS["onnx"].write(captured, replace(request, attention_op="decomposed"), plain)
    FORMATS["onnx"].write(captured, request, fused)
    return Pair(target.encoding.inputs, plain, fused, findings(captured.program).notes)


def attributes_of(path: Path, operator: str) -> list[Mapping[str, object]]:
    """Return the attributes of each node of an operator."""
    nodes = [node for node in read_onnx(path).graph.node if node.op_type == operator]
    return [{each.name: onnx.helper.get_attribute_value(each) for each in node.attribute} for node in nodes]
