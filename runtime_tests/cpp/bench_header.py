"""The header beside ONNX Runtime on one core, in one process: `python runtime_tests/cpp/bench_header.py`.

They are timed alternately. Both write into memory of their own that was written to before: ONNX Runtime through an
IoBinding.
"""

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime

from posenc.spec import Spec
from posenc_export.cpp import filled
from posenc_export.exporter import ExportOptions, write_bundle
from posenc_export.runtimes.header import compiler
from posenc_export.targets.scheme import scheme_target

D_MODEL, LENGTHS, ROUNDS, SECONDS = 512, (512, 2048, 8192), 9, 0.2
FLAGS = (("-O2",), ("-O3", "-march=native"))


def exported(folder: Path, output: str) -> Path:
    folder /= output
    folder.mkdir()
    target = scheme_target("sinusoidal", Spec("dynamic"), {"d_model": D_MODEL, "output": output}, 0)
    write_bundle(target, ExportOptions(("header", "onnx"), validate=False), folder)
    return folder


def header(folder: Path, flags: tuple[str, ...], x: np.ndarray, y: np.ndarray, add: bool) -> Callable[[], object]:
    library = folder / f"call{''.join(flags)}.so"
    if not library.exists():
        source = folder / "call.cpp"
        source.write_text(filled("call_additive.cpp", header="model.hpp", real="float", width=D_MODEL))
        subprocess.run(
            [*compiler(), "-std=c++17", *flags, "-fPIC", "-shared", "-fvisibility=hidden", source, "-o", library],
            check=True,
        )
    call = ctypes.CDLL(str(library)).call
    first = np.zeros(1, np.int64)
    pointers = [ctypes.c_void_p(first.ctypes.data), ctypes.c_size_t(1), ctypes.c_size_t(x.shape[1])]
    pointers += [ctypes.c_void_p(x.ctypes.data if add else None), ctypes.c_void_p(y.ctypes.data)]
    return lambda: (call(*pointers), first)


def ort(folder: Path, x: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, list(y.shape), y.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


def median(call: Callable[[], object]) -> float:
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with TemporaryDirectory() as scratch:
        for output in ("rows", "add"):
            folder = exported(Path(scratch), output)
            for length in LENGTHS:
                x = np.random.default_rng(0).standard_normal((1, length, D_MODEL), np.float32)
                outs = [np.ones_like(x) for _ in range(2 + len(FLAGS))]
                contenders = {"ONNX Runtime": ort(folder, x, outs[0])}
                for flags, y in zip(FLAGS, outs[1:], strict=False):
                    contenders[" ".join(flags)] = header(folder, flags, x, y, output == "add")
                contenders["copy"] = partial(np.copyto, outs[-1], x)
                times: dict[str, list[float]] = {name: [] for name in contenders}
                for _ in range(ROUNDS):
                    for name, call in contenders.items():
                        times[name].append(median(call))
                assert all(y.tobytes() == outs[0].tobytes() for y in outs[1:-1]), "not the same bits"
                report(output, length, {name: float(np.median(medians)) for name, medians in times.items()})


def report(output: str, length: int, seconds: dict[str, float]) -> None:
    for name, one in seconds.items():
        faster = seconds["ONNX Runtime"] / one
        print(f"{output:5}{length:6}  {name:18}{1e3 * one:8.3f} ms {length / one / 1e6:7.2f} Mrows/s {faster:6.2f}x")


if __name__ == "__main__":
    main()
