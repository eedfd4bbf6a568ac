"""Rules of onnxscript's optimizer change no number of a graph: each is tried on a graph where it would."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxscript.optimizer
import onnxscript.rewriter.onnx_fusions
import pytest
from onnx.reference import ReferenceEvaluator

from posenc_export.write.formats.onnx.exact_rules import exact_rules

F, D, H = "float", "double", "float16"


def graph_of(ports: str, body: str, opset: int = 18, weights: str = "") -> str:
    return f'<ir_version: 10, opset_import: ["" : {opset}]> graph {ports} <{weights}> {{ {body} }}'


def optimized(text: str, exact: bool = True) -> onnx.ModelProto:
    """Return a graph as torch.onnx has it optimized."""
    model = ir.from_onnx_text(text)

    def optimize() -> None:
        onnxscript.optimizer.optimize_ir(model)
        onnxscript.rewriter.onnx_fusions.fuse(model)

    if exact:
        with exact_rules() as possible:
            assert possible
            optimize()
    else:
        optimize()
    return ir.to_proto(model)


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def answers(model: onnx.ModelProto, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, {"x": x})


def constant(name: str, dtype: str, value: str) -> str:
    return f"{name} = Constant <value = {dtype} {{{value}}}> () "


def small(operator: str, value: str) -> tuple[str, Any]:
    body = constant("c", F, value) + f"s = {operator} (x, c) y = Reciprocal (s)"
    return graph_of("(float[4] x) => (float[4] y)", body), np.asarray([0, 1e-9, 1, -2], np.float32)


def norm(dtype: str, name: str) -> tuple[str, Any]:
    """A sum of products in front of a batch norm that multiplies by 1e4."""
    bits = {"30": 20352, "0.5": 14336, "1": 15360, "0": 0} if dtype == H else {}  # so float16 is written in this text
    rows = {"w": ("2,1,1", "30", "0.5"), "g": ("2", "1", "1")} | dict.fromkeys("bmv", ("2", "0", "0"))
    weights = ", ".join(
        f"{dtype}[{shape}] {key} = {{{', '.join(str(bits.get(n, n)) for n in numbers)}}}"
        for key, (shape, *numbers) in rows.items()
    )
    body = f"h = {name} (x, w) y = BatchNormalization <epsilon = 1e-8> (h, g, b, m, v)"
    numpy = np.float16 if dtype == H else np.float32
    text = graph_of(f"({dtype}[1,1,4] x) => ({dtype}[1,2,4] y)", body, weights=weights)
    return text, np.asarray([[[0, 1e-3, 1, 2]]], numpy)


def rms(into: str, scale: str, epsilon: str, given: str = H) -> tuple[str, Any]:
    """The norm by the root mean square, as models write it, whose scale has a type of its own."""
    cast = "w = Cast <to = 1> (x)" if given == H else "w = Identity (x)"
    wide = D if given == D else F
    body = (
        cast
        + constant("two", wide, "2.0")
        + constant("e", wide, epsilon)
        + constant("last", "int64[1]", "-1")
        + "q = Pow (w, two) m = ReduceMean <keepdims = 1, noop_with_empty_axes = 0> (q, last)"
        + " a = Add (m, e) r = Sqrt (a) i = Reciprocal (r) n = Mul (w, i) "
        + into
        + constant("g", f"{scale}[4]", "1, 2, 3, 4")
        + "y = Mul (t, g)"
    )
    numpy = {H: np.float16, D: np.float64}[given]
    return graph_of(f"({given}[2,4] x) => ({scale}[2,4] y)", body, 23), np.asarray([[0] * 4, [1, 2, 3, 5]], numpy)


CLIPS = constant("a", F, "0") + constant("b", F, "1") + constant("c", F, "2") + constant("d", F, "3")
HALVES = "".join(constant(n, "int64[1]", str(v)) for n, v in zip("abcd", (0, 3, 7, -1), strict=True))
SWAPPED = "right = Slice (x, b, c, d) left = Slice (x, a, b, d) y = Concat <axis = 1> (right, left)"
CHANGED = {
    "Add 1e-8": small("Add", "1e-8"),
    "Add 1e-12": small("Add", "1e-12"),
    "Sub 1e-9": small("Sub", "1e-9"),
    "Mul 1.000001": small("Mul", "1.000001"),
    "Div 1.000001": small("Div", "1.000001"),
    "Add 0 to -0": (small("Add", "0")[0], np.asarray([-0.0, 0, 1, 2], np.float32)),
    "two Clips": (
        graph_of("(float[4] x) => (float[4] y)", CLIPS + "h = Clip (x, a, b) y = Clip (h, c, d)"),
        np.asarray([-1, 0.5, 2.5, 4], np.float32),
    ),
    "Clip and Relu": (
        graph_of("(float[4] x) => (float[4] y)", constant("m", F, "-1") + "h = Clip (x, , m) y = Relu (h)"),
        np.asarray([-2, -0.5, 2, 4], np.float32),
    ),
    "Cast of float64": (
        graph_of("(double[1] x) => (float16[1] y)", "h = Cast <to = 1> (x) y = Cast <to = 10> (h)"),
        np.asarray([1 + 2.0**-11 + 2.0**-40]),
    ),
    "unlike halves": (
        graph_of("(float[2,7] x) => (float[2,7] y)", HALVES + SWAPPED),
        np.arange(14, dtype=np.float32).reshape(2, 7),
    ),
    "batch norm in half": norm(H, "Conv"),
    "scale in float32": rms("t = Identity (n)", F, "1e-6"),
    "epsilon of float64": rms("t = Identity (n)", D, "1e-8", D),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_would_change_numbers_is_left(name: str) -> None:
    text, x = CHANGED[name]
    plain = onnx.parser.parse_model(text)
    assert operators(optimized(text, exact=False)) != operators(optimized(text)), "onnxscript has no such rule any more"
    for expected, actual in zip(answers(plain, x), answers(optimized(text), x), strict=True):
        assert expected.dtype == actual.dtype
        assert np.array_equal(np.signbit(expected), np.signbit(actual))
        np.testing.assert_array_equal(actual, expected)


KEPT = {
    "Mul 1": (small("Mul", "1")[0], {"Reciprocal": 1}),
    "Sub 0": (small("Sub", "0")[0], {"Reciprocal": 1}),
    "Add -0": (small("Add", "-0.0")[0], {"Reciprocal": 1}),
    "Clips": (
        graph_of("(float[4] x) => (float[4] y)", CLIPS + "h = Clip (x, a, c) y = Clip (h, b, d)"),
        {"Clip": 1},
    ),
    "Casts": (
        graph_of("(float16[1] x) => (bfloat16[1] y)", "h = Cast <to = 1> (x) y = Cast <to = 16> (h)"),
        {"Cast": 1},
    ),
    "halves": (
        graph_of("(float[2,6] x) => (float[2,6] y)", HALVES.replace("7", "6") + SWAPPED),
        {"Split": 1, "Concat": 1},
    ),
    "batch norm": (norm(F, "Conv")[0], {"Conv": 1}),
    "RMS norm": (rms("t = Cast <to = 10> (n)", H, "1e-6")[0], {"RMSNormalization": 1}),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_nothing_is_still_made_smaller(name: str) -> None:
    text, expected = KEPT[name]
    assert operators(optimized(text)) == expected
