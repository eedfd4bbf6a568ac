"""Checks of a loaded graph: it must run on the device that was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.bundle.golden import read_golden
from posenc_export.bundle.rules import rules_of
from posenc_export.common.markdown import count_of
from posenc_export.proof.checks import CheckResult, Context, Words, check
from posenc_export.proof.judging.verdict import PLACED
from posenc_export.proof.runtimes import NOT_RUN, Runner
from posenc_export.proof.runtimes.sessions import CUDA
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.inner_graphs import graphs_of
from posenc_export.write.formats.onnx.sizes import Size, outputs_by_node, sizes_of, worst

if TYPE_CHECKING:
    import onnx

CPU = "CPUExecutionProvider"
COPIES = ("MemcpyFromHost", "MemcpyToHost")
"""Nodes that ONNX Runtime adds."""


@check(
    "provider",
    stage="runner",
    subjects=("ort-cpu", "ort-cuda"),
    words=Words(
        code="PE109",
        asks="Does the ONNX Runtime session run on the execution provider that was asked for?",
        failure="ONNX Runtime fell back to another provider without an error: the device was not tried",
        remedy="Install what the provider lacks: for CUDA the driver and `onnxruntime-gpu[cuda,cudnn]`.",
        example="CUDA asked for, and the CPU taken",
    ),
)
def provider(context: Context) -> list[str]:
    """The session runs on the provider that was asked for, not on a silent fallback."""
    runner, runtime = context.loaded
    expected, actual = f"{runtime.device.upper()}ExecutionProvider", runner.providers
    return [f"asked for {expected}, got {', '.join(actual)}"] if actual[:1] != (expected,) else []


@check(
    PLACED,
    stage="runner",
    subjects=("ort-cuda", "cuda-placement", "browser-webgpu", "browser-jsep"),
    words=Words(
        code="PE110",
        asks="Does every node that computes rows run on the GPU of a CUDA session? Which does WebGPU leave to the CPU?",
        failure="Rows are computed on the CPU and copied to the device in each call: right, and slow. Sizes belong on "
        "the CPU: a few numbers, as many in every call. What has an axis of tokens, points or a batch counts as rows, "
        'of any dtype. So does what has a size that neither onnx nor ONNX Runtime can tell: "size not known"',
        remedy="Take another opset, or a newer ONNX Runtime, that has the operators that are named on CUDA. "
        "`--runtime cuda-placement` tries it without a GPU: ONNX Runtime says where nodes would run, and runs none.",
        example="a Cos of float64, for which the provider has no kernel",
    ),
)
def placement(context: Context) -> CheckResult:
    """No node that computes rows runs on the CPU of a CUDA session; of WebGPU, the report names the nodes that do.

    Operators for which CUDA has no kernel, as the encoding says of itself, are named as well.
    """
    runner, runtime = context.loaded
    if runtime.device == "webgpu":
        return _on_webgpu(runner, context.path)
    # of a table that nothing is added to, nothing is left to run
    is_empty = runner.optimized is not None and not runner.optimized.graph.node
    if not runner.nodes and not is_empty:
        return CheckResult(["ONNX Runtime does not say where nodes run: it must be 1.24 or newer"])
    found = placed(runner, context.path)
    measured = f"{found}; {NOT_RUN}" if not runtime.runs else str(found)
    if found.problems and not runtime.runs and not context.named and _is_of_others(context):
        # with --prove, which says nothing of CUDA: whoever runs a module of their own on the CPU has lost nothing
        return CheckResult((), measured, "; ".join(found.problems))
    if not found.all_by(context.manifest.not_on_cuda):
        return CheckResult(found.problems, measured)
    return CheckResult(
        (), measured, f"rows are computed on the CPU, as CUDA has no kernel: {_counted(found.operators)}"
    )


def _is_of_others(context: Context) -> bool:
    """Return whether a graph is that of a user's module, or of another program."""
    return bool(context.manifest.foreign) or not rules_of(context.manifest.family).registered


@dataclass(frozen=True)
class Placed:
    """Where the nodes of a graph run in a CUDA session.

    Args:
        on_cuda: Nodes on CUDA.
        sizes: Operators on the CPU that compute sizes, a few numbers each.
        rows: Operators and names of nodes on the CPU that compute more.
        unknown: The same where nobody knows how much they compute.
        copies: Values that are copied between host and device in each call, and hold a few numbers.
        large_copies: Values that are copied, and hold more, or nobody knows how much.
    """

    on_cuda: int
    sizes: tuple[str, ...]
    rows: tuple[str, ...]
    unknown: tuple[str, ...]
    copies: tuple[str, ...]
    large_copies: tuple[str, ...]

    @property
    def operators(self) -> list[str]:
        """The operators that compute rows on the CPU, or may do so: one for each node."""
        return [row.partition(" ")[0] for row in (*self.rows, *self.unknown)]

    def all_by(self, operators: Collection[str]) -> bool:
        """Return whether rows are computed on the CPU, and all of them by operators that are named."""
        return bool(self.rows) and not self.unknown and set(self.operators) <= set(operators)

    @property
    def problems(self) -> list[str]:
        """A line for each kind of thing that is wrong."""
        texts = {
            "on the CPU": self.rows,
            "on the CPU, size not known": self.unknown,
            "copied between CPU and GPU in each call": self.large_copies,
        }
        return [f"{text}: {', '.join(names)}" for text, names in texts.items() if names]

    def __str__(self) -> str:
        words = [f"{count_of('node', self.on_cuda)} on CUDA"]
        words += [f"{count_of('size computation', len(self.sizes))} on the CPU"]
        stray = len(self.rows) + len(self.unknown)
        words += [f"{count_of('other node', stray)} on the CPU"] if stray else []
        copies = len(self.copies) + len(self.large_copies)
        words += [f"{count_of('value', copies)} copied between them"] if copies else []
        return ", ".join(words)


