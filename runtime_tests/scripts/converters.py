"""Tools that convert ONNX files, each as a function from a file to a model; `conversions.py` measures what they do."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

from posenc_export.write.formats.onnx.dtypes import to_float16

Convert = Callable[[Path], onnx.ModelProto]


def by_onnxruntime(path: Path) -> onnx.ModelProto:
    return to_float16(onnx.load(path))


def by_onnxruntime_but_angles(path: Path) -> onnx.ModelProto:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(path)
    return loaded(convert_float_to_float16(model, node_block_list=behind_angles(model)))


def by_onnxconverter_common(path: Path) -> onnx.ModelProto:
    from onnxconverter_common.float16 import convert_float_to_float16

    return loaded(convert_float_to_float16(onnx.load(path)))


def by_onnxconverter_common_but_angles(path: Path) -> onnx.ModelProto:
    from onnxconverter_common.float16 import convert_float_to_float16

    model = onnx.load(path)
    return loaded(convert_float_to_float16(model, node_block_list=behind_angles(model)))


def loaded(model: Any) -> onnx.ModelProto:
    """Return what an untyped tool has made, as what it is."""
    assert isinstance(model, onnx.ModelProto)
    return model


def behind_angles(model: onnx.ModelProto) -> list[str]:
    """Return the names of sines and cosines, and of what leads to them from the Cast of positions on."""
    wanted: set[str] = set()
    names = []
    for node in reversed(model.graph.node):
        if node.op_type in ("Sin", "Cos") or wanted & set(node.output):
            wanted |= set() if node.op_type == "Cast" else set(node.input)
            names.append(node.name)
    return names


def quantized(path: Path) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(path, path.with_suffix(".int8.onnx"))
    return onnx.load(path.with_suffix(".int8.onnx"))


def quantized_products(path: Path) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(path, path.with_suffix(".int8.onnx"), op_types_to_quantize=["MatMul"])
    return onnx.load(path.with_suffix(".int8.onnx"))


def slimmed(path: Path) -> onnx.ModelProto:
    import onnxslim

    return loaded(onnxslim.slim(onnx.load(path)))


HALVES: Mapping[str, Convert] = {
    "onnxruntime.transformers float16": by_onnxruntime,
    "onnxconverter-common float16": by_onnxconverter_common,
}
BUT_ANGLES: Mapping[str, Convert] = {
    "onnxruntime.transformers float16, angles in node_block_list": by_onnxruntime_but_angles,
    "onnxconverter-common float16, angles in node_block_list": by_onnxconverter_common_but_angles,
}
"""With nodes to be kept in float32: for files that have sines and cosines."""
SINGLES: Mapping[str, Convert] = {
    "quantize_dynamic": quantized,
    "quantize_dynamic, MatMul alone": quantized_products,
    "onnxslim": slimmed,
}
