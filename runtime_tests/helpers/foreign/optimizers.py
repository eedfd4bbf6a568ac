"""Other people's optimizers, converters and quantizers, on a file of an exporter.

python -m helpers.foreign.optimizers MODEL FILE NAME...   with runtime_tests on PYTHONPATH; writes beside FILE
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from helpers.foreign.exporters import without_traces

Optimizer = Callable[[Path, Path], None]


def onnxslim(path: Path, to: Path) -> None:
    """Simplify with onnxslim."""
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(path)), to)


def onnxsim(path: Path, to: Path) -> None:
    """Simplify with onnxsim."""
    simple, _ = import_module("onnxsim").simplify(onnx.load(path))
    onnx.save(simple, to)


def dump(path: Path, to: Path, level: str) -> None:
    """Write what ONNX Runtime itself makes of a file when it loads it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(to)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def fused(path: Path, to: Path, model_type: str, half: bool = False) -> None:
    """Fuse with the optimizer of onnxruntime.transformers, and make it half if that is asked."""
    from onnxruntime.transformers import optimizer

    # 0 asks for heads and sizes to be read from the graph, as users leave it
    model = optimizer.optimize_model(str(path), model_type=model_type, num_heads=0, hidden_size=0)
    if half:
        model.convert_float_to_float16(keep_io_types=True)
    model.save_model_to_file(str(to))


def half_of_common(path: Path, to: Path) -> None:
    """Convert to float16 with onnxconverter-common."""
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True), to)


def half_of_runtime(path: Path, to: Path) -> None:
    """Convert to float16 with onnxruntime.transformers."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(path), keep_io_types=True), to)


def dynamic_int8(path: Path, to: Path) -> None:
    """Quantize with quantize_dynamic."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(path, to)


def four_bits(path: Path, to: Path) -> None:
    """Quantize what is multiplied with 4 bits, in blocks of 32."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True)
    quantizer.process()
    onnx.save(quantizer.model.model, to)


def rows_int8(path: Path, to: Path) -> None:
    """Store every table of floats that rows are read from as int8 with a scale a row, behind DequantizeLinear.

    It is what several quantizers of embeddings write; here it is rebuilt from its description.
    """
    model = onnx.load(path)
    # tables alone: what is multiplied stays as it is
    read = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    for tensor in list(model.graph.initializer):
        table = numpy_helper.to_array(tensor)
        if tensor.name not in read or table.ndim != 2 or table.dtype != np.float32:
            continue
        scale = np.maximum(np.abs(table).max(axis=1), 1e-6) / 127
        stored = np.round(table / scale[:, None]).astype(np.int8)
        names = [f"{tensor.name}_int8", f"{tensor.name}_scale"]
        model.graph.initializer.remove(tensor)
        for name, array in zip(names, (stored, scale.astype(np.float32)), strict=True):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        model.graph.node.insert(0, helper.make_node("DequantizeLinear", names, [tensor.name], axis=0))
    onnx.save(model, to)


OPTIMIZERS: Mapping[str, Optimizer] = {
    "onnxslim": onnxslim,
    "ORT basic": partial(dump, level="BASIC"),
    "ORT extended": partial(dump, level="EXTENDED"),
    "ORT all": partial(dump, level="ALL"),
    "ORT bert": partial(fused, model_type="bert"),
    "ORT gpt2": partial(fused, model_type="gpt2"),
    "ORT bert float16": partial(fused, model_type="bert", half=True),
    "ORT float16": half_of_runtime,
    "quantize_dynamic": dynamic_int8,
    "MatMulNBits": four_bits,
    "rows int8": rows_int8,
    "onnxsim": onnxsim,
    "common float16": half_of_common,
}
ELSEWHERE = ("onnxsim", "common float16")
"""Those of the environment of tools."""


def dtype_after(optimizer: str) -> str:
    """Return the element type of numbers after an optimizer."""
    if "float16" in optimizer:
        return "float16"
    return "int8" if optimizer in ("quantize_dynamic", "MatMulNBits", "rows int8") else "float32"


def main() -> None:
    """Write FILE by each optimizer."""
    model, path = sys.argv[1], Path(sys.argv[2])
    for name in sys.argv[3:]:
        slug = f"{path.stem}.{name.replace(' ', '-')}"
        written = path.with_name(f"{slug}.raw")
        try:
            OPTIMIZERS[name](path, written)
            without_traces(written, path.with_name(f"{slug}.onnx"))
        except Exception as error:  # whatever an optimizer raises is its answer
            lines = [line for line in str(error).splitlines() if line.strip()] or [""]
            why = f"{type(error).__name__}: {lines[0][:200]}"
            path.with_name(f"{slug}.failed").write_text(why, encoding="utf-8")
            print(f"{model} {name}: {why}", flush=True)


if __name__ == "__main__":
    main()
