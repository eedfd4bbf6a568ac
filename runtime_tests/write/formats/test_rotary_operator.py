"""The rotary operators of ONNX and com.microsoft: as near to eager as they are stated to be."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from helpers.combinations import MAX_LEN, Parameters, run
from helpers.shared import one_of_each
from posenc.spec import Spec
from posenc_export.bundle.folder import MANIFEST, Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.running.run import validate_bundle
from posenc_export.write.formats import ROTARY_OPS

NTK = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 32}


WHOLE_CACHES: list[Any] = [
    ("rope", {}, Spec("baked", "exact", "explicit", MAX_LEN)),
    ("rope", {"tensor_layout": "bshd", "rotary_dim": 8}, Spec("baked", "exact", "offset", MAX_LEN, "fp16")),
    ("rope", {"layout": "interleaved"}, Spec("baked", "exact", "mask", MAX_LEN)),
    ("rope", {"tensor_layout": "bshd"}, Spec("baked", "exact", "implicit", MAX_LEN)),
]
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
    *WHOLE_CACHES,
]


@pytest.mark.parametrize("op", [pytest.param("onnx", marks=pytest.mark.exhaustive), "microsoft"])
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


def caches_of(path: Path) -> list[tuple[int, ...]]:
    """Return the shapes of stored tensors that rotary operators take."""
    graph = onnx.load(path).graph
    stored = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    return [stored[name] for n in graph.node if n.op_type == "RotaryEmbedding" for name in n.input if name in stored]


@pytest.mark.parametrize("op", one_of_each(["microsoft", "onnx"], lambda _: ""))
@pytest.mark.parametrize(("scheme", "params", "spec"), one_of_each(WHOLE_CACHES, lambda _: ""))
def test_a_baked_rotation_has_two_tables_and_ids(
    tmp_path: Path, scheme: str, params: Parameters, spec: Spec, op: Any
) -> None:
    options = {"rotary_op": op, "opset": ROTARY_OPS[op], "formats": ("onnx",)}
    result = run(scheme, spec, {"head_dim": 16, **params}, tmp_path, **options)
    assert result.passed, result.verdicts
    pairs = int(str(params.get("rotary_dim", 16))) // 2
    assert caches_of(result.folder / "model.onnx") == [(MAX_LEN, pairs)] * 4
    assert [v.detail for v in result.verdicts if v.check == "tables"] == [f"{2 * MAX_LEN} of {2 * MAX_LEN} stored rows"]


@pytest.mark.parametrize("op", one_of_each(["microsoft", "onnx"], lambda _: ""))
def test_a_number_of_a_table_that_was_changed_is_named(tmp_path: Path, op: Any) -> None:
    options = {"rotary_op": op, "opset": ROTARY_OPS[op], "formats": ("onnx",), "validate": False}
    result = run("rope", Spec("baked", "exact", "explicit", 5000), {"head_dim": 16}, tmp_path, **options)
    path = result.folder / "model.onnx"
    model = onnx.load(path)
    (sines,) = [tensor for tensor in model.graph.initializer if tensor.name.endswith("sin_cache")]
    array = numpy_helper.to_array(sines).copy()
    array[4321, 7] = np.nextafter(array[4321, 7], np.float32(2), dtype=np.float32)
    sines.raw_data = array.tobytes()
    onnx.save(model, path)
    # a manifest that says the digest of the changed file, as an attacker would write it
    listed = json.loads((result.folder / MANIFEST).read_text("utf-8"))
    listed["artifacts"][0] |= {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (result.folder / MANIFEST).write_text(json.dumps(listed), "utf-8")
    verdicts = validate_bundle(Bundle.open(result.folder), ValidateOptions())
    (wrong,) = [v.detail for v in verdicts if v.check == "tables" and v.status == "fail"]
    assert wrong == f"row 4321 of {sines.name} is not the encoding's"


@pytest.mark.exhaustive
@pytest.mark.parametrize("op", ["onnx", "microsoft"])
def test_more_tokens_than_rows_are_refused_though_positions_repeat(tmp_path: Path, op: Any) -> None:
    options = {"rotary_op": op, "opset": ROTARY_OPS[op], "formats": ("onnx",), "validate": False}
    result = run("rope", Spec("baked", "exact", "explicit", MAX_LEN), {"head_dim": 16}, tmp_path, **options)
    session = onnxruntime.InferenceSession(result.folder / "model.onnx", providers=["CPUExecutionProvider"])
    for tokens in (MAX_LEN, MAX_LEN + 1):
        heads = np.ones((1, 1, tokens, 16), np.float32)
        feeds = {"q": heads, "k": heads, "positions": np.zeros((1, tokens), np.int64)}
        if tokens == MAX_LEN:
            session.run(None, feeds)
        else:
            with pytest.raises(Exception, match="RotaryEmbedding"):
                session.run(None, feeds)


def get_sections(params: Parameters) -> Any:
    """Return the sections of parameters, whose values have many types."""
    return params["sections"]


SECTIONS: list[Parameters] = [
    {"sections": (4, 2, 2)},
    {"sections": (4, 2, 2), "section_layout": "interleaved", "tensor_layout": "bshd"},
    {"sections": (2, 2, 2), "rotary_dim": 12, "layout": "interleaved"},
]


@pytest.mark.parametrize("params", one_of_each(SECTIONS, lambda _: ""))
@pytest.mark.parametrize("dtype", one_of_each(["fp32", "fp16"], lambda _: ""))
def test_time_height_and_width_are_one_operator(tmp_path: Path, params: Parameters, dtype: Any) -> None:
    spec = Spec("baked", "exact", "explicit", MAX_LEN, dtype)
    result = run("mrope", spec, {"head_dim": 16, **params}, tmp_path, formats=("onnx",), rotary_op="microsoft-mrope")
    assert result.passed, result.verdicts
    assert result.manifest.loads_on == "ONNX Runtime >= 1.29"
    nodes = [n for n in onnx.load(result.folder / "model.onnx").graph.node if n.op_type == "MRotaryEmbedding"]
    assert [n.domain for n in nodes] == ["com.microsoft"] * 2
    attributes = {a.name: list(a.ints) or a.i for a in nodes[0].attribute}
    assert attributes["mrope_section"] == list(get_sections(params))
    assert attributes["mrope_layout"] == int("section_layout" in params)
    assert [v.detail for v in result.verdicts if v.check == "tables"] == [f"{2 * MAX_LEN} of {2 * MAX_LEN} stored rows"]


@pytest.mark.parametrize(
    ("scheme", "params", "mode"),
    [
        ("mrope", {"sections": (4, 2, 2)}, "dynamic"),
        ("mrope", {"sections": (2, 2, 2, 2)}, "baked"),
        ("rope", {}, "baked"),
    ],
)
def test_other_rotations_are_no_mrope_in_a_line(tmp_path: Path, scheme: str, params: Parameters, mode: Any) -> None:
    spec = Spec(mode, "exact", "explicit", MAX_LEN)
    with pytest.raises(BadInput, match="for time, height and width: give mrope with --baked and three sections"):
        run(scheme, spec, {"head_dim": 16, **params}, tmp_path, formats=("onnx",), rotary_op="microsoft-mrope")
