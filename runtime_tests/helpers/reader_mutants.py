"""Right files of other exporters, broken on purpose in ways that change positions: what `posenc inspect` must find.

Where a rotation, a table or a bias lies in a file is read by the reader itself; whether a change matters is said by
ONNX Runtime alone, which runs the file before and after.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.first_run import first_run
from posenc_export.read.graph import Graph
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inspection import Finding, FoundEncoding, Inspection
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.feeds import input_values
from posenc_export.read.interpret.roles import roles_of
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.layers import WHOLE, attentions_of
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.accounts import Account, _values_of, accounts_of
from posenc_export.read.recognise.rotary.origins import Tracer
from posenc_export.read.values import Position, Run

Array = NDArray[np.generic]
Floats = NDArray[np.float64]
LENGTHS = (7, 29)
"""Lengths of the calls that say whether a change matters."""
MATTERS = 1e-3
"""A change of the outputs, as a share of the largest number, from which on a mutant must be found."""
SECONDS = 120.0


@dataclass(frozen=True)
class Broken:
    """A file that was broken.

    Args:
        kind: what was done to it.
        site: where, in words.
        model: the broken file.
        names: a pattern that a finding must have to name what is wrong.
    """

    kind: str
    site: str
    model: onnx.ModelProto
    names: str


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: whether it matters, whether it was found, and by the right name."""

    file: str
    kind: str
    site: str
    matters: bool
    found: bool
    named: bool
    findings: tuple[str, ...]


@dataclass(frozen=True)
class Right:
    """A right file, with what the reader knows of it."""

    path: Path

    @cached_property
    def model(self) -> onnx.ModelProto:
        return onnx.load(self.path)

    @cached_property
    def graph(self) -> Graph:
        return read_graph(self.path)

    @cached_property
    def inspection(self) -> Inspection:
        return inspected(self.path)

    @cached_property
    def run(self) -> Run:
        return first_run(self.graph, Budget())

    @cached_property
    def tracer(self) -> Tracer:
        return Tracer(Flow(self.run))

    @cached_property
    def accounts(self) -> tuple[Account, ...]:
        return accounts_of(self.run, attentions_of(self.run))

    def copy(self) -> onnx.ModelProto:
        fresh = onnx.ModelProto()
        fresh.CopyFrom(self.model)
        return fresh

    def outputs_of(self, turn: int) -> list[str]:
        """Return the tensors that a rotation makes."""
        return [name for name, (number, _) in self.tracer._outputs.items() if number == turn]

    def turn_at(self, node: str) -> int | None:
        """Return the number of the rotation at a node."""
        return next((number for number, turn in enumerate(self.tracer.turns) if turn.node == node), None)


def inspected(path: Path) -> Inspection:
    """Return what is found in a file."""
    graph = read_graph(path)
    return examine(graph, facts_of(graph, path.name), Examining(path.name, None, SECONDS, lambda _: None))


def held(path: Path, config: Path | None) -> tuple[Finding, ...]:
    """Return the findings of `inspect --config`."""
    from posenc_export.read.comparing.config import compare_config

    inspection = inspected(path)
    return (*inspection.findings, *(() if config is None else compare_config(inspection, config)[0]))


def outcome(right: Right, broken: Broken, config: Path | None, folder: Path) -> Outcome:
    """Return what becomes of a broken file: in ONNX Runtime beside the right one, and in `inspect --config`."""
    path = folder / "broken.onnx"
    onnx.save(broken.model, path)
    matters = differs(right, path)
    errors = [entry for entry in held(path, config) if entry.severity == "error"] if matters else []
    words = tuple(f"{entry.code} {entry.name}: {entry.detail}" for entry in errors)
    named = any(re.search(broken.names, text) for text in words)
    return Outcome(right.path.name, broken.kind, broken.site, matters, bool(errors), named, words)


def differs(right: Right, path: Path) -> bool:
    """Return whether ONNX Runtime gives other outputs for a broken file, or refuses a call that the right one takes."""
    sessions = [_session(file) for file in (right.path, path)]
    if sessions[0] is None or sessions[1] is None:
        return False  # a file that loads nowhere is no mutant
    for length in LENGTHS:
        for padded in (False, True):
            feeds = _feeds(right, length, padded)
            expected = _outputs(sessions[0], feeds)
            if expected is None:
                continue
            got = _outputs(sessions[1], feeds)
            if got is None or not all(_near(a, b) for a, b in zip(expected, got, strict=True)):
                return True
    return False


