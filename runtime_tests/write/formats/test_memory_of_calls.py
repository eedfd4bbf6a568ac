"""What a graph does with the memory of its inputs: values that nothing reads, outputs that may lie over inputs."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from torch import Tensor, nn

import posenc
from helpers.embedded import write_bundles
from helpers.shared import Once
from posenc.ports import Array, Port
from posenc.scheme import SCHEMES
from posenc.spec import DType, Mode, Spec, UnsupportedSpec
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.common.arrays import numpy_dtype
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.exporter.embedding import uses_of
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.recording.record import record
from posenc_export.proof.recording.unread import unread as unread_by_module
from posenc_export.write.cpp.uses import Uses, in_place
from posenc_export.write.formats.onnx.memory import may_replace, unread
from posenc_export.write.targets.scheme import scheme_target

X = "(float[N, N] x, float[N, N] other) => (float[N, N] y)"
GRAPHS = {
    "a sum": ("y = Add(x, other)", True),
    "a sum of a view": ("s = Shape(x) v = Reshape(x, s) y = Add(other, v)", True),
    "a product of what is moved": ("a = Transpose(x) b = Mul(a, other) c = Mul(x, other) y = Add(b, c)", True),
    "a sum that is viewed": ("s = Shape(x) a = Sub(x, other) y = Reshape(a, s)", True),
    "parts that are joined": ("a = Slice(x, zero, one) b = Slice(x, one, end) y = Concat<axis = 0>(b, a)", True),
    "what is written is moved": ("y = Transpose(x)", False),
    "what is viewed is moved": ("s = Shape(x) a = Transpose(x) y = Reshape(a, s)", False),
    "it comes out as it is": ("y = Identity(x)", False),
    "no operator makes the output of it": ("y = Add(other, other) z = Neg(x)", False),
    "a product of matrices and a sum may be one kernel": ("a = MatMul(x, other) y = Add(a, x)", False),
    "rows are read together": ("y = Softmax(x)", False),
    "something else reads it": ("y = Add(x, other) z = Mul(x, other)", False),
    "a branch reads it": (
        "a = If(which) <then_branch = g () => (float[N, N] t) { t = Neg(x) },"
        " else_branch = h () => (float[N, N] e) { e = Neg(other) }> y = Add(a, x)",
        False,
    ),
    "an operator of another domain": ("y = of.somebody.Add(x, other)", False),
}
CONSTANTS = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {9}, bool which = {1}>"


def graph(nodes: str, signature: str = X) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["": 18, "of.somebody": 1]> g {signature} {CONSTANTS}'
    model: onnx.ModelProto = parser.parse_model(f"{head} {{ {nodes} }}")
    return model


@pytest.mark.parametrize("what", GRAPHS)
def test_which_outputs_may_be_written_over_an_input(what: str) -> None:
    nodes, may = GRAPHS[what]
    assert may_replace(graph(nodes), "y", "x") == may


def test_an_input_that_is_an_output_too_is_kept() -> None:
    model = graph("y = Add(x, other)")
    model.graph.output.append(model.graph.input[0])
    assert not may_replace(model, "y", "x")
    assert unread(model) == frozenset()


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("s = Shape(x) y = Expand(other, s)", {"x"}),
        ("s = Size(x) y = Identity(other)", {"x"}),
        ("y = Neg(other)", {"x"}),
        ("s = Shape(x) z = Neg(x) y = Expand(other, s)", set()),
        ("y = of.somebody.Shape(x, other)", set()),
        (GRAPHS["a branch reads it"][0].replace("Add(a, x)", "Neg(a)"), set()),
    ],
)
def test_whose_values_a_graph_does_not_read(nodes: str, expected: set[str]) -> None:
    assert unread(graph(nodes)) == expected


class Times(nn.Module):
    """A bias to which nothing of q is added: 0 times its numbers, which is nothing but of no numbers at all."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        bias: Tensor = self.module(q, k)
        return bias + 0 * q.sum()


def test_whose_values_a_module_does_not_read() -> None:
    encoding = posenc.build("t5_bias", Spec("dynamic", max_len=20), heads=2)
    sizes = {"batch": 2, "seq": 3, "head_dim": 4, "kv_heads": 2, "seq_k": 5}
    cases = record(encoding, plan(Scope(encoding, sizes, 20)).cases[:4], 0).cases
    assert unread_by_module(encoding, cases, 0) == ("q", "k")
    assert unread_by_module(replace(encoding, module=Times(encoding.module)), cases, 0) == ("k",)


# ---- graphs that are run ---------------------------------------------------------------------------------------------


def fed(bundle: Bundle, golden: GoldenCase) -> dict[str, Array]:
    return {port.name: np.ascontiguousarray(golden.feeds[port.name]) for port in bundle.manifest.inputs}


def element(port: Port) -> Any:
    """Return what a binding calls a dtype: numpy has no bfloat16."""
    return onnx.TensorProto.BFLOAT16 if port.dtype == "bfloat16" else numpy_dtype(port.dtype)


