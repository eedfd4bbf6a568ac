"""The successors of TorchScript: programs of torch.export (.pt2), and AOTInductor packages compiled from them.

AOTInductor compiles without contraction and gives the eager bits for every scheme. Its packages check neither lengths
nor indices by default: they read memory beyond a table, and an index out of range ends the process from inside a
parallel loop. So assertions are put into the program before it is compiled: on every axis with an upper bound, and
before every look-up (embedding, index, index_select, gather), whose index is then clamped as well.
"""

from __future__ import annotations

import operator
import platform
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import ExportFailed, ToolFailed, check_machine, first_line
from posenc_export.write.formats import WriteRequest, quiet, write_saved
from posenc_export.write.formats.aoti_package import compiler_settings
from posenc_export.write.formats.archives import ARCHIVE
from posenc_export.write.formats.assumptions import drop_unneeded_guards, loosen, short_calls
from posenc_export.write.formats.calls import calls_of
from posenc_export.write.formats.capture import Findings, capture, findings, program_digests, with_findings

if TYPE_CHECKING:
    import torch
    from torch import fx

    from posenc.encoding import Encoding

PT2, AOTI = "model.pt2", "model_aoti.pt2"


def capture_program(encoding: Encoding, request: WriteRequest) -> torch.export.ExportedProgram:
    """Return the program of an encoding, without guards that refuse valid calls."""
    program = capture(encoding, lambda module: module, request)
    if rules_of(encoding.family).may_branch:
        module, calls = encoding.module, calls_of(encoding)
        sizes = (*findings(program).sizes, *short_calls(program, module, calls, request))
        loosen(program, module, calls, sizes)
    else:
        drop_unneeded_guards(program, encoding.module, calls_of(encoding), request)
    return program


@ARCHIVE("pt2", file=PT2, capture=capture_program, digests=program_digests)
def write_pt2(program: torch.export.ExportedProgram, request: WriteRequest, path: Path) -> None:
    """A program of torch.export, for PyTorch."""
    import torch

    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    with quiet():
        write_saved(partial(torch.export.save, program), path)


def capture_package(encoding: Encoding, request: WriteRequest) -> torch.export.ExportedProgram:
    """Return the program of an encoding, with a note on the CPUs that its package will run on."""
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    with config.patch(compiler_settings(request.cpu_isa)):
        # INVALID_VEC_ISA stands for no vectors at all
        isa = str(pick_vec_isa()).replace("INVALID_VEC_ISA", "").split()
    cpus = f"CPUs with {' and '.join(isa)}" if isa else f"every {platform.machine()} CPU"
    note = f"{AOTI} runs on {cpus}"
    return with_findings(capture_program(encoding, request), Findings((note,)))


@ARCHIVE("aoti", file=AOTI, capture=capture_package, digests=program_digests, note="compiles C++, for a minute or so")
def write_aoti(program: torch.export.ExportedProgram, request: WriteRequest, path: Path) -> None:
    """An AOTInductor package, compiled for the CPU of this machine, for PyTorch and libtorch; takes a C++ compiler."""
    import torch

    guard(program)
    settings = compiler_settings(request.cpu_isa)
    with quiet():
        try:
            torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=settings)
        except UnicodeError as error:  # it reads its own sources as the locale says
            locale = "set LC_ALL=C.UTF-8, or PYTHONUTF8=1"
            raise ToolFailed(f"AOTInductor cannot work in this locale ({first_line(error)}): {locale}") from error
        except Exception as error:
            check_machine(error)
            raise ExportFailed(f"AOTInductor could not compile the module: {first_line(error)}") from error


