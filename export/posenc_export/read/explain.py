"""What is seen at a node, which formulas were asked about it, and how near each came: `--explain`.

node_add: Add of scores float32[1, 6, 24, 24] (data) and bias float32[1, 6, 24, 24] (made by weights of positions)
bias: numbers that are added to scores, float32 (heads, queries, keys) = (6, 24, 24), 0.0391 to 1.87
  fit         guesses  nearest        off by  allowed
  alibi             0  none
  swin_cpb          4  swin_cpb ...   0.83    4.6e-07
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from posenc.formulas.fitting import KINDS, Answer, Asked, Observation
from posenc_export.read.graph import Graph
from posenc_export.read.inspection import AskedFit, Explained, Observed
from posenc_export.read.interpret.networks import of_network, opened
from posenc_export.read.interpret.state import is_data, shape_of
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.trails import dtype_name, numbers_of
from posenc_export.read.recognise.unrecognised import nodes_before
from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run, Unknown, Value

NEAR = 3
"""Names that are near one that the file has not."""
FEW = 6
"""Numbers of an observation, and values of a parameter, that are shown."""
FARTHEST = 2000
"""Nodes that are gone on from a node."""
CLOSE = 24
"""Nodes that are gone back from data to those in which positions met them."""
STORED = 24
"""Stored tensors that are listed."""


@dataclass(frozen=True)
class Reading:
    """What was read of a graph.

    Args:
        graph: the graph.
        run: its interpretation.
        named: the encodings there.
        asked: all that fits were asked meanwhile.
    """

    graph: Graph
    run: Run
    named: Sequence[Named]
    asked: Sequence[Asked]


def explain(reading: Reading, names: Iterable[str]) -> Iterator[Explained]:
    """Yield what is seen at nodes.

    Args:
        reading: what was read of the graph.
        names: of nodes, or of values that nodes give.

    Raises ValueError, in one line, for a name that the graph has not.
    """
    flow = Flow(reading.run)
    for name in names:
        node = _node(reading, name)
        if node is None:
            yield Explained(name, "", (), _unreached(reading, name), ())
            continue
        where, asked = _asked_at(reading, flow, node)
        words = _named_words(reading.named, node) or (where if asked else _why_nothing(reading, flow, node))
        operands = tuple(_operand(o) for o in node.operands if o is not None and (o.tensor or len(node.operands) < 2))
        yield Explained(name, node.op_type, operands, words, tuple(_observed(reading.run, asked)))


def _node(reading: Reading, name: str) -> Meeting | None:
    """Return the node of a name, or that gives a value of that name; None where the run did not come to it."""
    nodes = reading.run.nodes
    found = next((node for node in nodes if node.node == name), None)
    found = found or next((node for node in reversed(nodes) if name in node.outputs), None)
    # what comes in, or is stored, is explained where it is taken first
    found = found or next((node for node in nodes if any(o and o.tensor == name for o in node.operands)), None)
    if found is not None:
        return found
    known = dict.fromkeys((*_names(reading.graph), *(node.node for node in nodes), *reading.run.values))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=NEAR, cutoff=0.4)
        words = f"near ones are {', '.join(near)}" if near else "none is near"
        raise ValueError(f"--explain: no node, and no value, of the file is called {name!r}: {words}")
    return None


def _names(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        yield node.name
        yield from node.outputs


def _unreached(reading: Reading, name: str) -> str:
    if reading.run.stopped is not None:
        return f"reading stopped before it, at {reading.run.stopped[1]}: {reading.run.stopped[0]}"
    return "no node takes it, or none that gives one of the outputs does"


def _asked_at(reading: Reading, flow: Flow, node: Meeting) -> tuple[str, list[Asked]]:
    """Return what was asked about the values at a node; else about those behind it, or ahead, and where that is."""
    own = {o.tensor for o in node.operands if o is not None} | set(node.outputs)
    asked = _of_tensors(reading.asked, own)
    if asked:
        return "", asked
    behind = [o for o in node.operands if o is not None and not (is_data(o.value) and not of_network(o))]
    for operand in behind:
        for before in nodes_before(reading.run, operand.tensor, lambda value: not is_data(value)):
            asked = _of_tensors(reading.asked, before.outputs)
            if asked:
                return f"asked about what {before.node} gives, of which this is made", asked
    for after in _nodes_after(flow, node):
        asked = _of_tensors(reading.asked, after.outputs)
        if asked:
            return f"asked about what {after.node} makes of it", asked
    for operand in (o for o in node.operands if o is not None and is_data(o.value)):
        for before in islice(nodes_before(reading.run, operand.tensor, lambda value: True), CLOSE):
            own = {o.tensor for o in before.operands if o is not None and not (is_data(o.value) and not of_network(o))}
            asked = _of_tensors(reading.asked, own)
            if asked:
                return f"data alone come in here; asked about what met them before, at {before.node}", asked
    return "", []


def _of_tensors(asked: Sequence[Asked], tensors: Iterable[str]) -> list[Asked]:
    names = {tensor for tensor in tensors if tensor}
    return [one for one in asked if names & one.places]


def _nodes_after(flow: Flow, node: Meeting) -> Iterator[Meeting]:
    """Yield the nodes that compute with what a node gives, as long as no data come in."""
    waiting, seen = [name for name in node.outputs if _follows(flow.run.values.get(name))], set(node.outputs)
    while waiting and len(seen) < FARTHEST:
        for taker in flow.takers.get(waiting.pop(0), []):
            yield taker
            fresh = [name for name in taker.outputs if name not in seen and _follows(flow.run.values.get(name))]
            seen.update(fresh)
            waiting += fresh


def _follows(value: Value | None) -> bool:
    """Return whether a value follows from positions and stored numbers alone."""
    return value is not None and (not is_data(value) or (isinstance(value, Data) and value.network is not None))


def _named_words(named: Sequence[Named], node: Meeting) -> str:
    own = {o.tensor for o in node.operands if o is not None and not is_data(o.value)}
    for entry in named:
        if entry.form.family != "not recognised" and (node.node in entry.nodes or own & set(entry.tensors)):
            name = f" ({entry.form.name})" if entry.form.name not in ("", entry.form.family) else ""
            return f"recognised: {entry.form.family}{name}{f': {entry.form.line}' if entry.form.line else ''}"
    return ""


def _why_nothing(reading: Reading, flow: Flow, node: Meeting) -> str:
    """Return why no fit was asked about what is seen at a node."""
    values = [operand.value for operand in node.operands if operand is not None]
    unknown = next((value for value in values if isinstance(value, Unknown)), None)
    late = any(isinstance(value, Data) and value.positional for value in values)
    given = any(is_data(value) for value in values)
    if unknown is not None:
        return f"no fit was asked: what comes in is not known: {unknown.reason}"
    if late:
        return "no fit was asked: what follows from positions is too large here, or has no kernel, and was not computed"
    if not any(isinstance(value, Position) for value in values):
        stored = "and stored numbers " * any(isinstance(value, Constant) for value in values)
        return f"no fit was asked: data {stored}come in here, and nothing that follows from positions"
    if given:
        return (
            "no fit was asked: what follows from positions here is a mask, a size or indices, or the same at all places"
        )
    meets = next(
        (n for n in _nodes_after(flow, node) if any(o is not None and is_data(o.value) for o in n.operands)), None
    )
    ahead = (
        f"; what is made of them meets data at {meets.node}, which is a {meets.op_type}" if meets is not None else ""
    )
    return f"no fit was asked: positions alone come in here, and no data{ahead}"


def _operand(operand: Operand) -> str:
    """Return an input of a node in words: its name, its type, its shape, and what it is."""
    value = operand.value
    shape = shape_of(value)
    sizes = "?" if shape is None else ", ".join(map(str, shape))
    return f"{operand.tensor or 'what data it meets'} {dtype_name(value)}[{sizes}] ({_role(operand)})"


def _role(operand: Operand) -> str:
    value = opened(operand).value
    if isinstance(value, Constant):
        return f"stored{_range_words(numbers_of(value))}"
    if isinstance(value, Position):
        source = "made by weights of positions alone" if value.through else "follows from "
        if not value.through:
            source += ", ".join(sorted(value.inputs)) or "the sizes of a call"
        return f"{source}{_range_words(value.array)}"
    if isinstance(value, Unknown):
        return f"not known: {value.reason}"
    return "positions, too large to compute" if isinstance(value, Data) and value.positional else "data"


def _range_words(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None) -> str:
    if array is None or not array.size or array.dtype.kind not in "fiub":
        return ""
    low, high = array.min(), array.max()
    return f": {low:.5g}" if low == high else f": {low:.5g} to {high:.5g}"


def _observed(run: Run, asked: Sequence[Asked]) -> Iterator[Observed]:
    """Yield what was seen, with the nearest guess of each fit: numbers of one kind, in several shapes, are one."""
    kinds: dict[str, list[Asked]] = {}
    for one in asked:
        kinds.setdefault(one.seen.kind, []).append(one)
    # what some formula gives comes first
    for group in sorted(kinds.values(), key=lambda group: not any(a.agrees for one in group for a in one.answers)):
        first, best = group[0].seen, _best(group)
        shapes = tuple(dict.fromkeys(one.seen.numbers.shape for one in group))
        parts = _shown(first)
        yield Observed(
            kind=first.kind,
            how=KINDS[first.kind].how,
            axes=KINDS[first.kind].axes,
            shapes=tuple("x".join(map(str, shape)) for shape in shapes[:FEW]),
            dtype=first.numbers.dtype.name,
            numbers=tuple(float(number) for number in parts.ravel()[:FEW]),
            lowest=float(np.nanmin(parts)) if parts.size else math.nan,
            highest=float(np.nanmax(parts)) if parts.size else math.nan,
            stored=tuple(_stored(run, group)),
            fits=tuple(_fit(answer) for answer in best.values()),
        )


def _shown(seen: Observation) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return numbers as they are shown: angles of rotations."""
    numbers = np.angle(seen.numbers) if np.iscomplexobj(seen.numbers) else seen.numbers.astype(np.float64)
    return np.asarray(numbers, np.float64)