def _session(path: Path) -> onnxruntime.InferenceSession | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None


def _outputs(session: onnxruntime.InferenceSession, feeds: dict[str, Array]) -> list[Array] | None:
    names = {entry.name for entry in session.get_inputs()}
    try:
        return [np.asarray(array) for array in session.run(None, {k: v for k, v in feeds.items() if k in names})]
    except Exception:
        return None


def _near(expected: Array, got: Array) -> bool:
    if expected.shape != got.shape or expected.dtype.kind != "f":
        return expected.shape == got.shape
    largest = float(np.abs(expected.astype(np.float64)).max(initial=1e-9))
    off = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    return bool(off.max(initial=0) <= MATTERS * largest)


def _feeds(right: Right, length: int, padded: bool) -> dict[str, Array]:
    """Return inputs of a call: those that the reader reads with, data at random, and padding at the left."""
    graph, random = right.graph, np.random.default_rng(0)
    sizes = default_sizes(graph, {"length": length, "batch": 2})
    roles = roles_of(graph)
    feeds: dict[str, Array] = {}
    for name, value in input_values(graph, roles, sizes, {}, 1 << 26).items():
        if isinstance(value, Position):
            array = value.array.copy()
            if roles[name] == "mask" and padded and array.ndim == 2 and array.shape[1] > 3:
                array[0, :3] = 0
            feeds[name] = array
        else:
            shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", np.dtype(np.float32))
            feeds[name] = (random.standard_normal(shape)).astype(dtype)
    return feeds


# What is done to a file.


def broken(right: Right) -> Iterator[Broken]:
    """Yield everything that can be broken in a file, in the order of the table."""
    for encoding in right.inspection.encodings:
        makers = MAKERS.get(encoding.family, ())
        for maker in makers:
            yield from maker(right, encoding)
    yield from _sides(right)
    yield from _operators(right)
    yield from _exchanged(right)


def _stored(model: onnx.ModelProto) -> dict[str, Array]:
    """Return the numbers that a file stores: initializers, and constants in nodes."""
    arrays = {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            arrays[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return arrays


def _with(right: Right, changed: dict[str, Array]) -> onnx.ModelProto:
    """Return a file with other numbers in some of its tensors."""
    model = right.copy()
    for entry in model.graph.initializer:
        if entry.name in changed:
            entry.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(changed[entry.name]), entry.name))
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] in changed:
            fresh = numpy_helper.from_array(np.ascontiguousarray(changed[node.output[0]]), "value")
            node.attribute[0].t.CopyFrom(fresh)
    return model


