"""Each check finds what it is for, in graphs that were changed by hand, and on sessions that ran elsewhere."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from posenc_export.bundle.folder import Bundle
from posenc_export.proof.checks import CHECKS, Context
from posenc_export.proof.checks.placement import placed
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.runtimes import RUNTIMES, RunFailed, Runner, check_feeds


@pytest.fixture
def context(small_bundle: Path, tmp_path: Path) -> Context:
    bundle = Bundle.open(Path(shutil.copytree(small_bundle, tmp_path / "copy")))
    return Context(bundle.manifest, bundle.manifest.artifacts[0], bundle.folder / "model.onnx")


def problems(name: str, context: Context) -> str:
    return "; ".join(CHECKS[name].find(context).problems)


def change(context: Context, edit: Callable[[onnx.ModelProto], object]) -> Context:
    model = onnx.load(context.path)
    edit(model)
    onnx.save(model, context.path)
    return context


def freeze_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 11


def freeze_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 11


def bake_a_cache(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((11, 8), np.float32), "cache"))


def add_an_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(onnx.helper.make_tensor_value_info("mask", onnx.TensorProto.FLOAT, ["batch"]))


def wrong_dim(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 9


def newer_ir(model: onnx.ModelProto) -> None:
    model.ir_version = 11


def other_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 19


def rename_output(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = model.graph.output[0].name = "z"


ON_ONNX = [
    check.name for check in CHECKS.values() if check.stage == "artifact" and "onnx" in (check.subjects or ["onnx"])
]


@pytest.mark.parametrize("name", ON_ONNX)
def test_a_good_graph_has_nothing_wrong(context: Context, name: str) -> None:
    assert problems(name, context) == ""


@pytest.mark.parametrize(
    ("name", "edit", "text"),
    [
        ("static-axis", freeze_input, "axis 'seq' of x is 11 in the graph"),
        ("static-axis", freeze_output, "axis 'seq' of y is 11 in the graph"),
        ("structure", add_an_input, "inputs are"),
        ("structure", wrong_dim, "onnx.checker"),
        ("structure", newer_ir, "IR version is 11"),
        ("structure", other_opset, "opset is 19, expected 18"),
        ("structure", rename_output, "outputs are [('z', 'float32')]"),
    ],
)
def test_each_change_is_found(context: Context, name: str, edit: Callable[..., object], text: str) -> None:
    assert text in problems(name, change(context, edit))


def test_a_constant_that_another_trace_makes_otherwise_is_found(context: Context) -> None:
    baked = change(context, bake_a_cache)
    assert problems("static-axis", baked) == "", "a size alone may be that of anything: ALiBi has as many heads"
    traced = replace(baked, capture=Capture(False, False, (), static=("cache",)))
    assert problems("static-axis", traced) == "constant cache is another where other sizes are traced"


@pytest.mark.parametrize(
    ("capture", "purity", "determinism"),
    [
        (Capture(True, True, ()), "", ""),
        (Capture(True, False, ()), "another graph", ""),
        (Capture(False, False, ()), "another graph", "two captures in a row differ"),
        (Capture(True, True, ("cache",)), "a call changed cache", ""),
    ],
)
def test_what_an_export_saw_is_judged(context: Context, capture: Capture, purity: str, determinism: str) -> None:
    context = replace(context, capture=capture)
    for name, text in (("purity", purity), ("determinism", determinism)):
        line = problems(name, context)
        assert (text in line) if text else (line == "")


def on_cuda(context: Context, *nodes: tuple[str, str, str], providers: tuple[str, ...]) -> Context:
    runner = Runner(dict, context.manifest.inputs, context.manifest.outputs, providers, nodes)
    return replace(context, runtime=RUNTIMES["ort-cuda"], runner=runner)


def test_rows_on_the_cpu_of_a_cuda_session_are_found_and_sizes_are_not(context: Context) -> None:
    graph = onnx.load(context.path).graph
    mul = next(n for n in graph.node if n.op_type == "Mul")
    shape = next(n for n in graph.node if n.op_type == "Shape")
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    good = on_cuda(context, (cuda, mul.name, "Mul"), (cpu, shape.name, "Shape"), providers=(cuda, cpu))
    assert problems("placement", good) == ""
    assert problems("provider", good) == ""
    assert good.runner is not None
    assert str(placed(good.runner, good.path)) == "1 node on CUDA, 1 size computation on the CPU"
    stray = on_cuda(context, (cpu, mul.name, "Mul"), (cpu, "fused_by_the_optimizer", "Gelu"), providers=(cuda, cpu))
    rows, unknown = CHECKS["placement"].find(stray).problems
    assert rows == f"on the CPU: Mul {mul.name}"
    assert unknown == "on the CPU, size not known: Gelu fused_by_the_optimizer"
    assert "asked for CUDAExecutionProvider, got CPUExecutionProvider" in problems(
        "provider", on_cuda(context, providers=(cpu,))
    )
    assert "does not say where nodes run" in problems("placement", on_cuda(context, providers=(cuda, cpu)))


def test_a_module_of_a_user_may_leave_rows_to_the_cpu_unless_placement_is_asked_for(context: Context) -> None:
    mul = next(n for n in onnx.load(context.path).graph.node if n.op_type == "Mul")
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    stray = on_cuda(context, (cpu, mul.name, "Mul"), providers=(cuda, cpu))
    stray = replace(stray, runtime=RUNTIMES["cuda-placement"])
    words = f"on the CPU: Mul {mul.name}"
    assert problems("placement", stray) == words, "of a scheme it is always a failure"
    for manifest in (replace(stray.manifest, family="module"), replace(stray.manifest, foreign="made by hand")):
        others = replace(stray, manifest=manifest)
        found = CHECKS["placement"].find(others)
        assert (found.problems, found.note) == ((), words)
        assert problems("placement", replace(others, named=True)) == words
        assert problems("placement", replace(others, runtime=RUNTIMES["ort-cuda"])) == words


def test_ort_says_where_its_nodes_ran(context: Context) -> None:
    runner = RUNTIMES["ort-cpu"].open(context.path, context.manifest)
    assert runner.providers[0] == "CPUExecutionProvider"
    assert {where for where, _, _ in runner.nodes} == {"CPUExecutionProvider"}
    assert "Mul" in {op for _, _, op in runner.nodes}


X, START = np.zeros((2, 5, 8), np.float32), np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        ({"x": X}, "input 'start' is missing: expected start: int64[1]"),
        ({"x": X, "start": START, "z": X}, "there is no input 'z': expected x, start"),
        ({"x": X.astype(np.float64), "start": START}, "input 'x' is float64: expected x: float32[batch, seq, 8]"),
        ({"x": X[0], "start": START}, "input 'x' has shape (5, 8): expected"),
        ({"x": X[..., :4], "start": START}, "input 'x' has shape (2, 5, 4): expected"),
        ({"x": X, "start": np.zeros(2, np.int64)}, "input 'start' has shape (2,): expected"),
    ],
)
@pytest.mark.parametrize("name", ["ort-cpu", "torchscript-cpu", "onnx-reference"])
def test_feeds_are_checked_by_name_dtype_and_shape(
    context: Context, name: str, feeds: dict[str, np.ndarray], text: str
) -> None:
    runtime = RUNTIMES[name]
    path = context.path.with_name("model.pt" if runtime.format == "torchscript" else "model.onnx")
    runner = runtime.open(path, context.manifest, trusted=True)
    with pytest.raises(RunFailed) as failure:
        runner.run(feeds)
    assert text in str(failure.value)


def test_an_axis_has_one_size_in_all_inputs(context: Context) -> None:
    ports = (context.manifest.inputs[0], replace(context.manifest.inputs[0], name="w"))
    assert "axis 'seq' is 5 in 'x' and 4 in 'w'" in check_feeds({"x": X, "w": X[:, :4]}, ports)
