"""torch.export of an encoding, with every named axis dynamic or an error."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from posenc.encoding import Encoding
from posenc.ports import Axis
from posenc_export.bundle.rules import rules_of
from posenc_export.errors import ExportFailed, check_machine, first_line
from posenc_export.formats import Digests, Request, quiet
from posenc_export.formats.assumptions import holds_anyway
from posenc_export.formats.guards import Broken, broken_guards, in_words, outside
from posenc_export.formats.hints import hint
from posenc_export.formats.ways import WAYS, Shapes, Way

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

CASES = 4
"""Sizes that break an assumption, of each, at which every runtime is run."""


FINDINGS, GRAPH = "posenc", "graph"
"""The key under which a program's meta data hold what was found of it; among digests, that of all but its constants."""


class UnsaidGuards(ExportFailed):
    """A torch that does not say what torch.export assumed of sizes: it must not do for a user's module."""


class Range(Protocol):
    """What torch.export knows of a size: numbers of sympy, or their infinities."""

    lower: int
    upper: int


@dataclass(frozen=True)
class Findings:
    """What capturing showed: notes for the report, sizes that break an assumption, to be among the cases; the way."""

    notes: tuple[str, ...] = ()
    sizes: tuple[Mapping[str, int], ...] = ()
    way: str = ""


def findings(program: object) -> Findings:
    """Return what was found while a program was captured; nothing of what is no program of torch.export."""
    graph_module = getattr(program, "graph_module", None)
    value = getattr(graph_module, "meta", {}).get(FINDINGS) or getattr(program, "findings", None)
    return value if isinstance(value, Findings) else Findings()


def capture(encoding: Encoding, rewrite: Callable[[nn.Module], nn.Module], request: Request) -> ExportedProgram:
    """Run torch.export on an encoding's module, every named axis dynamic: a user's in the first way that is right.

    rewrite: what an exporter needs otherwise, on a copy. Raises ExportFailed where every program, or a range of it,
    went static, with the reason of the first.
    """
    first, *others = WAYS
    try:
        return _captured(first, encoding, rewrite, request)
    except ExportFailed as error:
        for way in others if rules_of(encoding).tries_other_ways else ():
            with suppress(ExportFailed):
                program = _captured(way, encoding.uncalled(), rewrite, request)
                note = f"captured by {way.name}; in the usual way, {error.message}"
                return with_findings(program, Findings((note,), ()))
        raise


def _captured(
    way: Way, encoding: Encoding, rewrite: Callable[[nn.Module], nn.Module], request: Request
) -> ExportedProgram:
    module = rewrite(encoding.module)
    with quiet():
        try:
            program = way.capture(module, way.inputs(request), _shapes(module, encoding))
        except Exception as error:
            check_machine(error)
            reason = f"{_in_axes(explain_capture(error), module, encoding)}{hint(error)}"
            raise ExportFailed(f"torch.export refused the module: {reason}") from error
    _check_guards_are_said(program, encoding)
    assumed = []
    for broken, words in _assumptions(program, module, encoding, request.max_len):
        if not rules_of(encoding).may_branch or not holds_anyway(program, encoding, request, broken):
            raise ExportFailed(words)
        assumed.append(broken)
    notes = tuple(map(_note, assumed))
    sizes = tuple(sizes for one in assumed for sizes in one.tried[:CASES])
    return with_findings(program, Findings(notes, sizes, way.name))


def _note(broken: Broken) -> str:
    sizes = ", ".join(f"{name}={size}" for name, size in broken.sizes.items())
    return (
        f"torch.export assumed {broken.words}; at {len(broken.tried)} sizes that break it ({sizes} is one) the graph "
        "gives what the module gives"
    )


def with_findings(program: ExportedProgram, more: Findings) -> ExportedProgram:
    """Return a program of which more was found."""
    known = findings(program)
    program.graph_module.meta[FINDINGS] = Findings(
        (*more.notes, *known.notes), (*more.sizes, *known.sizes), more.way or known.way
    )
    return program


def _shapes(module: nn.Module, encoding: Encoding) -> Shapes:
    """Return the dynamic axes of each argument, by its name; of `*args`, those of all."""
    import torch

    dynamic = torch.export.Dim.DYNAMIC
    shapes = [dict.fromkeys(port.dynamic, dynamic) for port in encoding.inputs]
    return inspect.signature(module.forward).bind(*shapes).arguments or None


def _check_guards_are_said(program: ExportedProgram, encoding: Encoding) -> None:
    import torch

    if rules_of(encoding).may_branch and not hasattr(program, "_guards_code"):
        raise UnsaidGuards(
            f"torch {torch.__version__} does not say what torch.export assumed of sizes: a module of your own may hold "
            "for some lengths only; use torch 2.13"
        )


def _assumptions(
    program: ExportedProgram, module: nn.Module, encoding: Encoding, max_len: int
) -> Iterator[tuple[Broken, str]]:
    """Yield what torch.export assumed of sizes and the declared axes do not imply, each with its words."""
    for axis, bounds in _ranges(program, encoding):
        if bounds.upper < max_len:
            most = int(bounds.upper)
            broken = outside(encoding, axis.name, most + 1, max_len)
            yield (
                replace(broken, words=f"{axis.name} <= {most}"),
                f"torch.export keeps the graph to {axis.name} <= {most}, but it must hold up to {max_len}: "
                f"the module branches on the length, or --max-len asks for more than it has",
            )
        if bounds.lower > max(2 * axis.multiple * len(axis.terms), axis.least):  # one of something is tried anyway
            broken = outside(encoding, axis.name, axis.least, int(bounds.lower) - 1)
            yield (
                replace(broken, words=f"{axis.name} >= {bounds.lower}"),
                (f"torch.export keeps the graph to {axis.name} >= {bounds.lower}: the module branches on the length"),
            )
    for broken in broken_guards(program, module, encoding, max_len):
        yield broken, str(broken)


def program_digests(program: ExportedProgram) -> Digests:
    """Return what must be the same of two captures: the graph, what it assumes of sizes, every tensor in it."""
    guards = getattr(program, "_guards_code", None) or ()
    texts = (program.graph, program.graph_signature, program.range_constraints, *guards)
    return {GRAPH: "\n".join(map(str, texts)).encode(), **tensor_digests(program.state_dict | program.constants)}


def tensor_digests(tensors: Mapping[str, object]) -> Digests:
    """Return a digest of each tensor's dtype, shape and bytes; what is no tensor has that of its text."""
    import torch

    digests = {}
    for name, value in tensors.items():
        digest = hashlib.sha256()
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
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


def _in_axes(text: str, module: nn.Module, encoding: Encoding) -> str:
    """Return a text of torch with the names of axes in the place of `L['x'].size()[1]`."""
    return in_words(text, module, encoding.inputs) if "L[" in text else text


def _ranges(program: ExportedProgram, encoding: Encoding) -> Iterator[tuple[Axis, Range]]:
    """Yield the lengths that torch.export keeps to a range, without a word; refuse those that it made static."""
    metas = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    metas = metas[len(metas) - len(encoding.inputs) :]
    for port, value in zip(encoding.inputs, metas, strict=True):
        for index, axis in port.dynamic.items():
            size = value.shape[index]
            if isinstance(size, int):
                raise ExportFailed(f"torch.export made axis {axis.name!r} of {port.name} static, at {size}")
            bounds = program.range_constraints.get(size.node.expr)
            if axis.is_length and bounds is not None:
                yield axis, bounds