def _frequencies(right: Right, encoding: FoundEncoding) -> dict[str, Array]:
    """Return the tensors of an encoding that hold its frequencies."""
    stored, width = _stored(right.model), encoding.parameters.get("rotary_dim", encoding.parameters.get("d_model"))
    found = {}
    for name in encoding.stored:
        array = stored.get(name)
        if array is None or array.dtype.kind != "f" or not isinstance(width, int):
            continue
        line = array.reshape(-1).astype(np.float64)
        if line.size in (width, width // 2) and (line > 0).all() and line[0] > line[-1]:
            found[name] = array
    return found


def _tables(right: Right, encoding: FoundEncoding) -> dict[str, Array]:
    """Return the tensors of an encoding that hold a row for each position."""
    stored = _stored(right.model)
    names = dict.fromkeys((*encoding.tensors, *encoding.stored))
    return {
        name: stored[name]
        for name in names
        if name in stored and stored[name].dtype.kind == "f" and encoding.rows in stored[name].shape and encoding.rows
    }


def _rows_first(array: Array, rows: int) -> tuple[Floats, int]:
    axis = array.shape.index(rows)
    return np.moveaxis(array.astype(np.float64), axis, 0), axis


def _back(table: Floats, axis: int, like: Array) -> Array:
    return np.moveaxis(table, 0, axis).astype(like.dtype)


def _rotary_numbers(right: Right, encoding: FoundEncoding) -> Iterator[Broken]:
    """Yield other frequencies: in the tensors that hold them, or in tables that were made of them."""
    parameters = (
        r"rope_theta|rope_type|frequenc|factor|inv_freq|divisors|off-formula|close|positions \(|none of the known"
    )
    frequencies = _frequencies(right, encoding)
    theta = encoding.parameters.get("rope_theta", 1e4)
    power = 1 + math.log(2) / math.log(float(theta)) if isinstance(theta, (int, float)) and theta > 1 else 1.1
    changes: dict[str, Callable[[Floats], Floats]] = {
        "base": lambda w: w**power,
        "factor": lambda w: w / 2,
        "one frequency": lambda w: w * np.where(np.arange(w.size) == 1, 1.5, 1),
        "low frequencies": lambda w: w / np.where(np.arange(w.size) >= w.size // 2, 8, 1),
    }
    for kind, change in changes.items():
        if frequencies:
            changed = {
                name: change(array.reshape(-1).astype(np.float64)).reshape(array.shape).astype(array.dtype)
                for name, array in frequencies.items()
            }
            yield Broken(kind, ", ".join(changed), _with(right, changed), parameters)
        elif (tables := _angles(right, encoding)) is not None:
            yield Broken(kind, ", ".join(encoding.stored), _with(right, _retuned(tables, change)), parameters)
    if frequencies:
        coarse = {name: _bfloat16(array) for name, array in frequencies.items()}
        yield Broken("a table's dtype", ", ".join(coarse), _with(right, coarse), parameters + "|noise")


@dataclass(frozen=True)
class _Angles:
    """Tables of cosines and sines, and where the columns of each angle are."""

    tables: dict[str, Array]
    rows: int
    columns: dict[str, list[tuple[int, int, bool]]]  # (column, number of its pair, whether it is a cosine)
    frequencies: Floats
    amplitude: float


def _angles(right: Right, encoding: FoundEncoding) -> _Angles | None:
    tables = _tables(right, encoding)
    if not tables or encoding.rows is None or encoding.rows < 8:
        return None
    cosines: list[tuple[str, int]] = []
    sines: list[tuple[str, int]] = []
    flat = {}
    for name, array in tables.items():
        table, _ = _rows_first(array, encoding.rows)
        flat[name] = table = table.reshape(encoding.rows, -1)
        if table.shape[1] < 2:
            return None
        for column in range(table.shape[1]):
            (sines if abs(table[0, column]) < 1e-3 else cosines).append((name, column))
    if len(cosines) != len(sines) or not cosines:
        return None
    amplitude = abs(flat[cosines[0][0]][0, cosines[0][1]])
    frequencies = np.array([math.asin(min(abs(flat[n][1, c]) / amplitude, 1.0)) for n, c in sines])
    columns: dict[str, list[tuple[int, int, bool]]] = {name: [] for name in tables}
    for number, ((cosine, a), (sine, b)) in enumerate(zip(cosines, sines, strict=True)):
        columns[cosine].append((a, number, True))
        columns[sine].append((b, number, False))
    return _Angles(tables, encoding.rows, columns, frequencies, amplitude)


def _retuned(angles: _Angles, change: Callable[[Floats], Floats]) -> dict[str, Array]:
    """Return the tables of other frequencies, which `change` makes of those of each pair in their order."""
    unique, back = np.unique(-np.round(angles.frequencies, 9), return_inverse=True)
    frequencies = change(-unique)[back]
    made = {}
    for name, array in angles.tables.items():
        table, axis = _rows_first(array, angles.rows)
        shape = table.shape
        flat = table.reshape(angles.rows, -1).copy()
        for column, number, is_cosine in angles.columns[name]:
            angle = np.arange(angles.rows) * frequencies[number]
            sign = np.sign(flat[1, column]) if not is_cosine else 1.0
            flat[:, column] = angles.amplitude * (np.cos(angle) if is_cosine else sign * np.sin(angle))
        made[name] = _back(flat.reshape(shape), axis, array)
    return made


def _bfloat16(array: Array) -> Array:
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16).astype(array.dtype)


def _table_rows(right: Right, encoding: FoundEncoding) -> Iterator[Broken]:
    """Yield tables with a wrong row, of another dtype, times a factor, with columns exchanged, or cut."""
    tables, rows = _tables(right, encoding), encoding.rows
    if not tables or rows is None or rows < 12:
        return
    site = ", ".join(tables)
    has_form = encoding.name not in ("table", "buckets")
    off = r"off by|none of the known|none were recognised|not recognised|form|rope|layout|rows|frequenc|close"

    def changed(change: Callable[[Floats], Floats]) -> onnx.ModelProto:
        made = {}
        for name, array in tables.items():
            table, axis = _rows_first(array, rows)
            made[name] = _back(change(table.copy()), axis, array)
        return _with(right, made)

    if has_form:
        yield Broken("a row", site, changed(lambda t: t[_exchange(rows, 5, 6)]), off)
        yield Broken("rows one further on", site, changed(lambda t: np.concatenate([t[1:], t[-1:]])), off + "|offset")
        yield Broken("a factor of all rows", site, changed(lambda t: t * 1.2), off + "|factor|scale")
        coarse = {name: _bfloat16(array) for name, array in tables.items()}
        yield Broken("a table's dtype", site, _with(right, coarse), off)
        if encoding.family == "sinusoidal":
            yield Broken("columns exchanged", site, changed(lambda t: t[..., ::-1]), off)
    cut = rows // 2
    if encoding.family in ("learned", "rotary", "sinusoidal"):
        yield Broken("a table cut", site, changed(lambda t: t[:cut]), r"rows|positions|refuse|ends|right up to")


def _exchange(rows: int, first: int, second: int) -> NDArray[np.int64]:
    order = np.arange(rows)
    order[[first, second]] = order[[second, first]]
    return order


def _added(right: Right, encoding: FoundEncoding) -> Iterator[Broken]:
    """Yield a file in which an encoding is no longer added, and one that reads it one row further on."""
    model = right.copy()
    places = {node.name or f"{node.op_type}#{i}": node for i, node in enumerate(model.graph.node)}
    removed = False
    for name in encoding.nodes:
        node = places.get(name)
        if node is None or node.op_type != "Add":
            continue
        data = [entry for entry in node.input if entry not in encoding.tensors]
        if len(data) == 1:
            node.op_type = "Identity"
            del node.input[:]
            node.input.append(data[0])
            removed = True
    if removed:
        words = r"none were recognised|do not|learned|alibi|t5|positions"
        yield Broken("an encoding removed", ", ".join(encoding.nodes[:2]), model, words)
    if encoding.family == "learned" and encoding.positions != "range":
        yield from _shifted_ids(right, encoding)


def _shifted_ids(right: Right, encoding: FoundEncoding) -> Iterator[Broken]:
    model = right.copy()
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[0] in encoding.stored:
            value = right.run.values.get(node.input[1])
            dtype = value.array.dtype if isinstance(value, Position) else None
            if dtype is None:
                return
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(1, dtype), "mutant_one"))
            place = list(model.graph.node).index(node)
            add = helper.make_node("Sub", [node.input[1], "mutant_one"], ["mutant_ids"], "mutant_sub")
            node.input[1] = "mutant_ids"
            model.graph.node.insert(place, add)
            yield Broken("a position input shifted", node.name, model, r"offset|rows|right up to|position")
            return


