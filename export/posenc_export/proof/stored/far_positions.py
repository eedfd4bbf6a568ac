"""An ONNX file at positions far out: it is cut where it makes positions, and run with positions that begin elsewhere.

The operators that count in the graph, Range or CumSum, get a start. A few calls of two blocks, behind as many tokens
as have stored rows where only the others are counted, are then compared with the module that takes positions as an
input, with its bits and its float64 reference; without such a module, with the bits of the same module whose sources
begin there. One more call reaches the end, and must be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Feeds, Port, Positions, Start, axes_of, carrying, counted_from, fixed
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import call_on_arrays
from posenc_export.common.errors import check_machine, first_line
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.judging.context import Context
from posenc_export.proof.runtimes import RunFailed, Runner, TimedOut
from posenc_export.proof.runtimes.onnx_runtime import part_runner
from posenc_export.proof.stored.rebuilding import explicit_sibling
from posenc_export.write.formats.onnx.cutting import counts, from_elsewhere, start_input
from posenc_export.write.targets.feeds import feeds_for

if TYPE_CHECKING:
    from onnx import ModelProto

BLOCKS, FEW = 2, 5
"""Blocks of a call, and places along the other axes of a grid."""
STARTS = (1, 511, 512, 1023, 4096, 2**14 + 37, 2**17 + 511)
"""Blocks at which calls begin, at edges of digits and elsewhere; one more begins two blocks before the end."""
Outputs = Mapping[str, Array]


@dataclass(frozen=True)
class FarResult:
    """The result far out: what is wrong, and what was tried, in words."""

    problems: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowDigits:
    """The digits that compose the rows of an encoding.

    Args:
        block: Positions of a block.
        stored: The first positions, whose rows are stored.
        names: The module's tensors of all digits.
        by_block: Those among them that the number of a block looks up.
    """

    block: int
    stored: int
    names: frozenset[str]
    by_block: frozenset[str]


@dataclass(frozen=True)
class Cut:
    """A graph whose positions begin elsewhere, and the encodings that it is compared with.

    Args:
        runner: The loaded graph.
        steps: By the name of an input that gives a start, how many positions one step of it is.
        stored: Tokens of each call, the first ones, that stay where they are.
        encoding: The encoding of the file.
        sibling: The same encoding with positions as an input; if there is none, the encoding itself begins elsewhere.
        integers: The dtype of starts.
    """

    runner: Runner
    steps: Mapping[str, int]
    stored: int
    encoding: Encoding
    sibling: Encoding | None
    integers: str


@dataclass(frozen=True)
class CutCall:
    """A call of a cut graph.

    Args:
        case: The case, whose positions begin at `case.first` of the graph's own count.
        feeds: The inputs of the file itself.
        starts: The inputs that give a start.
    """

    case: Case
    feeds: Feeds
    starts: Feeds


def far_out(context: Context, model: ModelProto, encoding: Encoding, twins: Mapping[str, str]) -> FarResult:
    """Run a file at positions far out; files that take positions as an input have no need of this.

    Args:
        context: The file.
        model: Its graph.
        encoding: The encoding, made again.
        twins: By a stored tensor's name, the name of the module's tensor that it was written from.
    """
    digits = _digits(encoding)
    if digits is None or encoding.positions in (None, "explicit"):
        return FarResult()
    sibling = explicit_sibling(context.manifest, encoding)
    starts = {port.name: 1 for port in carrying(encoding.inputs, Start)}
    integers = context.manifest.index_dtype
    # a file that takes a start needs no cut
    steps = {} if starts else _steps(model, digits, twins, sibling is not None)
    if not steps and not starts:
        return FarResult(("nothing in its graph counts positions",)) if sibling else FarResult()
    cut, names = from_elsewhere(model, list(steps), integers) if steps else (model, ())
    inputs = (*encoding.inputs, *(Port(name, (fixed(1),), integers, Start()) for name in names))
    try:
        runner = replace(part_runner(cut, context.path.parent, inputs), limit=context.timeout)
    except Exception as error:
        check_machine(error)
        return FarResult((), (f"not run far out: {first_line(error)}",))
    by_input = starts or dict(zip(names, steps.values(), strict=True))
    stored = digits.stored if digits.block in steps.values() else 0
    return _tried(context, Cut(runner, by_input, stored, encoding, sibling, integers), digits.block)


def _digits(encoding: Encoding) -> RowDigits | None:
    from posenc.sincos.elsewhere import digits_of  # torch takes a second to load

    parts = digits_of(encoding.module)
    places = {place: f"{place}." if place else "" for place in parts}
    names = (places[place] + name for place, part in parts.items() for name, _ in part.named_buffers())
    by_block = (places[place] + name for place, part in parts.items() for name in part.by_block)
    if not parts:
        return None
    block, stored = (
        max(sizes) for sizes in zip(*((part.block, part.table_rows) for part in parts.values()), strict=True)
    )
    return RowDigits(block, stored, frozenset(names), frozenset(by_block))


def _steps(model: ModelProto, digits: RowDigits, twins: Mapping[str, str], all_counts: bool) -> dict[str, int]:
    """Return the values of a graph that count positions, and how many positions one step of each is.

    A value that looks up nothing but the digits of a block's number counts blocks. With `all_counts`, values that look
    up no digits count positions, too, such as those that are compared with the position of padding.
    """
    steps = {}
    for count in counts(model.graph):
        looked_up = {twins.get(table, "") for table in count.tables} & digits.names
        if looked_up or all_counts:
            steps[count.value] = digits.block if looked_up and looked_up <= digits.by_block else 1
    return steps


def _tried(context: Context, cut: Cut, block: int) -> FarResult:
    """Compare calls at all starts below the end, and demand an error at the end; stop at the first problem."""
    end, offset, tokens = cut.encoding.end, counted_from(cut.encoding.inputs) or 0, cut.stored + BLOCKS * block
    if end is None or end < 2 * tokens:
        return FarResult()
    # the last call of whole blocks below the end
    last = (end - offset - cut.stored) // block - BLOCKS
    starts = [number * block for number in (*(number for number in STARTS if number < last), last)]
    for start in starts:
        problem = _problem(context, cut, _call(cut, start, tokens))
        if problem:
            return FarResult((f"where its positions begin at {start:,}: {problem}",))
    last_position = offset + starts[-1] + tokens - 1
    # the largest position of this call is the end itself
    start = (last + 1) * block
    answer = _answered(cut, _call(cut, start, end - offset + 1 - start))
    if answer:
        return FarResult((f"position {end:,}, where it must end: {answer}",))
    return FarResult((), (f"positions up to {last_position:,} in {len(starts)} short calls, position {end:,} refused",))


def _call(cut: Cut, start: int, tokens: int) -> CutCall:
    """Return a call of so many tokens whose positions are larger by `start` than the file counts them."""
    first = start + (counted_from(cut.encoding.inputs) or 0)
    case = Case(f"at{first}", _sizes(cut.encoding, tokens), start, first + tokens - 1, padding="none")
    feeds = feeds_for(cut.encoding.inputs, replace(case, first=0), 0)
    return CutCall(case, feeds, {name: start_input(start // step, cut.integers) for name, step in cut.steps.items()})


def _answered(cut: Cut, call: CutCall) -> str:
    """Return what is wrong with a call that reaches the end (an answer, or nothing in time), or nothing."""
    try:
        cut.runner.run({**call.feeds, **call.starts})
    except RunFailed:
        return ""
    except TimedOut as late:
        return str(late)
    return "gave an answer, expected an error"


def _problem(context: Context, cut: Cut, call: CutCall) -> str:
    """Return what is wrong with a call whose positions are all below the end, or nothing."""
    try:
        produced = cut.runner.run({**call.feeds, **call.starts})
    except (RunFailed, TimedOut) as failure:
        return str(failure)
    eager, reference = _expected(cut, call)
    source = cut.sibling or cut.encoding
    of_eager = source.eager_tolerance(call.case).plus(context.artifact.eager_tolerance)
    for against, outputs, tolerance in (
        ("eager", eager, of_eager),
        ("float64", reference, source.tolerance(call.case)),
    ):
        for port in source.outputs:
            if port.name not in outputs:
                continue
            # with a sibling, the first tokens have other positions there
            behind = _behind(port, cut.stored if cut.sibling else 0)
            judgement = judge(measure(produced[port.name][behind], outputs[port.name][behind]), tolerance)
            if not judgement.passed:
                return f"{port.name} against {against}: {judgement.reason}"
    return ""


def _behind(port: Port, tokens: int) -> tuple[slice, ...]:
    """Return what picks the tokens of an output behind the first ones."""
    return tuple(slice(tokens if axis in port.lengths else 0, None) for axis in range(len(port.axes)))


def _sizes(encoding: Encoding, tokens: int) -> dict[str, int]:
    """Return the sizes of a call: all lengths are `tokens`, but of a grid one axis alone."""
    sizes: dict[str, int] = {}
    for axis in axes_of(encoding.inputs):
        many = axis.kind == "length" or (axis.kind == "grid" and tokens not in sizes.values())
        sizes[axis.name] = axis.allowed(tokens if many else FEW if axis.kind == "grid" else 1)
    return sizes


def _expected(cut: Cut, call: CutCall) -> tuple[Outputs, Outputs]:
    """Return the outputs of the eager module, and of the reference where there is a sibling."""
    from posenc.sincos.elsewhere import begun_at

    names, feeds = [port.name for port in cut.encoding.outputs], call.feeds
    if cut.sibling is None:
        # a grid, or rows of distances: no float64 reference takes a start
        with begun_at(cut.encoding.module, call.case.first):
            outputs = call_on_arrays(cut.encoding.module, [feeds[port.name] for port in cut.encoding.inputs])
        return dict(zip(names, outputs, strict=True)), {}
    tokens = max(feeds[port.name].shape[i] for port in cut.encoding.inputs for i in port.lengths)
    first = call.case.first + (counted_from(cut.encoding.inputs) or 0)
    fed = {port.name: _fed(port, feeds, first, tokens) for port in cut.sibling.inputs}
    outputs = call_on_arrays(cut.sibling.module, [fed[port.name] for port in cut.sibling.inputs])
    reference = cut.sibling.reference(fed, None)
    return dict(zip(names, outputs, strict=True)), {k: np.asarray(v, np.float64) for k, v in reference.items()}


def _fed(port: Port, feeds: Feeds, first: int, tokens: int) -> Array:
    """Return what an input of the sibling is fed: the same, or the positions."""
    if not isinstance(port.carries, Positions):
        return feeds[port.name]
    return first + np.arange(tokens, dtype=np.int64)[None, :]
