"""Operators without a kernel here: a node by the onnx package's reference, or by ONNX Runtime where that has holes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from posenc_export.read.kernels.call import KernelCall, NoKernel
from posenc_export.read.values import Array

RANDOM = {
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout",
}  # fmt: skip
"""Operators that give other numbers every time."""
RUNTIME_FIRST = {
    "Resize", "Upsample", "GridSample", "Conv", "ConvTranspose", "RNN", "LSTM", "GRU", "NonMaxSuppression", "MaxPool",
    "AveragePool", "LpPool", "RoiAlign", "MaxRoiPool", "Col2Im", "DeformConv", "LRN", "STFT", "AffineGrid",
}  # fmt: skip
"""Operators for which the reference loops in Python."""
SHRINKING = {
    "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "DequantizeLinear", "QuantizeLinear", "Inverse", "Unique",
    "GatherBlockQuantized", "SkipLayerNormalization", "SimplifiedLayerNormalization", "Rfft", "Irfft", "ExpandDims",
    "LayerNormalization",
}  # fmt: skip
"""Operators of other domains that give little more than they take: their outputs' sizes cannot be inferred."""
COMMON = 17
"""A version of ONNX's operators that all runtimes read."""
UNFIT = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, TypeError)
"""What the inference of shapes raises."""
Shapes = Mapping[str, tuple[int, ...]]
Types = Mapping[str, onnx.TypeProto]


def compute(call: KernelCall) -> list[Array]:
    """Return the outputs of a node without a kernel here; NoKernel where nothing computes it."""
    node = call.node
    if node.op_type in RANDOM or any(attribute.HasField("g") or attribute.graphs for attribute in node.proto.attribute):
        raise NoKernel(f"no kernel computes {_named(call)}: it is random, or holds a graph")
    if any(array.dtype.kind in "Oc" for array in call.present()):
        raise NoKernel(f"no kernel computes {_named(call)} on texts or complex numbers")
    feeds = {f"i{place}": np.asarray(array, order="C") for place, array in enumerate(call.arrays) if array is not None}
    shapes = _shapes(call, feeds)
    model = _model(call, feeds)
    ways = (_by_runtime, _by_reference) if node.op_type in RUNTIME_FIRST else (_by_reference, _by_runtime)
    reasons = []
    for way in ways:
        try:
            return _placed(call, way(model, feeds), shapes)
        # what either raises is not documented: errors of all kinds mean that it cannot
        except Exception as error:
            reasons.append(_line(error))
    raise NoKernel(f"no kernel computes {_named(call)}: {'; '.join(reasons)}"[:500])


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _placed(call: KernelCall, results: list[Array], shapes: Shapes) -> list[Array]:
    """Return results at the places of their outputs; nothing stands for an output that nobody asked for."""
    left = iter(results)
    placed = [next(left) if name else np.zeros(0) for name in call.node.outputs]
    # the reference gives some operators the wrong shape
    for place, array in enumerate(placed):
        sizes = shapes.get(f"o{place}", array.shape)
        if len(sizes) != array.ndim or any(
            size not in (0, there) for size, there in zip(sizes, array.shape, strict=True)
        ):
            raise ValueError(f"it gives shape {array.shape} for {sizes}")
    return placed


def _named(call: KernelCall) -> str:
    domain = f"{call.node.domain}." if call.node.domain else ""
    return f"{domain}{call.node.op_type} of opset {call.version}"


def _shapes(call: KernelCall, feeds: Mapping[str, Array]) -> Shapes:
    """Return the shapes of outputs as far as they can be inferred, 0 for a size that cannot.

    Raises TooLarge where outputs would not fit, and NoKernel where nothing is known of their size.
    """
    node = call.node
    if node.domain:
        if node.op_type not in SHRINKING:
            raise NoKernel(f"no kernel computes {_named(call)}")
        count = sum(array.size for array in feeds.values())
        if node.op_type == "GatherBlockQuantized":
            # rows of numbers that are packed by two
            count += 2 * call.array(1).size * prod(call.array(0).shape[1:])
        call.room((count,), np.dtype(np.float32))
        return {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, inferred in _inferred(call, _schema(call), feeds).items():
        kind = inferred.tensor_type
        if inferred.HasField("tensor_type") and kind.HasField("shape"):
            shapes[name] = tuple(dim.dim_value for dim in kind.shape.dim)
            # what is not inferred counts as little: an output of such an operator is made of its inputs' elements
            call.room([max(size, 1) for size in shapes[name]], _dtype(kind.elem_type))
    return shapes


def _schema(call: KernelCall) -> onnx.defs.OpSchema:
    try:
        return onnx.defs.get_schema(call.node.op_type, min(call.version, onnx.defs.onnx_opset_version()), "")
    except onnx.defs.SchemaError:
        raise NoKernel(f"no kernel computes {_named(call)}: onnx {onnx.__version__} does not know it") from None


def _dtype(element: int) -> np.dtype[np.generic]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(element)) if element else np.dtype(np.float32)


def _inferred(call: KernelCall, schema: onnx.defs.OpSchema, feeds: Mapping[str, Array]) -> Types:
    types = {name: helper.make_tensor_type_proto(_element(array), array.shape) for name, array in feeds.items()}
    # sizes, axes and scales, whose numbers decide the shapes of outputs
    small = {name: numpy_helper.from_array(array) for name, array in feeds.items() if array.size <= 64}
    try:
        opsets = [helper.make_opsetid("", schema.since_version)]
        return onnx.shape_inference.infer_node_outputs(schema, _node(call), types, small, opset_imports=opsets)
    except UNFIT as error:
        raise ValueError(f"{_named(call)} does not fit its inputs: {_line(error)}") from error


def _element(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _node(call: KernelCall) -> onnx.NodeProto:
    node = onnx.NodeProto()
    node.CopyFrom(call.node.proto)
    del node.input[:]
    del node.output[:]
    node.input.extend(f"i{place}" if array is not None else "" for place, array in enumerate(call.arrays))
    node.output.extend(f"o{place}" if name else "" for place, name in enumerate(call.node.outputs))
    return node


def _model(call: KernelCall, feeds: Mapping[str, Array]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, _element(array), array.shape) for name, array in feeds.items()]
    # ONNX Runtime infers the types of outputs itself
    outputs = [onnx.ValueInfoProto(name=f"o{place}") for place, name in enumerate(call.node.outputs) if name]
    graph = helper.make_graph([_node(call)], "node", inputs, outputs)
    # an operator means the same from the version that defined it: one is taken that every runtime knows
    opsets = {"": COMMON, call.node.domain: 1} if call.node.domain else {"": _version(call)}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=min(onnx.IR_VERSION, 10))


def _version(call: KernelCall) -> int:
    return max(_schema(call).since_version, min(call.version, COMMON))


def _by_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    return _arrays(ReferenceEvaluator(model).run(None, dict(feeds)))


def _by_runtime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # errors are raised: nothing is to be printed beside
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return _arrays(session.run(None, dict(feeds)))


def _arrays(values: object) -> list[Array]:
    if not isinstance(values, list) or not all(isinstance(value, np.ndarray | np.generic) for value in values):
        raise ValueError("it gives sequences")
    return [np.asarray(value) for value in values]