def _masked(right: Right, encoding: FoundEncoding) -> Iterator[Broken]:
    """Yield a file whose positions count all tokens, also those that a mask leaves out."""
    if not encoding.positions.startswith("mask "):
        return
    model = right.copy()
    for place, node in enumerate(model.graph.node):
        if node.op_type == "CumSum":
            source = node.input[0]
            value = right.run.values.get(source)
            if not isinstance(value, Position):
                continue
            tensor = numpy_helper.from_array(np.asarray([1], value.array.dtype), "value")
            shape = helper.make_node("Shape", [source], ["mutant_shape"], "mutant_shape")
            ones = helper.make_node("ConstantOfShape", ["mutant_shape"], ["mutant_ones"], "mutant_ones", value=tensor)
            node.input[0] = "mutant_ones"
            model.graph.node.insert(place, ones)
            model.graph.node.insert(place, shape)
            yield Broken("a mask that no longer counts", node.name, model, "mask")
            return


def _slopes(right: Right, encoding: FoundEncoding) -> Iterator[Broken]:
    """Yield ALiBi with other slopes."""
    heads, stored = encoding.parameters.get("heads"), _stored(right.model)
    if not isinstance(heads, int):
        return
    for name in encoding.stored:
        array = stored.get(name)
        if array is None or array.dtype.kind != "f" or heads not in array.shape:
            continue
        axis = array.shape.index(heads)
        lines: Floats = np.moveaxis(array, axis, 0).astype(np.float64)
        words = r"slopes|bias_max|scale|none were recognised|alibi"
        rule = (2.0 ** (-8 * (np.arange(heads) + 1) / heads * 0.8)) / (2.0 ** (-8 * (np.arange(heads) + 1) / heads))
        scaled = lines * rule.reshape(-1, *(1,) * (lines.ndim - 1))
        for kind, made in (
            ("slopes by another rule", scaled),
            ("slopes of other heads", lines[::-1]),
            ("slopes twice as steep", lines * 2),
        ):
            yield Broken(kind, name, _with(right, {name: _back(made, axis, array)}), words)
        return


