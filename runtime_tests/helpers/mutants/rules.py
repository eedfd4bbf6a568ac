"""By which rules a mutant may be wrong in nothing: why, in words; that it gives the same bits is asked besides."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from helpers.mutants.graph_facts import Facts, Use
from helpers.mutants.mutation import Mutation
from posenc.ports import Array

OfUse = Callable[[Facts, Use, Array, Array], bool]
"""Whether a constant may be another in one use: before, after."""
OfNode = Callable[[Facts, NodeProto, Mutation], bool]
"""Whether a node may be as it was changed."""
COUNT_ENDS = {("Range", 1), ("Split", 1), ("Slice", 2), ("Expand", 1)}
"""What may read a number that says how much is made."""
LAST_TERM = 12.0
"""What the last term of a polynomial is divided by, at least."""
NEVER_FIRES = "a weight of a hidden unit that never fires, at any distance of a window"
"""Why a small move of it changes nothing: that it does not is asked besides."""
OF_USES: dict[str, OfUse] = {}
OF_NODES: dict[str, OfNode] = {}


def of_use(words: str) -> Callable[[OfUse], OfUse]:
    """Register a rule of constants under the words that say why nothing is wrong."""

    def register(function: OfUse) -> OfUse:
        OF_USES[words] = function
        return function

    return register


def of_node(words: str) -> Callable[[OfNode], OfNode]:
    """Register a rule of nodes under the words that say why nothing is wrong."""

    def register(function: OfNode) -> OfNode:
        OF_NODES[words] = function
        return function

    return register


def only_counts(facts: Facts, name: str) -> bool:
    """Return whether a number says how far a Range goes whose rows are cut, and nothing else."""
    ends = facts.ends(name)
    return ("Range", 1) in ends and ends <= COUNT_ENDS


def rule_of(facts: Facts, mutation: Mutation) -> str:
    """Return the words of the rule that a mutation falls under, or nothing; of a constant, in every use."""
    if mutation.what.startswith("constant"):
        return _of_constant(facts, mutation)
    if mutation.kind == "rows and elements":
        return NEVER_FIRES if _never_fires(facts, mutation) else ""
    node = facts.makers.get(mutation.name)
    if node is None:
        return ""
    return next((words for words, holds in OF_NODES.items() if holds(facts, node, mutation)), "")


def _never_fires(facts: Facts, mutation: Mutation) -> bool:
    """Return whether a weight that is another is part of what Relu takes, and of nothing else.

    A row of a vector is one weight.
    """
    name = mutation.name.partition("[")[0]
    is_weight = mutation.what == "element moved" or facts.stored[name].ndim == 1
    return is_weight and facts.ends(name) == {("Relu", 0)}


def _of_constant(facts: Facts, mutation: Mutation) -> str:
    words = []
    stored = facts.stored[mutation.name]
    before, after = (np.array(json.loads(text), stored.dtype) for text in (mutation.before, mutation.after))
    for use in facts.uses(mutation.name):
        rule = next((words for words, holds in OF_USES.items() if holds(facts, use, before, after)), "")
        if not rule:
            return ""
        words.append(rule)
    return "; ".join(dict.fromkeys(words))


for name in ("rules_of_constants", "rules_of_nodes"):
    importlib.import_module(f"helpers.mutants.{name}")