def placed(runner: Runner, path: Path) -> Placed:
    """Judge where a CUDA session puts the nodes of a file."""
    model = read_onnx(path)
    models = [model, *([runner.optimized] if runner.optimized is not None else [])]
    outputs = {name: made for one in models for name, made in outputs_by_node(one).items()}
    copied = _copied(runner.optimized) if runner.optimized is not None else []
    on_cpu = [(op, name) for where, name, op in runner.nodes if where != CUDA and op not in COPIES]
    wanted = {value for _, name in on_cpu for value in outputs.get(name, ())}
    sizes = sizes_of(models, wanted | set(copied))
    by_size: dict[Size, list[tuple[str, str]]] = {"few": [], "many": [], "unknown": []}
    for op, name in on_cpu:
        by_size[worst([sizes[value] for value in outputs.get(name, ())])].append((op, name))
    return Placed(
        sum(where == CUDA and op not in COPIES for where, _, op in runner.nodes),
        tuple(op for op, _ in by_size["few"]),
        tuple(f"{op} {name}" for op, name in by_size["many"]),
        tuple(f"{op} {name}" for op, name in by_size["unknown"]),
        tuple(value for value in copied if sizes[value] == "few"),
        tuple(value for value in copied if sizes[value] != "few"),
    )


def _copied(optimized: onnx.ModelProto) -> list[str]:
    """Return the values that are copied between host and device; the copy's name is longer, by that of the provider."""
    copies = [node for graph in graphs_of(optimized.graph) for node in graph.node if node.op_type in COPIES]
    return [min(node.input[0], node.output[0], key=len) for node in copies]


def _on_webgpu(runner: Runner, path: Path) -> CheckResult:
    """Return how many nodes run on the GPU, which do not, and a note where those that do not compute rows.

    WebGPU has no float64 and no int64: what counts tokens and positions belongs to the CPU, with the Cast behind it.
    """
    left = [(name, op) for where, name, op in runner.nodes if where == CPU and op not in COPIES]
    there = [op for where, _, op in runner.nodes if where != CPU and op not in COPIES]
    count, total = len(there), len(there) + len(left)
    words = f"{'; '.join(runner.providers)}: {count} of {total} nodes on the GPU"
    counting = counting_nodes(path)
    rows = [op for name, op in left if name not in counting and op != "Cast"]
    note = f"rows are computed on the CPU, and copied to the GPU: {_counted(rows)}" if rows else ""
    return CheckResult((), f"{words}; on the CPU: {_counted([op for _, op in left])}" if left else words, note)


def _counted(operators: list[str]) -> str:
    """Return operators in words, each with the number of its nodes."""
    counts = Counter(op or "operators without a name" for op in operators)
    return ", ".join(f"{count} {op}" for op, count in counts.most_common())


@check(
    "io-binding",
    stage="runner",
    subjects=("ort-cuda", "torchscript-cuda", "pt2-cuda"),
    words=Words(
        code="PE111",
        asks="Does a call whose inputs and outputs lie in the device's memory give the same bits as from the host's?",
        failure="A program that keeps its tensors on the device gets other numbers than those that were proved",
        remedy="Call from host memory with this release, and report it: it is a bug of the runtime, or of this tool.",
        example="an output that is read before the device has finished",
    ),
)
def io_binding(context: Context) -> list[str]:
    """A call with inputs and outputs in the device's memory gives the bits that it gives from the host's."""
    runner, _ = context.loaded
    assert runner.bind is not None
    golden = next(one for one in read_golden(context.folder, context.manifest) if not one.case.refused)
    bound = runner.bind(golden.feeds)
    bound.run()
    on_device, from_host = bound.read(), runner.run(golden.feeds)
    differ = [name for name, array in from_host.items() if array.tobytes() != on_device[name].tobytes()]
    return [f"{', '.join(differ)} differs in {golden.case.name}"] if differ else []


def counting_nodes(path: Path) -> set[str]:
    """Return the nodes whose outputs are all integers and flags, of any size, or floats that are sizes."""
    import onnx

    model = read_onnx(path)
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = {v.name: v.type.tensor_type.elem_type for v in (*inferred.value_info, *inferred.output, *inferred.input)}
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
    nodes = outputs_by_node(model)
    in_question = {value for made in nodes.values() for value in made if values.get(value) in (None, *floats)}
    sizes = sizes_of([model], in_question)
    return {name for name, made in nodes.items() if all(sizes.get(value, "few") == "few" for value in made)}
