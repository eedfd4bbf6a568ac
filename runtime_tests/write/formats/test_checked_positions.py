"""`--check-positions`: NaN for a position out of range on devices that refuse none, such as CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import posenc
import posenc_export
from helpers.shared import need
from posenc.scheme import SCHEMES
from posenc.spec import Mode, Positions, UnsupportedSpec
from posenc_export.bundle.carries import are_looked_up, limits_of
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.report.result import ValidateResult
from posenc_export.write.formats.onnx.checked_positions import check_positions

MAX_LEN = 70
WAYS: tuple[Positions | None, ...] = (None, "offset", "explicit", "mask")


class Gather(OpRun):
    """ONNX Runtime's Gather on CUDA: zeros for an index that the table does not have, and no error."""

    op_domain = ""

    def _run(self, table: Any, index: Any, axis: int = 0) -> tuple[Any]:
        axis %= table.ndim
        rows = table.shape[axis]
        wrong = (index < -rows) | (index >= rows)
        taken = np.take(table, np.where(wrong, 0, index), axis=axis)
        mask = wrong.reshape((1,) * axis + wrong.shape + (1,) * (table.ndim - axis - 1))
        return (np.where(mask, np.zeros((), table.dtype), taken).astype(table.dtype),)


def answers(graph: Path) -> Callable[[GoldenCase], list[Any]]:
    """Return what a graph gives for a call on a device whose look-ups give zeros."""
    session = ReferenceEvaluator(onnx.load(graph), new_ops=[Gather])

    def answer(golden: GoldenCase) -> list[Any]:
        try:
            return list(session.run(None, dict(golden.feeds)))
        except (ValueError, TypeError) as error:
            # shapes that do not fit are refused on every device
            if "shape" in str(error) or "broadcast" in str(error.__cause__):
                return []
            raise

    return answer


def bundle_of(folder: Path, scheme: str, mode: Mode, positions: Positions | None, **more: Any) -> Bundle:
    """Export a scheme's smallest sample with the check, unless told otherwise, and prove it on the CPU."""
    settings = {"check_positions": True, "formats": ("onnx",), "runtimes": ("ort-cpu",), "max_len": MAX_LEN, **more}
    parameters = dict(SCHEMES[scheme].samples[0])
    result = posenc_export.export(
        scheme, to=folder / "bundle", mode=mode, positions=positions, parameters=parameters, **settings
    )
    assert result.passed, result
    return Bundle.open(result.folder, trusted=True)


def out_of_range(bundle: Bundle) -> list[GoldenCase]:
    """Return the calls whose numbers must be refused."""
    return [golden for golden in bundle.golden() if golden.case.refused and not golden.case.unlike]


def looked_up() -> Iterator[Any]:
    """Yield each scheme, mode and way to give positions that looks something up by numbers of a call."""
    for scheme in SCHEMES.values():
        name = scheme.name
        for mode in ("baked", "dynamic"):
            for way in WAYS:
                if mode in scheme.unsupported.modes:
                    continue
                spec = posenc.Spec(mode, positions=way, max_len=MAX_LEN)
                try:
                    encoding = posenc.build(name, spec, **scheme.samples[0])
                except UnsupportedSpec:
                    continue
                # positions from a mask are counted: those of dynamic rows end beyond any mask that is tried
                counted = mode == "dynamic" and way == "mask"
                ends = [limits.end or limits.bounds for limits in map(limits_of, encoding.inputs)]
                if are_looked_up(encoding.inputs) and not counted and (way == "mask" or any(ends)):
                    quick = (name, mode, way) in QUICK
                    if name == "deberta_buckets":
                        continue  # below
                    yield pytest.param(name, mode, way, marks=() if quick else pytest.mark.exhaustive)


QUICK = {
    ("sinusoidal", "dynamic", "explicit"),
    ("rope", "dynamic", "mask"),
    ("alibi", "baked", "offset"),
    ("hash_grid", "dynamic", None),
}


