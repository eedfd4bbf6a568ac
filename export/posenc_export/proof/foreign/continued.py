"""Caches that a file takes and gives: each output is that of the target which continues the same input.

Names say which belongs to which where they agree but for what says "before" and "after"; where they do not, the graph
does: a Concat, or an operator of attention, gives what it was given, with more behind it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import FLOATS, flatten
from posenc_export.proof.foreign.derived import identifier
from posenc_export.proof.foreign.renaming import is_used
from posenc_export.write.formats.onnx.foreign import FileValue, ForeignFile
from posenc_export.write.targets import Target
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.outputs import called, probe_sizes

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

SIDE = re.compile(r"^(input|output|new|updated)?_?(past|present|cache|kv_cache|kv)(_key_values?)?_")
"""What names of a cache before and after a call differ in."""
OF_LAYER = re.compile(r"\d+_(key|value)")
"""What is left of the name of a layer's keys, or of its values."""
LAYER = re.compile(r"^layers?_(?=\d)")
PLURAL = re.compile(r"(?<=key|lue)s$")
"""What names of a cache differ in from exporter to exporter: layers.0.keys and 0.key."""

PASSED_ON = frozenset(("Identity", "Cast"))
"""Operators behind which a cache is still the same."""
GIVES: Mapping[tuple[str, str], Mapping[int, int]] = {
    ("", "Attention"): {1: 4, 2: 5},
    ("", "TensorScatter"): {0: 0},
    ("com.microsoft", "Attention"): {1: 4},
    ("com.microsoft", "MultiHeadAttention"): {1: 6, 2: 7},
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): {1: 5, 2: 6},
    ("com.microsoft", "GroupQueryAttention"): {1: 3, 2: 4},
    ("com.microsoft", "SparseAttention"): {1: 3, 2: 4},
}
"""By domain and operator: the output that continues an input, by their places."""


def plain_name(name: str) -> str:
    """Return the name of a part of a cache without what says that it goes in or comes out; nothing for other names."""
    plain = identifier(name)
    return PLURAL.sub("", LAYER.sub("", SIDE.sub("", plain))) if SIDE.match(plain) else ""


def names_of_caches(file: ForeignFile, target: Target, names: Mapping[str, str], seed: int) -> dict[str, str]:
    """Return the names that caches of a file have among a target's outputs.

    Builders list all keys before all values, models layer by layer: of equal shapes, order alone would exchange them.

    Args:
        file: The file.
        target: What it is to be.
        names: What the user says of names, which is stronger.
        seed: For the numbers that go in.
    """
    own = {port.name for port in target.encoding.outputs}
    theirs = {value.name for value in file.outputs}
    if target.rules.registered or own <= theirs:
        return {}
    given = _given(file, target, names)
    pairs = _by_name(file)
    pairs |= {after: before for after, before in _by_graph(file.model).items() if after not in pairs}
    if not pairs:
        return given
    continued = dict(_continued(target, seed))
    ports = {**given, **names}
    caches = {
        after: continued[port]
        for after, before in pairs.items()
        if (port := ports.get(before, identifier(before))) in continued
    }
    settled = {*names.values(), *(own & theirs)}
    twice = {port for port, times in Counter(caches.values()).items() if times > 1}
    kept = {
        n: port for n, port in caches.items() if n not in {*names, *own} and port not in settled and port not in twice
    }
    return {**given, **kept}


def without_shared(
    file: ForeignFile, target: Target, names: Mapping[str, str]
) -> tuple[ForeignFile, tuple[FileValue, ...]]:
    """Return a file without caches of layers that have none in the target, and these: such layers share another's.

    Gemma's last layers take the keys and values of earlier ones. Some exporters still give the file an input for each
    layer, which no node reads, and some give the keys and values of the other layer out once more.

    Args:
        file: The file.
        target: What it is to be.
        names: What the user says of names: such inputs and outputs stay.
    """
    own = {plain for port in target.encoding.inputs if (plain := plain_name(port.name))}
    if target.rules.registered or not own or not all(map(OF_LAYER.fullmatch, own)):
        return file, ()

    def is_shared(value: FileValue) -> bool:
        plain = plain_name(value.name)
        return bool(OF_LAYER.fullmatch(plain)) and plain not in own and value.name not in names

    spare = tuple(value for value in file.inputs if is_shared(value) and not is_used(file.model.graph, value.name))
    again = tuple(value for value in file.outputs if is_shared(value))
    kept = replace(
        file,
        inputs=tuple(value for value in file.inputs if value not in spare),
        outputs=tuple(value for value in file.outputs if value not in again),
    )
    return kept, (*spare, *again)