def _sides(right: Right) -> Iterator[Broken]:
    """Yield files whose queries, keys or values are turned otherwise than they should be."""
    for number, account in enumerate(right.accounts[:1]):
        query = next((t for n in account.queries if (t := right.turn_at(n)) is not None), None)
        key = next((t for n in account.keys if (t := right.turn_at(n)) is not None), None)
        if query is None or key is None or query == key:
            continue
        sides = r"keys|queries|values|PE220|do not rotate|none were recognised"
        for kind, turns in (
            ("keys left out", [key]),
            ("queries left out", [query]),
            ("a layer left out", [query, key]),
        ):
            model = right.copy()
            if all(_left_out(right, model, turn) for turn in turns):
                yield Broken(kind, f"attention {number}", model, sides)
        model = right.copy()
        everything = range(len(right.tracer.turns))
        if all(_left_out(right, model, turn) for turn in everything):
            yield Broken("an encoding removed", "all rotations", model, sides)
        for kind, change in (
            ("keys one further on", _rolled),
            ("keys turned backward", _backward),
            ("keys by another base", _squared),
        ):
            model = right.copy()
            if _retabled(right, model, key, change):
                yield Broken(kind, f"attention {number}", model, sides)
        for kind, turns in (("keys turned twice", [key]), ("queries turned twice", [query])):
            model = right.copy()
            if all(_again(right, model, turn) for turn in turns):
                yield Broken(kind, f"attention {number}", model, sides)
        for kind, change in (("all turned backward", _backward), ("all turned by other tokens", _reversed)):
            model = right.copy()
            # each is changed, whether or not the one before it could be
            changed = [_retabled(right, model, turn, change) for turn in everything]
            if all(changed):
                yield Broken(kind, "all rotations", model, sides + "|direction|recognised|inv_freq|frequenc")
        yield from _values(right, number, account, key)
        yield from _layouts(right, everything)


def _rename_uses(model: onnx.ModelProto, old: str, new: str, but: frozenset[str] = frozenset()) -> bool:
    used = False
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name == old and node.output[0] not in but:
                node.input[i] = new
                used = True
    return used


def _shape_in(run: Run, name: str) -> tuple[int, ...]:
    return tuple(getattr(run.values.get(name), "shape", ()))


def _before(right: Right, model: onnx.ModelProto, turn: int) -> str | None:
    """Return the tensor that a rotation takes, as it lies beside the cosines: in the shape of what comes out."""
    outputs = right.outputs_of(turn)
    shape = _shape_in(right.run, outputs[0])
    if len(outputs) != 1:
        return None
    for node in _nodes_of(right, model, turn) or []:
        if node.op_type.endswith("RotaryEmbedding"):
            return node.input[0] if _shape_in(right.run, node.input[0]) == shape else None
        if node.op_type != "Mul":
            continue
        for table, data in (node.input, reversed(node.input)):
            value = right.run.values.get(table)
            is_cosine = isinstance(value, Position) and abs(float(value.array.reshape(-1)[0])) > 0.5
            if is_cosine and _shape_in(right.run, data) == shape:
                return str(data)
    return None


def _left_out(right: Right, model: onnx.ModelProto, turn: int) -> bool:
    source = _before(right, model, turn)
    return source is not None and _rename_uses(model, right.outputs_of(turn)[0], source)


