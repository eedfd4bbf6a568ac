"""`--exact`: Sin and Cos of a graph give way to angle addition, and what alone fed them goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from posenc.formulas.fitting import Form
from posenc_export.common.errors import BadInput
from posenc_export.read.errors.rounding import frequencies_of
from posenc_export.read.extend.addition import Digits, NodeWriter, add_rows
from posenc_export.read.extend.chains import Wave, waves_of
from posenc_export.read.extend.model import Model
from posenc_export.read.extend.result import Swap
from posenc_export.read.recognise.named import Named
from posenc_export.read.report.text import parameters_in_words
from posenc_export.read.values import Position, Run

FAR = 2**17
"""Positions that are tried where no length is asked for."""
END = 2**24
"""Angle addition holds positions below this number."""
NEAR_ENOUGH = 3e-7
"""The largest error of rows in float32 up to that many positions, against float64."""


def swapped(model: Model, run: Run, named: Named, new: Form, max_len: int) -> Swap:
    """Swap the chain of an encoding for angle addition in a model.

    Args:
        model: what is rewritten.
        run: the graph at a length and a batch that differ, and are not 1.
        named: the encoding as it was read.
        new: the closed form that it is to have.
        max_len: the length that is asked for; 0 where none is.

    Raises BadInput, in one line, where the chain is of another kind.
    """
    assert named.form.exact is not None
    assert new.exact is not None
    count = max(max_len, FAR)
    if count > END:
        raise BadInput(f"--exact holds positions below {END:,}, and not up to {count:,}")
    (_, before), (inv_freq, amplitude) = frequencies_of(named.form.exact), frequencies_of(new.exact)
    waves = waves_of(run, named)
    scale = 1.0 if before == amplitude else amplitude / before
    groups: dict[tuple[object, ...], list[Wave]] = {}
    for wave in waves:
        key = (wave.positions, wave.fitting, _dtype(run, wave))
        groups.setdefault(key, []).append(wave)
    worst = (0.0, 0)
    for alike in groups.values():
        dtype = np.dtype(np.float64 if _dtype(run, alike[0]) == "float64" else np.float32)
        frequencies = inv_freq[list(alike[0].fitting.pairs)]
        digits = Digits.made(frequencies, scale, dtype)
        # halves of a head have the same columns
        pairs = np.unique(frequencies)
        worst = max(worst, Digits.made(pairs, scale, dtype).worst(pairs, scale, count))
        _swap(model, run, alike, digits)
    if worst[0] > NEAR_ENOUGH * max(1.0, scale):
        raise ValueError(f"angle addition is off by {worst[0]:.2g} at position {worst[1]}")
    nodes = tuple(wave.node.node for wave in waves)
    words = f"{new.family} ({new.name}), {parameters_in_words(new.parameters)}"
    return Swap(words, nodes, named.error or 0.0, 0, worst[0], worst[1], count, amplitude)


def _dtype(run: Run, wave: Wave) -> str:
    value = run.values[wave.node.outputs[0]]
    assert isinstance(value, Position)
    return str(value.array.dtype.name)


def _swap(model: Model, run: Run, waves: Sequence[Wave], digits: Digits) -> None:
    """Put the nodes of angle addition before the first of the nodes that they stand for, and take those away."""
    graph = model.proto.graph
    names = [wave.node.outputs[0] for wave in waves]
    places = [place for place, node in enumerate(graph.node) if node.output and node.output[0] in names]
    if len(places) != len(names):
        raise BadInput(f"{waves[0].node.node} is inside of a function or of another node: --exact cannot swap it")
    writer = NodeWriter(_prefix(graph), _opset(model.proto))
    rows = add_rows(writer, waves[0], digits)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(_dtype_of(run, names[0])))
    for wave in waves:
        is_same = kind == helper.np_dtype_to_tensor_dtype(digits.tables["low_sin"].dtype)
        name, made = wave.node.outputs[0], rows[wave.node.op_type]
        _ = writer.node("Identity", made, output=name) if is_same else writer.node("Cast", made, output=name, to=kind)
    nodes = list(graph.node)
    gone = [nodes[place] for place in places]
    rest = [node for place, node in enumerate(nodes) if place not in places]
    first = min(places)
    del graph.node[:]
    graph.node.extend([*rest[:first], *writer.nodes, *rest[first:]])
    graph.initializer.extend(writer.initializers())
    _prune(graph, [name for node in gone for name in node.input])


def _dtype_of(run: Run, name: str) -> np.dtype[np.generic]:
    value = run.values[name]
    assert isinstance(value, Position)
    return value.array.dtype


def _prefix(graph: onnx.GraphProto) -> str:
    """Return the beginning of names that no tensor of a graph has."""
    names = {name for node in graph.node for name in (*node.output, node.name)} | {t.name for t in graph.initializer}
    number = 0
    while any(name.startswith(f"exact{number}_") for name in names):
        number += 1
    return f"exact{number}_"


def _opset(proto: onnx.ModelProto) -> int:
    return next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 1)


def _prune(graph: onnx.GraphProto, names: Sequence[str]) -> None:
    """Take away the nodes and the stored tensors that fed nothing but what is gone."""
    uses = _uses(graph)
    makers = {output: node for node in graph.node for output in node.output}
    gone: set[str] = set()
    waiting = [name for name in names if name]
    while waiting:
        name = waiting.pop()
        maker = makers.get(name)
        if name in gone or uses[name] or (maker is not None and any(uses[output] for output in maker.output)):
            continue
        gone.add(name)
        if maker is not None:
            gone.update(maker.output)
            graph.node.remove(maker)
            inputs = [entry for entry in maker.input if entry]
            uses.subtract(inputs)
            waiting += inputs
    public = {value.name for value in graph.input}
    stored = [tensor for tensor in graph.initializer if tensor.name in gone - public]
    for tensor in stored:
        graph.initializer.remove(tensor)


def _uses(graph: onnx.GraphProto) -> Counter[str]:
    """Return how often a graph, or one inside it, takes each tensor."""
    uses = Counter(value.name for value in graph.output)
    for node in graph.node:
        uses.update(node.input)
        for attribute in node.attribute:
            for inside in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                uses += _uses(inside)
    return uses
