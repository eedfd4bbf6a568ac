"""Half precision by conversion: no float of an exported graph holds a position, so fp16 and bf16 cost a few roundings.

The float32 file is converted, to fp16 by what others use, and evaluated in true half by the onnx package: ONNX
Runtime's CPU computes fp16 in float32 and would hide what a GPU shows. bfloat16 too is evaluated as such, by ml_dtypes.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import posenc
from helpers.shared import one_of_each
from posenc.encoding import Encoding, eps
from posenc.parameters import Value
from posenc.ports import Array, Mask, Port, Positions, Start, Values
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import SCHEMES
from posenc.sincos.direct import HOLDS_POSITIONS, IN_FLOAT64
from posenc.sincos.series import DIVIDES
from posenc.sources.rotary.xpos import OVERFLOWS
from posenc.spec import DType, Spec, UnsupportedSpec
from posenc_export.bundle.carries import keys_axis
from posenc_export.common.arrays import numpy_dtype
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.write.formats.onnx.dtypes import HALVES as CONVERTERS
from posenc_export.write.targets.scheme import scheme_target

HALVES: Mapping[str, DType] = {"float16": "fp16", "bfloat16": "bf16"}
ROUNDINGS = 2
"""What is allowed, in eps of the half dtype times the peak of the output, or 1 where that is less."""
EDGES = (0, 1, 63, 64, 65, 4095, 32767, 32768, 65536, 2**20 + 3, 2**23 - 1, 2**24 - 5)
FAR_KEYS = 2**16
"""The last edge for tokens that must be among keys: there are as many of those."""
TABLE, TRACED = 4200, 100
"""max_len of a table, and of a dynamic graph, which holds far beyond it."""
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
INTEGERS = (TensorProto.INT32, TensorProto.INT64)
COMPUTES = ("Sin", "Cos", "Pow", "Exp", "Log", "Floor", "Ceil", "Round", "Div", "Mod", "Range", "CumSum")
"""What counts positions, computes an angle or takes one apart: of integers alone, in a graph that is safe."""
SMALL: dict[str, Value] = {"head_dim": 16}
Parameters = dict[str, Value]
Feeds = dict[str, Array]


NUMBERS = ("timestep", "fourier_features")
"""Their graphs take floats apart that come in as such: test_half_safe.py has what half precision makes of them."""


def name_of(scheme: str, spec: Spec) -> str:
    return f"{scheme}-{spec.mode}-{spec.method}-{spec.positions}"


def combinations() -> Iterator[tuple[str, Spec]]:
    """Every scheme with positions in every way that it has, baked in its own; none that has no angles by method."""
    for scheme in (one for one in SCHEMES.values() if not one.unsupported.methods and one.name not in NUMBERS):
        for mode in ("baked", "dynamic"):
            for positions in ("explicit", "offset", "implicit", "mask") if mode == "dynamic" else (scheme.positions,):
                max_len = (scheme.rows(scheme.samples[0]) or TABLE) if mode == "baked" else TRACED
                spec = Spec(mode, "exact", positions, max_len)
                with contextlib.suppress(UnsupportedSpec):
                    posenc.build(scheme.name, replace(spec, max_len=TRACED), **scheme.samples[0])
                    yield scheme.name, spec


def exported(scheme: str, spec: Spec, params: Parameters, folder: Path) -> tuple[Encoding, onnx.ModelProto]:
    target = scheme_target(scheme, spec, params, 0)
    write_bundle(target, ExportOptions(("onnx",), validate=False), folder)
    return target.encoding, onnx.load(folder / "model.onnx")


def calls(encoding: Encoding, dtype: str, end: int) -> Iterator[Feeds]:
    """Yield calls below `end`: at the edges of blocks and far out, as far as each way to give positions goes."""
    edges = [p for p in (*EDGES, end - 4) if p + 3 < end]
    carried = {type(port.carries) for port in encoding.inputs}
    if Positions in carried:
        yield feeds(encoding, dtype, len(edges), edges)
    elif Start in carried:
        keys = keys_axis(encoding.inputs)
        for first in edges if keys is None else [p for p in edges if p <= FAR_KEYS]:
            yield feeds(encoding, dtype, 3, [first], {keys: first + 3} if keys else {})
    else:
        short = Mask in carried or encoding.inputs[0].axes[-2].kind == "grid"
        for length in (1, 70) if short else (1, 130, 32770):
            yield feeds(encoding, dtype, min(length, end), [])


def feeds(
    encoding: Encoding, dtype: str, length: int, positions: list[int], others: Mapping[str, int] = MappingProxyType({})
) -> Feeds:
    """Return inputs of the length: numbers that half precision holds, and positions, each axis' shifted by one more.

    others: sizes of axes that are not of that length.
    """
    sizes = {a.name: {"batch": 1, "heads": 2}.get(a.kind, length) for p in encoding.inputs for a in p.dynamic.values()}
    sizes |= others
    rng = np.random.default_rng(length)
    return {port.name: feed(port, port.shape(sizes), positions, dtype, rng) for port in encoding.inputs}


def feed(port: Port, shape: tuple[int, ...], positions: list[int], dtype: str, rng: np.random.Generator) -> Array:
    if isinstance(port.carries, Values):
        return rng.standard_normal(shape).astype(numpy_dtype(dtype))
    if isinstance(port.carries, Mask):
        return (np.arange(shape[-1]) >= shape[-1] // 3).astype(np.int64) * np.ones(shape, np.int64)
    if isinstance(port.carries, Start):
        return np.array(positions, np.int64)
    rows = [np.roll(positions, i) for i in range(int(np.prod(shape[:-1])))]
    return np.array(rows, np.int64).reshape(shape)


def roundings(encoding: Encoding, model: onnx.ModelProto, dtype: str, end: int) -> float:
    """Return how far a converted graph is from the float64 reference at worst: in eps, times the peak or 1."""
    evaluator = ReferenceEvaluator(CONVERTERS[dtype](onnx.ModelProto.FromString(model.SerializeToString())))
    worst = 0.0
    for values in calls(encoding, dtype, end):
        wide = {name: a if a.dtype.kind == "i" else a.astype(np.float32) for name, a in values.items()}
        with np.errstate(all="ignore"):
            reference = encoding.reference(wide, None)
            outputs = dict(zip(evaluator.output_names, evaluator.run(None, values), strict=True))
            for name, expected in reference.items():
                assert outputs[name].dtype == numpy_dtype(dtype), name
                off = np.abs(outputs[name].astype(np.float64) - expected).max()
                worst = max(
                    worst, float(np.nan_to_num(off / max(1.0, np.abs(expected).max()), nan=np.inf)) / eps(dtype)
                )
    return worst


def end_of(scheme: str, encoding: Encoding, dtype: str) -> int:
    """Return where positions end: of xPos in fp16 where a graph of that dtype has its end."""
    end = min(encoding.end or 2**24, 2**24)
    if scheme == "xpos":
        end = min(end, posenc.build(scheme, Spec("dynamic", max_len=1, dtype=HALVES[dtype]), **SMALL).end or end)
    return end


def unsafe(model: onnx.ModelProto) -> list[str]:
    """Return the nodes that make a float of an integer, or compute an angle or take one apart."""
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output, *graph.value_info)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    wrong = []
    for node in graph.node:
        taken, made = types[node.input[0]] if node.input else 0, types[node.output[0]]
        if node.op_type == "Cast" and taken in INTEGERS and made in FLOATS:
            wrong.append("Cast of an integer to a float")
        if node.op_type in COMPUTES and made in FLOATS:
            wrong.append(f"{node.op_type} of a float")
    return wrong


def breaches(scheme: str, encoding: Encoding, model: onnx.ModelProto) -> list[str]:
    """Return how a graph breaks the rule, a line each."""
    lines = unsafe(model)
    for dtype in HALVES:
        worst = roundings(encoding, model, dtype, end_of(scheme, encoding, dtype))
        lines += [f"{worst:.3g} eps of {dtype}"] if worst > ROUNDINGS else []
    return lines


@pytest.mark.parametrize(
    ("scheme", "spec"),
    one_of_each(combinations(), lambda one: one[1].mode),
    ids=[name_of(*one) for one in combinations()],
)
def test_half_precision_costs_a_few_roundings(tmp_path: Path, scheme: str, spec: Spec) -> None:
    encoding, model = exported(scheme, spec, dict(SCHEMES[scheme].samples[0]), tmp_path)
    # A key's cosine and sine are divided by its scale: floats, but neither is an angle or a position.
    divided = {"Div of a float"} if scheme == "xpos" else set()
    lines = breaches(scheme, encoding, model)
    if encoding.half_safe == DIVIDES:  # in float64, which stays what it is
        assert not any("eps" in line for line in lines)
    else:
        assert set(lines) == divided


@pytest.mark.parametrize("kind", one_of_each(ROPE_TYPES, lambda kind: kind == "dynamic"))
def test_every_rope_type_but_those_that_say_why(tmp_path: Path, kind: str) -> None:
    params = {**SMALL, "rope_type": kind, **ROPE_TYPES[kind].samples[0]}
    encoding, model = exported("rope", Spec("dynamic", "exact", "explicit", TRACED), params, tmp_path)
    lines = breaches("rope", encoding, model)
    if not encoding.half_safe:
        assert lines == []
    else:
        assert encoding.half_safe == IN_FLOAT64
        assert "Cast of an integer to a float" in lines
        assert not any("eps" in line for line in lines)


@pytest.mark.parametrize(
    "scheme",
    one_of_each(
        [
            s.name
            for s in SCHEMES.values()
            if s.name not in NUMBERS and not {"explicit", "dynamic", "trig"} & {*s.unsupported.reasons()}
        ],
        lambda _: "",
    ),
)
def test_trig_cannot_keep_it(tmp_path: Path, scheme: str) -> None:
    spec = Spec("dynamic", "trig", "explicit", TRACED)
    encoding, model = exported(scheme, spec, dict(SCHEMES[scheme].samples[0]), tmp_path)
    assert encoding.half_safe == HOLDS_POSITIONS
    assert {"Cast of an integer to a float", "Sin of a float", "Cos of a float"} <= set(unsafe(model))
    for dtype in HALVES:
        assert roundings(encoding, model, dtype, end_of(scheme, encoding, dtype)) > 2 * ROUNDINGS


def test_the_scale_of_xpos_leaves_fp16(tmp_path: Path) -> None:
    encoding, model = exported("xpos", Spec("dynamic", "exact", "implicit", TRACED), SMALL, tmp_path)
    assert encoding.half_safe == OVERFLOWS
    assert posenc.build("xpos", Spec("baked", max_len=TRACED), **SMALL).half_safe == ""
    assert encoding.end is not None
    assert end_of("xpos", encoding, "float16") < encoding.end
    assert roundings(encoding, model, "float16", encoding.end) == np.inf