def _nodes_of(
    right: Right, model: onnx.ModelProto, turn: int, source: str | None = None
) -> list[onnx.NodeProto] | None:
    """Return the nodes of a file between what is turned and the turned tensor."""
    outputs, source = right.outputs_of(turn), source or right.tracer.turns[turn].source
    if len(outputs) != 1:
        return None
    makers = {name: node for node in model.graph.node for name in node.output}
    wanted, found = [outputs[0]], {}
    while wanted:
        node = makers.get(wanted.pop())
        if node is None or node.output[0] in found:
            continue
        value = right.run.values.get(node.output[0])
        if isinstance(value, Position) or value is None or type(value).__name__ == "Constant":
            continue
        found[node.output[0]] = node
        wanted += [name for name in node.input if name != source and name]
        if len(found) > 40:
            return None
    return [node for node in model.graph.node if node.output and node.output[0] in found]


def _again(right: Right, model: onnx.ModelProto, turn: int) -> bool:
    """Turn what is turned a second time."""
    outputs, source = right.outputs_of(turn), _before(right, model, turn)
    nodes = None if source is None else _nodes_of(right, model, turn, source)
    if not nodes or source is None:
        return False
    copies = _copies(nodes, {source: outputs[0]})
    _rename_uses(model, outputs[0], f"mutant_{outputs[0]}")
    place = max(list(model.graph.node).index(node) for node in nodes) + 1
    for fresh in reversed(copies):
        model.graph.node.insert(place, fresh)
    return True


def _copies(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, str]) -> list[onnx.NodeProto]:
    """Return copies of nodes that write tensors of their own, and read others in place of some."""
    renamed = {**inputs, **{name: f"mutant_{name}" for node in nodes for name in node.output}}
    copies = []
    for node in nodes:
        fresh = onnx.NodeProto()
        fresh.CopyFrom(node)
        fresh.name = f"mutant_{node.name}"
        for i, name in enumerate(fresh.input):
            fresh.input[i] = renamed.get(name, name)
        for i, name in enumerate(fresh.output):
            fresh.output[i] = f"mutant_{name}"
        copies.append(fresh)
    return copies


def _values(right: Right, number: int, account: Account, turn: int) -> Iterator[Broken]:
    """Yield a file whose values are turned as its keys are."""
    node = right.run.nodes[account.place]
    operand = _values_of(right.tracer.flow, node) if node.op_type not in WHOLE else None
    model = right.copy()
    source = _before(right, model, turn)
    nodes = None if source is None else _nodes_of(right, model, turn, source)
    if operand is None or not nodes or source is None:
        return
    values = operand.tensor
    if _shape_in(right.run, values) != _shape_in(right.run, right.outputs_of(turn)[0]):
        return
    copies = _copies(nodes, {source: values})
    _rename_uses(model, values, f"mutant_{right.outputs_of(turn)[0]}")
    model.graph.node.extend(copies)
    _sort(model)
    yield Broken("values turned", f"attention {number}", model, "values")


Change = Callable[[onnx.ModelProto, str, str, int, int], list[onnx.NodeProto]]


def _retabled(right: Right, model: onnx.ModelProto, turn: int, change: Change) -> bool:
    """Change the cosines and sines that a rotation alone multiplies by."""
    nodes = _nodes_of(right, model, turn)
    done = False
    for node in nodes or []:
        if node.op_type != "Mul":
            continue
        for i, name in enumerate(node.input):
            value = right.run.values.get(name)
            if not isinstance(value, Position) or value.array.dtype.kind != "f" or value.array.ndim < 2:
                continue
            sizes = [axis for axis, size in enumerate(value.array.shape) if size == 13]
            if len(sizes) != 1:
                continue
            kind = "cosine" if abs(float(value.array.reshape(-1)[0])) > 0.5 else "sine"
            fresh = change(model, name, kind, sizes[0], value.array.ndim)
            if not fresh:
                continue
            for made in fresh:
                made.name = f"mutant_{kind}_{node.output[0]}_{made.output[0]}"
                for j, own in enumerate(made.output):
                    made.output[j] = f"{own}_{node.output[0]}"
                for j, own in enumerate(made.input):
                    made.input[j] = f"{own}_{node.output[0]}" if own.startswith("mutant_") and own[-1] != "!" else own
            place = list(model.graph.node).index(node)
            node.input[i] = fresh[-1].output[0]
            for made in reversed(fresh):
                model.graph.node.insert(place, made)
            done = True
    return done


