"""Rules of onnxscript's optimizer that would change numbers, and how they are kept from it.

Its rules compare constants with a tolerance: 1e-8 is 0 to it, and `x + 1e-8` becomes `x`. Here a constant is what a
rule asks for, or it is not. Other rules are right for most graphs, not for all: they are left out where they are not.
docs/explanation/why-exports-break.md lists the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from posenc.libraries import replaced

Part = Any
"""A node, a value or a matcher of onnxscript: its types change from release to release."""
NARROW = ("FLOAT16", "BFLOAT16", "FLOAT", "BOOL", "INT8", "UINT8", "INT16", "UINT16")
"""Types whose numbers float32 holds: a cast by way of it rounds once."""


@contextmanager
def exact_rules() -> Iterator[bool]:
    """Have onnxscript's optimizer change no number; yield whether that is possible.

    A release whose matcher has other names cannot be held to it: its optimizer must then be left out.
    """
    try:
        from onnxscript.rewriter._matcher import SimplePatternMatcher as Matcher

        compare, match = Matcher._match_constant, Matcher.match
    except (ImportError, AttributeError):
        yield False
        return

    def equal(self: Part, wanted: Part, value: Part) -> bool:
        return compare(self, wanted, value) and (
            _equal(value.const_value.numpy(), wanted.value) or self.fail("the constant is a little different")
        )

    def exact(self: Part, model: Part, graph: Part, node: Part, **options: Any) -> Part:
        found = match(self, model, graph, node, **options)
        if found and (reason := _changed_by(found.nodes)):
            found.fail(reason, node)
        return found

    with replaced(Matcher, "_match_constant", equal), replaced(Matcher, "match", exact):
        yield True


def _equal(constant: Part, wanted: float | Sequence[float]) -> bool:
    return bool(np.array_equal(constant, np.asarray(wanted).astype(constant.dtype)))


def _changed_by(nodes: Sequence[Part]) -> str:
    """Return why numbers would change where a rule replaces these nodes; nothing where they would not."""
    look = CHANGES.get(frozenset(node.op_type for node in nodes))
    return look(nodes) if look else ""


def _sign_of_zero(nodes: Sequence[Part]) -> str:
    """`x + 0` is taken for x: of -0 it makes 0, whose arctangent and inverse differ."""
    constants = [c for node in nodes for value in node.inputs if (c := _constant(value)) is not None]
    adds_zero = any(c.dtype.kind not in "biu" and not c.any() and not np.signbit(c).all() for c in constants)
    return "adding 0 changes the sign of -0" if adds_zero else ""


def _empty_range(nodes: Sequence[Part]) -> str:
    """One Clip is made of two, or of one with a Relu: where both ranges have no number in common, it gives another."""
    ends = [_range(node) for node in nodes]
    least, most = max(low for low, _ in ends), min(high for _, high in ends)
    return "" if least <= most else "the ranges have no number in common"


def _range(node: Part) -> tuple[float, float]:
    ends = [-np.inf, np.inf]
    if node.op_type == "Relu":
        ends[0] = 0.0
    for place, value in enumerate(node.inputs[1:]):
        if (constant := _constant(value)) is not None:
            ends[place] = float(constant)
    return ends[0], ends[1]


def _rounds_twice(nodes: Sequence[Part]) -> str:
    """A cast by way of float32 is left out: of float64 it rounds twice, which one cast does not."""
    if len(nodes) == 1:  # a cast to the type that there is
        return ""
    dtypes = {node.inputs[0].dtype for node in nodes}
    is_narrow = all(dtype is not None and dtype.name in NARROW for dtype in dtypes)
    return "" if is_narrow else "the first cast rounds"


def _unlike_halves(nodes: Sequence[Part]) -> str:
    """Two Slices become a Split, whose first part is the larger one where the size is odd; of Slices the second is."""
    if len(nodes) == 1:  # a Slice that keeps all
        return ""
    shape = nodes[0].inputs[0].shape
    size = None if shape is None else shape[-1]
    return "" if isinstance(size, int) and size % 2 == 0 else "the halves are unlike"


def _folds_in_half(nodes: Sequence[Part]) -> str:
    """A batch norm goes into weights: in half precision they overflow, and the epsilon is rounded to 0."""
    values = chain.from_iterable(node.inputs[1:] for node in nodes)
    constants = [c for value in values if (c := _constant(value)) is not None]
    is_wide = all(constant.dtype in (np.float32, np.float64) for constant in constants)
    return "" if is_wide else "weights are in half precision"


def _rms_of_other_types(nodes: Sequence[Part]) -> str:
    """RMSNormalization rounds to the type of its input before it scales, and its epsilon is a float32."""
    (power,) = (node for node in nodes if node.op_type == "Pow")
    (add,) = (node for node in nodes if node.op_type == "Add")
    x, read = power.inputs[0], {id(value) for node in nodes for value in node.inputs}
    into = next((node for node in nodes if node.op_type == "Cast" and node.outputs[0] is x), None)
    given = x.dtype if into is None else into.inputs[0].dtype
    (scaled,) = (node for node in nodes if id(node.outputs[0]) not in read)
    if scaled.outputs[0].dtype != given:
        return "the result is not rounded to the type of the input"
    constants = [c for value in add.inputs if (c := _constant(value)) is not None]
    return "" if all(float(np.float32(c)) == float(c) for c in constants) else "the epsilon is no float32"


def _constant(value: Part) -> Part:
    """Return the array of a value that is known, or None."""
    known = None if value is None else value.const_value
    return None if known is None else known.numpy()


RMS = frozenset({"Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul"})
NORMS = ("Conv", "ConvTranspose", "Gemm")
CHANGES: Mapping[frozenset[str], Callable[[Sequence[Part]], str]] = MappingProxyType(
    {
        frozenset({"Add"}): _sign_of_zero,
        frozenset({"Clip"}): _empty_range,
        frozenset({"Relu", "Clip"}): _empty_range,
        frozenset({"Cast"}): _rounds_twice,
        frozenset({"Slice"}): _unlike_halves,
        RMS: _rms_of_other_types,
        RMS | {"Cast"}: _rms_of_other_types,
        **{frozenset({"BatchNormalization", name}): _folds_in_half for name in NORMS},
    }
)
"""By the operators of the nodes that a rule replaces, what sees whether that changes numbers."""