@pytest.mark.parametrize(("scheme", "mode", "way"), [*looked_up()])
def test_a_position_out_of_range_gives_nan_where_nothing_is_refused(
    tmp_path: Path, scheme: str, mode: Mode, way: Positions | None
) -> None:
    """Every call that must be refused gives NaN in each output; the CPU refuses it, and others keep their bits."""
    bundle = bundle_of(tmp_path, scheme, mode, way)
    on_device = answers(bundle.folder / "model.onnx")
    answered = {golden.case.name: on_device(golden) for golden in out_of_range(bundle)}
    assert any(answered.values())
    for name, outputs in answered.items():
        for output in outputs:
            assert np.isnan(np.asarray(output, np.float64)).any(), name


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_rows_of_wrong_positions_alone_are_nan(tmp_path: Path, mode: Mode) -> None:
    """A wrong position takes no other token with it, and the CPU refuses the call."""
    bundle = bundle_of(tmp_path, "sinusoidal", mode, "explicit")
    end = MAX_LEN if mode == "baked" else 2**24
    feeds = {"x": np.ones((1, 4, 16), np.float32), "positions": np.array([[3, end, -1, 5]])}
    graph = bundle.folder / "model.onnx"
    y = np.asarray(next(iter(ReferenceEvaluator(onnx.load(graph), new_ops=[Gather]).run(None, feeds))))
    assert np.isnan(y).all(-1).tolist() == [[False, True, True, False]]
    session = onnxruntime.InferenceSession(graph)
    with pytest.raises(Exception, match="out of data bounds"):
        session.run(None, feeds)
    right = {**feeds, "positions": np.array([[3, 4, 0, 5]])}
    on_cpu = np.asarray(session.run(None, right)[0])
    assert np.array_equal(on_cpu[0, [0, 3]], y[0, [0, 3]])


LENIENT = ["openvino", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("mnn", "browser-webgpu"))]


@pytest.mark.parametrize("runtime", LENIENT)
@pytest.mark.parametrize(
    ("scheme", "mode", "way"), [("sinusoidal", "dynamic", "explicit"), ("alibi", "baked", "offset")]
)
def test_runtimes_that_refuse_nothing_are_held_to_nan(
    tmp_path: Path, runtime: str, scheme: str, mode: Mode, way: Positions
) -> None:
    """What a runtime answers to a call that must be refused is NaN, and the report says so; without it, it is a row."""
    need(runtime)
    bundle = bundle_of(tmp_path, scheme, mode, way, runtimes=(runtime,))
    (refusal,) = refusals(posenc_export.validate(bundle.folder, runtimes=(runtime,)))
    if "32 bits" in refusal.detail:
        assert refusal.status == "skip"  # OpenVINO reads a start of -2^63 as 0 before any node runs
    else:
        assert refusal.status == "pass"
        assert "NaN" in refusal.detail or "out of data bounds" in refusal.detail
    assert "gives NaN on CUDA" in (bundle.folder / "report.md").read_text(encoding="utf-8")


def refusals(result: ValidateResult) -> list[Verdict]:
    """Return the verdicts on calls that must be refused."""
    return [verdict for verdict in result.verdicts if verdict.check == "refusal"]


def test_whole_numbers_have_no_nan(tmp_path: Path) -> None:
    """Outputs of whole numbers are refused, in one line."""
    with pytest.raises(BadInput, match="the output is whole numbers"):
        bundle_of(tmp_path, "deberta_buckets", "baked", "offset")


@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
def test_the_check_runs_on_cuda(tmp_path: Path, index_dtype: str) -> None:
    """Nothing of it is left to the CPU of a CUDA session, and its integers are those of the graph."""
    need("cuda-placement")
    runtimes = ("ort-cpu", "cuda-placement")
    bundle = bundle_of(tmp_path, "rope", "baked", "offset", runtimes=runtimes, index_dtype=index_dtype)
    graph = onnx.load(bundle.folder / "model.onnx").graph
    checks = [node for node in graph.node if "_refused_" in node.name]
    assert checks
    stored = {tensor.name: tensor for tensor in graph.initializer}
    kinds = {stored[node.input[0]].data_type for node in checks}
    assert kinds == {onnx.TensorProto.INT32 if index_dtype == "int32" else onnx.TensorProto.INT64}


def test_an_axis_that_is_counted_from_the_end_is_checked() -> None:
    """A user's module may look up columns."""
    text = """<ir_version: 8, opset_import: ["" : 18]>
        g (int64[2] i, float[3, 2] x) => (float[3, 2] y) { t = Gather <axis = -1> (table, i) y = Add (x, t) }"""
    made = onnx.parser.parse_model(text)
    table = np.arange(15, dtype=np.float32).reshape(3, 5)
    made.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    model = onnx_ir.serde.deserialize_model(made)
    check_positions(model)
    session = ReferenceEvaluator(onnx_ir.serde.serialize_model(model), new_ops=[Gather])
    y = np.asarray(next(iter(session.run(None, {"i": np.array([4, 5]), "x": np.zeros((3, 2), np.float32)}))))
    assert np.isnan(y).tolist() == [[False, True]] * 3
    assert np.array_equal(y[:, 0], table[:, 4])


def test_without_the_check_zeros_are_taken_for_rows(tmp_path: Path) -> None:
    """What the check is for: the same calls, without it, give numbers."""
    bundle = bundle_of(tmp_path, "sinusoidal", "baked", "explicit", check_positions=False)
    on_device = answers(bundle.folder / "model.onnx")
    assert not any(np.isnan(output).any() for golden in out_of_range(bundle) for output in on_device(golden))