def _constant(model: onnx.ModelProto, name: str, array: Array) -> str:
    if all(entry.name != name for entry in model.graph.initializer):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _rolled(model: onnx.ModelProto, name: str, kind: str, axis: int, rank: int) -> list[onnx.NodeProto]:
    one = _constant(model, "mutant_from!", np.array([1]))
    end = _constant(model, "mutant_to!", np.array([1 << 40]))
    last = _constant(model, "mutant_last!", np.array([-1]))
    along = _constant(model, f"mutant_axis{axis}!", np.array([axis]))
    return [
        helper.make_node("Slice", [name, one, end, along], ["mutant_a"]),
        helper.make_node("Slice", [name, last, end, along], ["mutant_b"]),
        helper.make_node("Concat", ["mutant_a", "mutant_b"], ["mutant_c"], axis=axis),
    ]


def _backward(model: onnx.ModelProto, name: str, kind: str, axis: int, rank: int) -> list[onnx.NodeProto]:
    return [helper.make_node("Neg", [name], ["mutant_n"])] if kind == "sine" else []


def _reversed(model: onnx.ModelProto, name: str, kind: str, axis: int, rank: int) -> list[onnx.NodeProto]:
    """Give every token the angles of the one at its place from the end."""
    start = _constant(model, "mutant_last!", np.array([-1]))
    end = _constant(model, "mutant_least!", np.array([-(1 << 40)]))
    along = _constant(model, f"mutant_axis{axis}!", np.array([axis]))
    return [helper.make_node("Slice", [name, start, end, along, start], ["mutant_r"])]


def _squared(model: onnx.ModelProto, name: str, kind: str, axis: int, rank: int) -> list[onnx.NodeProto]:
    """Give every second column the angle of position 0."""
    if kind == "sine":
        zero = _constant(model, "mutant_zero!", np.array(0, np.float32))
        return [helper.make_node("Mul", [name, zero], ["mutant_m"])]
    zero = _constant(model, "mutant_zero!", np.array(0, np.float32))
    one = _constant(model, "mutant_one!", np.array(1, np.float32))
    return [
        helper.make_node("Mul", [name, zero], ["mutant_m"]),
        helper.make_node("Add", ["mutant_m", one], ["mutant_o"]),
    ]


def _layouts(right: Right, turns: range) -> Iterator[Broken]:
    """Yield files that pair other features: those of queries and keys in another order, or those of cosines alone."""
    encoding = next((e for e in right.inspection.encodings if e.family == "rotary"), None)
    if encoding is None:
        return
    width, layout = encoding.parameters.get("rotary_dim"), encoding.parameters.get("layout")
    if not isinstance(width, int) or layout not in ("halves", "interleaved"):
        return
    halves = np.arange(width).reshape(2, -1).T.ravel()
    order = halves if layout == "interleaved" else np.argsort(halves)
    model, done = right.copy(), 0
    for turn in turns:
        source = _before(right, model, turn)
        nodes = None if source is None else _nodes_of(right, model, turn, source)
        if not nodes or source is None or _shape_in(right.run, source)[-1:] != (width,):
            continue
        index = _constant(model, "mutant_order", np.asarray(order))
        name = f"mutant_{turn}"
        gather = helper.make_node("Gather", [source, index], [name], name, axis=-1)
        for node in nodes:
            for i, own in enumerate(node.input):
                if own == source:
                    node.input[i] = name
        model.graph.node.insert(min(list(model.graph.node).index(node) for node in nodes), gather)
        done += 1
    if done == len(turns):
        yield Broken("a layout", "all rotations", model, r"layout|rotary_dim")
    model, done = right.copy(), 0
    for name in dict.fromkeys(encoding.tensors):
        value = right.run.values.get(name)
        if not isinstance(value, Position) or value.array.shape[-1] != width or value.array.ndim < 2:
            continue
        maker = next((n for n in model.graph.node if name in n.output), None)
        if maker is None:
            continue
        index = _constant(model, "mutant_order", np.asarray(order))
        fresh = f"mutant_{name}"
        _rename_uses(model, name, fresh)
        gather = helper.make_node("Gather", [name, index], [fresh], fresh, axis=-1)
        model.graph.node.insert(list(model.graph.node).index(maker) + 1, gather)
        done += 1
    if done:
        yield Broken(
            "cosines laid out otherwise", ", ".join(encoding.tensors[:2]), model, r"layout|PE220|pair|recognised"
        )