def _given(file: ForeignFile, target: Target, names: Mapping[str, str]) -> dict[str, str]:
    """Return the target's inputs that caches of a file are, where their names differ in what stands before a layer."""
    known = {port.name for port in target.encoding.inputs}
    plain = Counter(name for port in known if (name := plain_name(port)))
    by_plain = {name: port for port in known if (name := plain_name(port)) and plain[name] == 1}
    free = [v.name for v in file.inputs if v.name not in names and not {v.name, identifier(v.name)} & known]
    found = {name: by_plain[plain_name(name)] for name in free if plain_name(name) in by_plain}
    times = Counter(found.values())
    return {name: port for name, port in found.items() if times[port] == 1 and port not in names.values()}


def _by_name(file: ForeignFile) -> dict[str, str]:
    """Return each output of a file that is called as an input is, but for its side, and that input."""
    before = {plain: value.name for value in file.inputs if (plain := plain_name(value.name))}
    after = {plain: value.name for value in file.outputs if (plain := plain_name(value.name))}
    return {after[plain]: before[plain] for plain in before.keys() & after.keys()}


def _by_graph(model: ModelProto) -> dict[str, str]:
    """Return each output of a graph that continues one of its inputs, and that input."""
    makers = {name: node for node in model.graph.node for name in node.output if name}
    inputs = {value.name for value in model.graph.input}
    found = {value.name: _continued_in(value.name, makers, inputs) for value in model.graph.output}
    return {after: before for after, before in found.items() if before}


def _continued_in(name: str, makers: Mapping[str, NodeProto], inputs: set[str]) -> str:
    """Return the input that a tensor continues; nothing where it continues none, or several."""
    name = _behind(name, makers)
    node = makers.get(name)
    if node is None:
        return ""
    if node.op_type == "Concat":
        parts = {_behind(part, makers) for part in node.input} & inputs
        return parts.pop() if len(parts) == 1 else ""
    domain = "" if node.domain == "ai.onnx" else node.domain
    place = GIVES.get((domain, node.op_type), {}).get(list(node.output).index(name))
    if place is None or place >= len(node.input):
        return ""
    before = _behind(node.input[place], makers)
    return before if before in inputs else ""


def _behind(name: str, makers: Mapping[str, NodeProto]) -> str:
    """Return the tensor that a tensor is, behind operators that pass it on."""
    for _ in range(len(makers)):
        node = makers.get(name)
        if node is None or node.op_type not in PASSED_ON or not node.input:
            break
        name = node.input[0]
    return name


def _continued(target: Target, seed: int) -> Iterator[tuple[str, str]]:
    """Yield each input of a module that one of its outputs continues, and that output."""
    encoding = target.encoding
    sizes = probe_sizes(encoding, target.spec.max_len)[0]
    feeds = feeds_for(encoding.inputs, Case("probe", sizes), seed)
    outputs = flatten(called(encoding.uncalled().module, encoding.inputs, sizes, seed))
    for port in encoding.inputs:
        fitting = [
            own.name
            for own, output in zip(encoding.outputs, outputs, strict=True)
            if _continues(output, feeds[port.name])
        ]
        # one alone: a cache that comes out twice has no place of its own
        if len(fitting) == 1:
            yield port.name, fitting[0]


def _continues(output: Array, fed: Array) -> bool:
    """Return whether an output is an input with more places along one axis."""
    if fed.dtype.name not in FLOATS or output.dtype != fed.dtype or output.ndim != fed.ndim:
        return False
    longer = [axis for axis in range(fed.ndim) if output.shape[axis] > fed.shape[axis]]
    if len(longer) != 1 or fed.size == 0:
        return False
    start = output.take(range(fed.shape[longer[0]]), axis=longer[0])
    return start.shape == fed.shape and bool(np.array_equal(start, fed))
