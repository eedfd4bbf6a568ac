"""torch.export of an encoding, with every named axis dynamic or an error."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from posenc.encoding import Encoding
from posenc.ports import Axis, Port
from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import ExportFailed, check_machine, first_line
from posenc_export.write.formats import Digests, WriteRequest, garbage_kept, quiet
from posenc_export.write.formats.assumptions import holds_anyway, way_out
from posenc_export.write.formats.calls import ModuleCalls, Sizes, calls_of
from posenc_export.write.formats.guards import Broken, broken_guards, guards_of, in_words, outside
from posenc_export.write.formats.hints import hint
from posenc_export.write.formats.ways import WAYS, Shapes, Way

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

CASES = 4
"""Sizes that break an assumption, of each assumption, at which every runtime is run."""
FINDINGS, GRAPH = "posenc", "graph"
"""The key of the findings in a program's meta data, and that of everything but constants among its digests."""


class UnsaidGuards(ExportFailed):
    """The installed torch hides what torch.export assumed of sizes: a user's module may hold for some only."""


class Range(Protocol):
    """What torch.export knows of a size: numbers of sympy, or their infinities."""

    lower: int
    upper: int


@dataclass(frozen=True)
class Findings:
    """What capturing showed.

    Attributes:
        notes: Lines for the report.
        sizes: Those of calls that break an assumption, which must be among the cases.
        way: The name of the way in which the module was captured.
    """

    notes: tuple[str, ...] = ()
    sizes: tuple[Sizes, ...] = ()
    way: str = ""


def findings(program: object) -> Findings:
    """Return what was found while a program was captured; nothing if it is not a program of torch.export."""
    graph_module = getattr(program, "graph_module", None)
    value = getattr(graph_module, "meta", {}).get(FINDINGS) or getattr(program, "findings", None)
    return value if isinstance(value, Findings) else Findings()


def capture(encoding: Encoding, rewrite: Callable[[nn.Module], nn.Module], request: WriteRequest) -> ExportedProgram:
    """Run torch.export on an encoding's module, every named axis dynamic: a user's in the first way that is right.

    Args:
        encoding: The encoding.
        rewrite: Changes a copy of the module for an exporter.
        request: What to trace with, and up to which length the program must hold.

    Raises ExportFailed where every program, or a range of it, went static, with the reason of the first.
    """
    first, *others = WAYS
    rules, calls = rules_of(encoding.family), calls_of(encoding)
    try:
        return _captured(first, rewrite(encoding.module), calls, request, rules.may_branch)
    except ExportFailed as error:
        # each way gets a copy of its own: a failed capture may leave traces in the module
        for way in others if rules.tries_other_ways else ():
            with suppress(ExportFailed):
                program = _captured(way, rewrite(calls.fresh()), calls, request, rules.may_branch)
                note = f"captured by {way.name}; in the usual way, {error.message}"
                return with_findings(program, Findings((note,), ()))
        raise


def _captured(
    way: Way, module: nn.Module, calls: ModuleCalls, request: WriteRequest, may_branch: bool
) -> ExportedProgram:
    """Return the program of a module, with what is assumed of sizes among its findings."""
    with quiet(), garbage_kept():
        try:
            program = way.capture(module, way.inputs(request), _shapes(module, calls.inputs))
        except Exception as error:
            check_machine(error)
            reason = f"{_in_axes(explain_capture(error), module, calls.inputs)}{hint(error)}"
            raise ExportFailed(f"torch.export refused the module: {reason}") from error
    if may_branch:
        _check_guards_are_said(program)
    assumed = []
    for broken, words in _assumptions(program, module, calls, request.max_len):
        # of ours, no assumption beyond the axes is acceptable; a user's module is run on the other side
        if not may_branch or not holds_anyway(program, calls, request, broken):
            raise ExportFailed(f"{words}{way_out(program, calls, request, broken) if may_branch else ''}")
        assumed.append(broken)
    sizes = tuple(sizes for broken in assumed for sizes in broken.tried[:CASES])
    return with_findings(program, Findings(tuple(map(_note, assumed)), sizes, way.name))


def _note(broken: Broken) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in broken.sizes.items())
    return (
        f"torch.export assumed {broken.words}; at {len(broken.tried)} sizes that break it ({sizes} is one) the graph "
        "gives what the module gives"
    )


def with_findings(program: ExportedProgram, more: Findings) -> ExportedProgram:
    """Return a program with more findings, in place."""
    known = findings(program)
    program.graph_module.meta[FINDINGS] = Findings(
        (*more.notes, *known.notes), (*more.sizes, *known.sizes), more.way or known.way
    )
    return program