def _operators(right: Right) -> Iterator[Broken]:
    """Yield files whose rotary operators pair other features, or turn nothing."""
    words = r"layout|PE220|do not rotate|none were recognised|keys|queries"
    embeddings = [i for i, node in enumerate(right.model.graph.node) if node.op_type == "RotaryEmbedding"]
    if embeddings:
        for kind, places in (("a layout", embeddings), ("keys of another layout", embeddings[1:2])):
            model = right.copy()
            for place in places:
                _flip(model.graph.node[place], "interleaved")
            yield Broken(kind, f"{len(places)} RotaryEmbedding", model, words)
        for kind, places in (("keys left out", embeddings[1:2]), ("an encoding removed", embeddings)):
            model = right.copy()
            for place in places:
                node = model.graph.node[place]
                _rename_uses(model, node.output[0], node.input[0])
            yield Broken(kind, f"{len(places)} RotaryEmbedding", model, words)
        model = right.copy()
        for place in embeddings:
            node = model.graph.node[place]
            first = 2 if node.domain == "com.microsoft" else 1
            cosine, sine = node.input[first], node.input[first + 1]
            node.input[first], node.input[first + 1] = sine, cosine
        yield Broken("cosines and sines exchanged", f"{len(embeddings)} RotaryEmbedding", model, words + "|tables|form")
    whole = [
        i for i, node in enumerate(right.model.graph.node) if any(a.name == "do_rotary" and a.i for a in node.attribute)
    ]
    if whole:
        model = right.copy()
        for place in whole:
            _flip(model.graph.node[place], "rotary_interleaved")
        yield Broken("a layout", f"{len(whole)} operators", model, words)
        for kind, places in (("a layer left out", whole[:1]), ("an encoding removed", whole)):
            model = right.copy()
            for place in places:
                for attribute in model.graph.node[place].attribute:
                    attribute.i = 0 if attribute.name == "do_rotary" else attribute.i
            yield Broken(kind, f"{len(places)} operators", model, words)


def _flip(node: onnx.NodeProto, name: str) -> None:
    for attribute in node.attribute:
        if attribute.name == name:
            attribute.i = 1 - attribute.i
            return
    node.attribute.append(helper.make_attribute(name, 1))


def _exchanged(right: Right) -> Iterator[Broken]:
    """Yield a file whose layers read each other's rotary numbers."""
    rotary = [e for e in right.inspection.encodings if e.family == "rotary" and len(e.tensors) == 2]
    for first, second in pairwise(rotary):
        model = right.copy()
        for a, b in zip(first.tensors, second.tensors, strict=True):
            for node in model.graph.node:
                for i, name in enumerate(node.input):
                    node.input[i] = b if name == a else a if name == b else name
        _sort(model)
        yield Broken(
            "layers exchanged", f"{first.tensors[0]} and {second.tensors[0]}", model, r"rope_theta|layers|table"
        )
        return


def _sort(model: onnx.ModelProto) -> None:
    """Put nodes in an order in which each comes after what it takes."""
    nodes = list(model.graph.node)
    made = {*(e.name for e in model.graph.initializer), *(e.name for e in model.graph.input), ""}
    inner = {name for node in nodes for name in node.output}
    ordered = []
    while nodes:
        ready = [n for n in nodes if all(name in made or name not in inner for name in n.input)]
        if not ready:
            return
        ordered += ready
        made.update(name for node in ready for name in node.output)
        nodes = [node for node in nodes if node not in ready]
    del model.graph.node[:]
    model.graph.node.extend(ordered)


MAKERS: dict[str, tuple[Callable[[Right, FoundEncoding], Iterator[Broken]], ...]] = {
    "rotary": (_rotary_numbers, _table_rows, _masked),
    "sinusoidal": (_table_rows, _added, _masked),
    "learned": (_table_rows, _added, _masked),
    "alibi": (_slopes, _added, _masked),
    "t5": (_added,),
    "relative": (_added,),
    "window": (_added,),
    "grid": (_added,),
}