def run(
    session: onnxruntime.InferenceSession, bundle: Bundle, feeds: dict[str, Array], shapes: list[Any], uses: Uses
) -> list[bytes]:
    """Run with null pointers for inputs that are not read, and outputs over the inputs that they may replace."""
    binding = session.io_binding()
    memory = {name: array.copy() for name, array in feeds.items()}
    for port in bundle.manifest.inputs:
        array = memory[port.name]
        at = 0 if port.name in uses.unread else array.ctypes.data
        binding.bind_input(port.name, "cpu", 0, element(port), array.shape, at)
    outputs = []
    for port, shape in zip(bundle.manifest.outputs, shapes, strict=True):
        over = uses.replaces.get(port.name)
        outputs.append(memory[over] if over else np.empty(shape, numpy_dtype(port.dtype)))
        binding.bind_output(port.name, "cpu", 0, element(port), shape, outputs[-1].ctypes.data)
    session.run_with_iobinding(binding)
    return [output.tobytes() for output in outputs]


def check(bundle: Bundle) -> None:
    """Compare each case of a bundle, run as its class may run it, with a call that has memory for everything."""
    uses, path = uses_of(bundle), bundle.folder / "model.onnx"
    cases = [one for one in bundle.golden() if not one.case.refused and not one.case.unlike]
    assert any(one.case.sizes.get("batch", 2) > 1 for one in cases)
    for threads in (1, 2):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for golden in cases:
            feeds = fed(bundle, golden)
            shapes = [port.shape(golden.case.sizes) for port in bundle.manifest.outputs]
            plain = run(session, bundle, feeds, shapes, Uses())
            assert run(session, bundle, feeds, shapes, uses) == plain, golden.case.name
            alike = {name: np.broadcast_to(array.dtype.type(0), array.shape) for name, array in feeds.items()}
            others = {name: alike[name] if name in uses.unread else array for name, array in feeds.items()}
            if threads == 1 and all(array.dtype.name != "bfloat16" for array in feeds.values()):
                assert [output.tobytes() for output in session.run(None, others)] == plain


USED = {
    "offset": Uses(replaces={"y": "x"}),
    "half": Uses(replaces={"q_rotated": "q", "k_rotated": "k"}),
    "bfloat": Uses(replaces={"y": "x"}),
    "wide": Uses(replaces={"q_rotated": "q", "k_rotated": "k"}),
    "whole": Uses(),
    "bias": Uses(frozenset({"q", "k"})),
    "scores": Uses(replaces={"biased": "scores"}),
    "text": Uses(),
}
LOADED = ("offset", "half", "wide", "bias", "scores")
"""Bundles that ONNX Runtime loads on the CPU, and whose class uses memory otherwise than a call with all of it."""


@pytest.mark.parametrize("name", USED)
def test_no_bit_depends_on_what_a_class_leaves_out_and_writes_over(once: Once, name: str) -> None:
    bundle = Bundle.open(once("variety", write_bundles) / name, trusted=True)
    assert uses_of(bundle) == USED[name]
    if name in LOADED:
        check(bundle)


def test_libtorch_copies_whatever_a_graph_does(once: Once) -> None:
    bundle = Bundle.open(once("variety", write_bundles) / "scores", trusted=True)
    script = tuple(artifact for artifact in bundle.manifest.artifacts if artifact.format == "torchscript")
    manifest = replace(bundle.manifest, artifacts=script, unread=("scores",))
    assert uses_of(replace(bundle, manifest=manifest)) == Uses(frozenset({"scores"}), {"biased": "scores"})
    assert (
        uses_of(replace(bundle, manifest=replace(manifest, artifacts=bundle.manifest.artifacts))).unread == frozenset()
    )


def combinations() -> Iterator[tuple[str, Spec, dict[str, Any]]]:
    """Each scheme and output that has the axes and the dtype of an input, computed where it can be; two in half."""
    for scheme in SCHEMES.values():
        small: dict[str, Any] = dict(scheme.samples[0])
        outputs = scheme.parameters["output"].choices if "output" in scheme.parameters else ()
        others: list[dict[str, Any]] = [{**small, "output": one} for one in outputs if small.get("output") != one]
        for params in [small, *others]:
            dtypes: tuple[DType, ...] = ("fp32", "fp16") if scheme.name in ("alibi", "sinusoidal") else ("fp32",)
            yield from ((scheme.name, spec, params) for spec in _specs(scheme.name, params, dtypes))


def _specs(scheme: str, params: dict[str, Any], dtypes: tuple[DType, ...]) -> Iterator[Spec]:
    for dtype, mode in product(dtypes, ("dynamic", "baked")):
        spec = Spec(cast("Mode", mode), max_len=40, dtype=dtype)
        with suppress(UnsupportedSpec):
            encoding = posenc.build(scheme, spec, **params)
            if in_place(encoding.inputs, encoding.outputs, lambda *_: True):
                yield spec
            return


def test_every_scheme_that_adds_to_what_goes_in_or_rotates_it_is_among_those() -> None:
    names = {scheme for scheme, _, _ in combinations()}
    assert {"alibi", "clipped_relative", "interpolated", "learned", "rope", "sincos_2d", "swin_bias", "xpos"} < names


@pytest.mark.exhaustive
@pytest.mark.parametrize(("scheme", "spec", "params"), list(combinations()))
def test_every_scheme(tmp_path: Path, scheme: str, spec: Spec, params: dict[str, Any]) -> None:
    encoding = posenc.build(scheme, spec, **params)
    alike = in_place(encoding.inputs, encoding.outputs, lambda *_: True)
    options = ExportOptions(formats=("onnx",), validate=False)
    export_target(lambda: scheme_target(scheme, spec, params, 0), options, tmp_path / "bundle")
    bundle = Bundle.open(tmp_path / "bundle", trusted=True)
    assert uses_of(bundle).replaces == alike, "each may be written over what it is like"
    assert set(bundle.manifest.unread) == uses_of(bundle).unread
    check(bundle)