def _shapes(module: nn.Module, ports: Sequence[Port]) -> Shapes:
    """Return the dynamic axes of each argument, by its name; of `*args`, those of all."""
    import torch

    dynamic = torch.export.Dim.DYNAMIC
    shapes = [dict.fromkeys(port.dynamic, dynamic) for port in ports]
    # torch.export takes {argument: {axis: Dim.DYNAMIC}}; None where nothing goes in
    return inspect.signature(module.forward).bind(*shapes).arguments or None


def _check_guards_are_said(program: ExportedProgram) -> None:
    import torch

    if not hasattr(program, "_guards_code"):
        raise UnsaidGuards(
            f"torch {torch.__version__} does not say what torch.export assumed of sizes: a module of your own may hold "
            "for some lengths only; use torch 2.13"
        )


def _assumptions(
    program: ExportedProgram, module: nn.Module, calls: ModuleCalls, max_len: int
) -> Iterator[tuple[Broken, str]]:
    """Yield what torch.export assumed of sizes and the declared axes do not imply, each with its words."""
    for axis, bounds in _ranges(program, calls.inputs):
        if bounds.upper < max_len:
            last = int(bounds.upper)
            yield (
                replace(outside(calls, axis.name, last + 1, max_len), words=f"{axis.name} <= {last}"),
                f"torch.export keeps the graph to {axis.name} <= {last}, but it must hold up to {max_len}: "
                f"the module branches on the length, or --max-len asks for more than it has",
            )
        # a length of one token, or of one patch, is tried in any case
        if bounds.lower > max(2 * axis.multiple * len(axis.terms), axis.least):
            broken = outside(calls, axis.name, axis.least, int(bounds.lower) - 1)
            yield (
                replace(broken, words=f"{axis.name} >= {bounds.lower}"),
                (f"torch.export keeps the graph to {axis.name} >= {bounds.lower}: the module branches on the length"),
            )
    for broken in broken_guards(program, module, calls, max_len):
        yield broken, str(broken)


def program_digests(program: ExportedProgram) -> Digests:
    """Return what must be the same of two captures: the graph, what it assumes of sizes, every tensor in it."""
    texts = (program.graph, program.graph_signature, program.range_constraints, *guards_of(program))
    return {GRAPH: "\n".join(map(str, texts)).encode(), **tensor_digests(program.state_dict | program.constants)}


def tensor_digests(tensors: Mapping[str, object]) -> Digests:
    """Return a digest of each tensor's dtype, shape and bytes; of anything else, of its text."""
    import torch

    digests = {}
    for name, value in tensors.items():
        digest = hashlib.sha256()
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            # bytes as they lie in memory: no copy of a large table
            digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(str(value).encode())
        digests[name] = digest.digest()
    return digests


def explain_capture(error: Exception) -> str:
    """Return the part of a torch.export error that says what happened."""
    text = str(error)
    number = re.search(r"You marked (.*?) as dynamic but your code specialized it to be a constant \((\d+)\)", text)
    if number:
        name, size = number.groups()
        return f"its code makes a plain number of axis '{name}', {size} here, as int(), math, numpy and linspace do"
    marked = re.search(r"(You marked .*? as dynamic but .*?)(?:\.|\n)", text)
    specialised = re.search(r"- (.*?specialized.*?)\n", text)
    reason = marked or specialised
    return reason.group(1) if reason else first_line(error)


def _in_axes(text: str, module: nn.Module, ports: tuple[Port, ...]) -> str:
    """Return a text of torch with the names of axes in the place of `L['x'].size()[1]`."""
    return in_words(text, module, ports) if "L[" in text else text


def _ranges(program: ExportedProgram, ports: Sequence[Port]) -> Iterator[tuple[Axis, Range]]:
    """Yield the lengths that torch.export keeps to a range, without a word; refuse those that it made static."""
    metas = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    # parameters and buffers are placeholders, too, before the inputs
    for port, value in zip(ports, metas[len(metas) - len(ports) :], strict=True):
        for index, axis in port.dynamic.items():
            # a static axis is a number, a dynamic one a SymInt
            size = value.shape[index]
            if isinstance(size, int):
                raise ExportFailed(f"torch.export made axis {axis.name!r} of {port.name} static, at {size}")
            bounds = program.range_constraints.get(size.node.expr)
            if axis.is_length and bounds is not None:
                yield axis, bounds
