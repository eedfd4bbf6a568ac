"""The header beside raw calls of ONNX Runtime's C++ API, one thread: `bench_header.py [WORD...]`.

Both are in one program, timed by turns, and write into memory of their own that was written to before; a row says where
their bits differ. Prints a Markdown table of medians. A WORD picks the rows that have it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.parameters import Value
from posenc.spec import Mode, Spec
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.runtimes.runner_build import SESSION
from posenc_export.write.formats import RotaryOp
from posenc_export.write.targets.scheme import scheme_target

PROJECT = Path(__file__).parent / "bench_header"
FLAGS = ("-O2", "-O3 -march=native")
D_MODEL, HEADS, HEAD_DIM = 512, 32, 128


@dataclass(frozen=True)
class Graph:
    """What is timed: a scheme, its parameters, the operator that ONNX rotates by."""

    scheme: str
    family: str
    params: Mapping[str, Value]
    mode: Mode = "dynamic"
    rotary_op: RotaryOp = "decomposed"

    def __str__(self) -> str:
        words = [str(value) for key, value in self.params.items() if key not in ("head_dim", "d_model")]
        return " ".join(
            [self.scheme, *words, self.mode, *(["(one operator)"] if self.rotary_op != "decomposed" else [])]
        )

    def calls(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the shape of each call, in words, and what the program is told of it."""
        for seq in (1, 512, 2048):
            if self.family != "ROTARY":
                yield f"(1, {seq}, {D_MODEL})", (seq,)
            elif self.params["tensor_layout"] == "bhsd":
                yield f"(1, {HEADS}, {seq}, {HEAD_DIM})", (HEADS, seq, HEAD_DIM, seq * HEAD_DIM, 1)
            else:
                yield f"(1, {seq}, {HEADS}, {HEAD_DIM})", (HEADS, seq, HEADS * HEAD_DIM, HEAD_DIM, 0)


def graphs() -> Iterator[Graph]:
    modes: tuple[Mode, ...] = ("baked", "dynamic")
    for mode, output in product(modes, ("rows", "add")):
        yield Graph("sinusoidal", output.upper(), {"d_model": D_MODEL, "output": output}, mode)
    for layout, tensor_layout in product(("halves", "interleaved"), ("bhsd", "bshd")):
        params: dict[str, Value] = {"head_dim": HEAD_DIM, "layout": layout, "tensor_layout": tensor_layout}
        yield Graph("rope", "ROTARY", params)
        yield Graph("rope", "ROTARY", params, rotary_op="microsoft")


def program(graph: Graph, flags: str, folder: Path) -> tuple[str, str]:
    """Export a graph, build the program around its header; return the words that start it."""
    target = scheme_target(graph.scheme, Spec(graph.mode, "exact", "implicit", 2048), graph.params, 0)
    options = ExportOptions(("header", "onnx"), rotary_op=graph.rotary_op, validate=False, namespace="posenc")
    write_bundle(target, options, folder)
    settings = {"HEADER": folder, "SESSION": SESSION, "FAMILY": graph.family, "CMAKE_CXX_FLAGS": flags}
    settings |= {"POSENC_PYTHON": sys.executable, "CMAKE_BUILD_TYPE": "None"}
    build = folder / "build"
    words = ["cmake", "-S", str(PROJECT), "-B", str(build), *(f"-D{key}={value}" for key, value in settings.items())]
    for command in (words, ["cmake", "--build", str(build)]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(build / "bench"), str(folder / "model.onnx")


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print("| graph | shape | flags | ONNX Runtime, us | header, us | faster | a copy, us |")
    print("|---|---|---|---|---|---|---|")
    for graph, flags in product(graphs(), FLAGS):
        calls = [(shape, sizes) for shape, sizes in graph.calls() if all(w in f"{graph} {shape}" for w in sys.argv[1:])]
        with TemporaryDirectory() as folder:
            words = program(graph, flags, Path(folder)) if calls else ("", "")
            for shape, sizes in calls:
                done = subprocess.run([*words, *map(str, sizes)], stdout=subprocess.PIPE, text=True, check=False)
                ort, header, copy = map(float, done.stdout.split())
                note = "" if done.returncode == 0 else " other bits"
                figures = f"{ort:.4g} | {header:.4g} | {ort / header:.1f}x{note} | {copy:.4g}"
                print(f"| {graph} | {shape} | {flags} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
