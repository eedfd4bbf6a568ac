"""Which nodes of an ONNX file the execution providers of ONNX Runtime take, by their own lists: nothing is run.

A list holds operators, opsets and mostly dtypes. What providers ask of shapes and attributes stands in none of them,
so "taken" means that a list has the operator in this form and these dtypes. Where a list says nothing of dtypes the
answer is "not known".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.operators import ONNX
from posenc_export.write.formats.onnx.providers.lists import Kernel, ListOrigin, ProviderList, provider_lists
from posenc_export.write.formats.onnx.providers.nodes import UNKNOWN, Slot, TypedNode, typed_nodes

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["Answer", "NodeGroup", "Placement", "answer", "placements"]


@dataclass(frozen=True)
class Answer:
    """Whether a provider takes a node, by its list.

    Attributes:
        taken: None where the list does not say.
        why: what stands against it, or is not said; "" where nothing more is to be said than the operator's name.
    """

    taken: bool | None
    why: str = ""


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of a file of one operator for which an answer and its reason are the same."""

    domain: str
    operator: str
    opset: int
    nodes: int
    why: str


@dataclass(frozen=True)
class Placement:
    """Which nodes of a file a provider takes.

    Attributes:
        provider: its name.
        nodes: how many nodes the file has; constants are none.
        taken: how many of them it takes.
        left: those that it does not take, and that run on the CPU.
        unknown: those of which its list does not say it.
        source: where the list is from.
    """

    provider: str
    nodes: int
    taken: int
    left: tuple[NodeGroup, ...]
    unknown: tuple[NodeGroup, ...]
    source: ListOrigin


def placements(model: ModelProto) -> tuple[Placement, ...]:
    """Return which nodes of a file each provider takes: that of the CPU, then all others."""
    nodes = typed_nodes(model)
    return tuple(_placement(provider, nodes) for provider in provider_lists())


def answer(provider: ProviderList, node: TypedNode) -> Answer:
    """Return whether a provider takes a node."""
    kernels = provider.of(node.domain, node.name)
    if not node.since:
        return Answer(None, "nothing defines it")
    if not kernels:
        return Answer(False)
    if provider.opset is not None and node.domain == ONNX and node.opset > provider.opset:
        return Answer(None, f"opset {node.opset}: the list ends at {provider.opset}")
    fitting = [kernel for kernel in kernels if _fits(provider, kernel, node.since)]
    if not fitting:
        known = ", ".join(sorted({str(kernel.since) for kernel in kernels}, key=int))
        return Answer(False, f"its form of opset {node.since}: kernels are of {known}")
    if provider.every is not None:
        return _in_dtypes((*node.inputs, *node.outputs), provider.every, node)
    answers = [_by_dtypes(kernel, node) for kernel in fitting]
    # one kernel that takes it is enough, and one of which nothing is known leaves it open
    order = (True, None, False)
    return min(answers, key=lambda one: order.index(one.taken))


def _fits(provider: ProviderList, kernel: Kernel, since: int) -> bool:
    if provider.matching == "any":
        return True
    ends = kernel.until is not None and kernel.since <= since <= kernel.until
    if provider.matching == "span":
        return ends or (kernel.until is None and kernel.since <= since)
    # ONNX Runtime takes a kernel without an end for that form of the operator alone: a later form may mean more
    return ends or kernel.since == since


def _by_dtypes(kernel: Kernel, node: TypedNode) -> Answer:
    if kernel.dtypes is None:
        return Answer(None, "its list has no dtypes")
    answers = [_in_dtypes(_slots(key, node), dtypes, node) for key, dtypes in kernel.dtypes.items()]
    order = (False, None, True)
    return min(answers, key=lambda one: order.index(one.taken), default=Answer(True))


def _slots(key: str, node: TypedNode) -> tuple[Slot | None, ...]:
    """Return the inputs and outputs that the dtypes of a kernel are of."""
    if key == "*":
        floats = tuple(slot for slot in node.inputs if slot is not None and slot.floats)
        return floats or node.inputs
    if key.startswith("#"):
        return node.inputs[int(key[1:]) : int(key[1:]) + 1]
    return tuple(slot for slot in (*node.inputs, *node.outputs) if slot is not None and key in (slot.type, slot.name))


def _in_dtypes(slots: Iterable[Slot | None], dtypes: frozenset[str], node: TypedNode) -> Answer:
    given = [slot for slot in slots if slot is not None]
    wrong = next((slot for slot in given if slot.dtype not in (UNKNOWN, *dtypes)), None)
    if wrong is not None:
        first = next((slot.type for slot in node.inputs if slot is not None), wrong.type)
        return Answer(False, wrong.dtype if wrong.type == first else f"{wrong.dtype} {wrong.name}".strip())
    if any(slot.dtype == UNKNOWN for slot in given):
        return Answer(None, "its dtype is not known")
    return Answer(True)


def _placement(provider: ProviderList, nodes: list[TypedNode]) -> Placement:
    answers = [(node, answer(provider, node)) for node in nodes]
    left, unknown = (tuple(_groups(answers, taken)) for taken in (False, None))
    taken = sum(one.taken is True for _, one in answers)
    return Placement(provider.title, len(nodes), taken, left, unknown, provider.source)


def _groups(answers: Iterable[tuple[TypedNode, Answer]], taken: bool | None) -> Iterator[NodeGroup]:
    counts = Counter((node.domain, node.name, node.since, one.why) for node, one in answers if one.taken is taken)
    for (domain, name, since, why), count in sorted(counts.items()):
        yield NodeGroup(domain, name, since, count, why)