def _best(group: Sequence[Asked]) -> Mapping[str, Answer]:
    best: dict[str, Answer] = {}
    for answer in (answer for one in group for answer in one.answers):
        known = best.get(answer.scheme)
        if known is None or (answer.off - answer.allowed, -answer.guesses) < (
            known.off - known.allowed,
            -known.guesses,
        ):
            best[answer.scheme] = answer
    return best


def _fit(answer: Answer) -> AskedFit:
    guess = answer.nearest
    if guess is None:
        return AskedFit(answer.scheme, answer.guesses, "", {}, None, None, False)
    parameters = {name: value for name, value in guess.parameters.items() if value is not None}
    off = answer.off if math.isfinite(answer.off) else None
    return AskedFit(answer.scheme, answer.guesses, guess.name, _plain(parameters), off, answer.allowed, answer.agrees)


def _plain(parameters: Mapping[str, object]) -> dict[str, str]:
    """Return parameters as text: the first numbers of a list."""
    return {name: _value(value) for name, value in parameters.items()}


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        more = f", ... {len(value)} in all" if len(value) > FEW else ""
        return f"({', '.join(map(_value, value[:FEW]))}{more})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _stored(run: Run, group: Sequence[Asked]) -> Iterator[str]:
    """Yield the stored tensors that values were made of, by name, and single numbers with their value."""
    values = (
        opened(Operand(name, run.values[name])).value for one in group for name in one.places if name in run.values
    )
    known = [value for value in values if isinstance(value, (Constant, Position))]
    names = sorted(frozenset[str]().union(*(value.stored | value.singles for value in known)))
    for name in names[:STORED]:
        value = run.values.get(name)
        shape = shape_of(value) if value is not None else None
        if value is None or shape is None:
            continue
        number = numbers_of(value) if not math.prod(shape) - 1 else None
        single = "" if number is None else f" = {float(number.reshape(-1)[0]):.7g}"
        yield f"{name} {dtype_name(value)}[{', '.join(map(str, shape))}]{single}"
    if len(names) > STORED:
        yield f"and {len(names) - STORED} more"
