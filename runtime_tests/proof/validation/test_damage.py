"""Damaged graphs are caught, also where only positions far beyond the usual lengths show the damage."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import posenc
from helpers.shared import one_of_each
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.checks import Context
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.running.run import on_runtime
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.targets.scheme import scheme_target

NTK = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096}
LONG = {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 4096}
LONG |= {"short_factor": (1.0,) * 8, "long_factor": (1.0, 1.1, 1.3, 1.5, 2.0, 2.0, 3.0, 4.0)}


DAMAGE: list[Any] = [
    # scheme, parameters, method, the constant that is changed, and how: none of this shows at the usual lengths
    ("rope", {}, "exact", "mid_sin", lambda a: np.add.at(a, (300,), 1.0)),
    ("rope", {}, "exact", "mid_cos", lambda a: np.add.at(a, (100,), 1e-5)),
    ("rope", {}, "exact", "high_cos", lambda a: np.add.at(a, (200,), 1.0)),
    ("rope", {}, "exact", "low_sin", lambda a: np.add.at(a, (63,), 1e-5)),
    ("rope", NTK, "exact", "exponent", lambda a: np.multiply(a, 1.001, out=a)),
    ("rope", NTK, "exact", "slope", lambda a: np.multiply(a, 1.001, out=a)),
    ("rope", LONG, "exact", None, lambda a: np.add(a, 1, out=a)),
    ("rope", LONG, "trig", None, lambda a: np.add(a, 100, out=a)),
    ("rope", LONG, "trig", "inv_freq", lambda a: np.add.at(a, np.arange(8, len(a)), 1e-4)),
    ("mrope", {"sections": (4, 2, 2)}, "exact", "mid_sin", lambda a: np.add.at(a, (300,), 1.0)),
    ("sinusoidal", {}, "exact", "high_sin", lambda a: np.add.at(a, (200,), 1.0)),
]


@pytest.mark.parametrize("case", one_of_each([(case,) for case in DAMAGE], lambda _: ""))
def test_damage_that_only_far_positions_show_is_caught(
    tmp_path: Path, case: tuple[str, dict[str, Any], Any, str | None, Any]
) -> None:
    scheme, params, method, name, damage = case
    params = {**params, "d_model" if scheme == "sinusoidal" else "head_dim": 16}
    spec = posenc.Spec("dynamic", method, "explicit", 64)
    write_bundle(scheme_target(scheme, spec, params, 0), ExportOptions(("onnx",), validate=False), tmp_path)
    path = tmp_path / "model.onnx"
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).copy()
        if name in tensor.name if name else values.dtype == np.int64 and values.shape == () and values == 4096:
            damage(values)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
            break
    else:
        raise AssertionError([(t.name, list(t.dims)) for t in model.graph.initializer])
    bundle = Bundle.open(tmp_path)
    context = Context(bundle.manifest, bundle.manifest.artifacts[0], path)
    ort = RUNTIMES["ort-cpu"]
    assert {v.status for v in on_runtime(bundle, context, ort, ValidateOptions()) if v.check == "agrees"} == {"pass"}
    onnx.save(model, path)
    assert {v.status for v in on_runtime(bundle, context, ort, ValidateOptions()) if v.check == "agrees"} == {"fail"}
