"""The rotary operators of ONNX and com.microsoft: as near to eager as they are stated to be."""

from pathlib import Path
from typing import Any

import onnx
import pytest

from helpers.combinations import MAX_LEN, Parameters, run
from helpers.shared import one_of_each
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.formats import ROTARY_OPS
from posenc_export.validation.judging.verdict import ValidateOptions
from posenc_export.validation.running.run import validate_bundle

NTK = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 32}


ROTATIONS: list[Any] = [
    ("rope", {}, Spec("dynamic", "exact", "explicit", MAX_LEN)),
    ("rope", {}, Spec("dynamic", "exact", "offset", MAX_LEN, "fp16")),
    ("rope", {"rotary_dim": 8, "layout": "interleaved"}, Spec("baked", "exact", "implicit", MAX_LEN)),
    ("rope", {"tensor_layout": "bshd"}, Spec("baked", "exact", "explicit", MAX_LEN, "bf16")),
    ("rope", {"tensor_layout": "bshd"}, Spec("dynamic", "exact", "implicit", MAX_LEN)),
    ("mrope", {"sections": (4, 2, 2)}, Spec("dynamic", "exact", "explicit", MAX_LEN)),
    ("rope_2d", {}, Spec("dynamic", "exact", "implicit", MAX_LEN)),
    ("rope_2d", {"tensor_layout": "bshd"}, Spec("baked", "exact", "implicit", MAX_LEN)),
    ("xpos", {}, Spec("dynamic", "exact", "offset", MAX_LEN)),
    ("rope", {}, Spec("dynamic", "trig", "explicit", MAX_LEN)),
    ("rope", NTK, Spec("dynamic", "exact", "explicit", MAX_LEN, "fp16")),
]


@pytest.mark.parametrize("op", ["onnx", "microsoft"])
@pytest.mark.parametrize(
    ("scheme", "params", "spec"),
    one_of_each(ROTATIONS, lambda _: ""),
)
def test_a_rotary_operator_is_within_its_stated_tolerance(
    tmp_path: Path, scheme: str, params: Parameters, spec: Spec, op: Any
) -> None:
    options = {"rotary_op": op, "opset": ROTARY_OPS[op], "formats": ("onnx", "torchscript")}
    result = run(scheme, spec, {"head_dim": 16, **params}, tmp_path, validate=False, **options)
    verdicts = validate_bundle(Bundle.open(result.folder, trusted=True), ValidateOptions())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    graph = onnx.load(result.folder / "model.onnx").graph
    domains = [n.domain for n in graph.node if n.op_type == "RotaryEmbedding"]
    assert domains == [{"onnx": ""}.get(op, "com.microsoft")] * 2
    tolerances = {a.format: a.eager_tolerance for a in result.manifest.artifacts}
    assert tolerances["onnx"] is not None
    assert tolerances["onnx"].vector == 2 * 2.0**-23
    assert tolerances["torchscript"] is None
    refusals = [v.subject for v in verdicts if v.check == "refusal" and v.status == "pass"]
    assert ("ort-cpu" in refusals) == any(case.refused for case in result.manifest.cases)