def guard(program: torch.export.ExportedProgram) -> None:
    """Have a program refuse, before anything else, lengths beyond its range and indices beyond its tables, in place."""
    import torch

    graph = program.graph_module.graph
    for node in list(graph.nodes):
        for place, axis, lowest in _look_ups(node):
            _guard_index(graph, node, place, (axis, lowest))
    # assertions on lengths come right behind the inputs, before anything reads them
    last = [node for node in graph.nodes if node.op == "placeholder"][-1:]
    for placeholder in (node for node in graph.nodes if node.op == "placeholder"):
        value = placeholder.meta.get("val")
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            # torch.export's own upper bound is an infinity where it knows none
            bounds = None if isinstance(size, int) else program.range_constraints.get(size.node.expr)
            if bounds is not None and bounds.upper < 2**31:
                _guard_length(graph, last[0], (placeholder, axis), int(bounds.upper))
    graph.lint()
    program.graph_module.recompile()


def _look_ups(node: fx.Node) -> Iterator[tuple[tuple[int, ...], int, bool]]:
    """Yield each index of a look-up: its place among the arguments, its axis, whether negative ones are allowed."""
    import torch

    aten = torch.ops.aten
    if node.target is aten.embedding.default:
        yield (1,), 0, False
    elif node.target in (aten.index_select.default, aten.gather.default):
        yield (2,), _integer(node.args[1]), False
    elif node.target is aten.index.Tensor:
        for axis, index in enumerate(node.args[1]):  # type: ignore[arg-type]
            if isinstance(index, torch.fx.Node) and index.meta["val"].dtype in (torch.int64, torch.int32):
                yield (1, axis), axis, True


def _guard_index(graph: fx.Graph, look_up: fx.Node, place: tuple[int, ...], rows_of: tuple[int, bool]) -> None:
    """Assert that the indices of a look-up are rows of its table, and clamp them."""
    import torch

    aten = torch.ops.aten
    table, (axis, from_the_end) = look_up.args[0], rows_of
    index = look_up.args[place[0]] if len(place) == 1 else look_up.args[place[0]][place[1]]  # type: ignore[index]
    assert isinstance(table, torch.fx.Node)
    assert isinstance(index, torch.fx.Node)
    # in eager, -rows..rows-1 are rows of index, 0..rows-1 those of the other look-ups
    with graph.inserting_before(look_up):
        rows: Any = table.meta["val"].shape[axis]
        if not isinstance(rows, int):
            size, rows = rows, graph.call_function(aten.sym_size.int, (table, axis))
            rows.meta["val"] = size
        lowest = (-rows if isinstance(rows, int) else _add(graph, operator.neg, rows)) if from_the_end else 0
        # lowest <= index < rows, for every index
        above, below = _add(graph, aten.ge.Scalar, index, lowest), _add(graph, aten.lt.Scalar, index, rows)
        inside = _add(graph, aten.all.default, _add(graph, aten.logical_and.default, above, below))
        _add(graph, aten._assert_async.msg, inside, "a position is out of range: a table has not as many rows")
        if isinstance(rows, int):
            # wherever the compiler puts the assertion, no index may leave the table
            clamped = _add(graph, aten.clamp.default, index, lowest, rows - 1)
            look_up.replace_input_with(index, clamped)


def _integer(value: Any) -> int:
    assert isinstance(value, int)
    return value


def _guard_length(graph: fx.Graph, after: fx.Node, axis: tuple[fx.Node, int], upper: int) -> None:
    """Assert that an axis of an input is no longer than the program's range."""
    import torch

    aten = torch.ops.aten
    with graph.inserting_before(after.next):
        size = graph.call_function(aten.sym_size.int, axis)
        size.meta["val"] = axis[0].meta["val"].shape[axis[1]]
        fits = _add(graph, aten.le.Scalar, _add(graph, aten.scalar_tensor.default, size), upper)
        _add(graph, aten._assert_async.msg, fits, f"a length is out of range: expected at most {upper}")


def _add(graph: fx.Graph, op: Any, *args: Any) -> fx.Node:
    """Add a call to a graph, with the fake value that compilation goes by."""
    import torch

    node = graph.call_function(op, args)
    # the compiler goes by the fake value in meta["val"]: compute it as tracing would
    fakes = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
    mode = torch._guards.detect_fake_mode([n.meta.get("val") for n in graph.nodes])
    assert mode is not None
    with mode:
        node.meta["val"] = op(*fakes)
    return node
