"""A plan of few calls, for models whose calls take long: one of the longest, and some that are unlike each other.

Faults come from two properties that meet, as padding on the left and an empty cache, far more often than from three. So
the calls have each pair of properties that occurs in the whole plan ("pairwise testing": Kuhn, Wallace and Gallo,
Software fault interactions, 2004).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

from posenc.ports import Array, Feeds, Integers, Port
from posenc_export.bundle.case import Case
from posenc_export.common.errors import NoReference
from posenc_export.proof.planning.plan import Plan

PASSES = 3
"""Calls of the longest length whose tokens are as many as a quick plan may have."""


def quick_plan(plan: Plan, inputs: Sequence[Port]) -> Plan:
    """Return a plan whose calls have no more tokens than three of the longest length with a batch of one.

    Args:
        plan: All calls.
        inputs: What goes in.
    """
    answered = [case for case in plan.cases if not case.refused]
    if not answered:
        return plan
    costs = {case.name: cost(case, inputs) for case in plan.cases}
    batches = {axis.name for port in inputs for axis in port.dynamic.values() if axis.kind == "batch"}

    def alone(case: Case) -> float:
        """Return the cost of a call for each sequence of its batch; of pictures there may be none."""
        return costs[case.name] / prod(max(1, case.sizes[name]) for name in batches)

    largest = max(map(alone, answered))
    budget = PASSES * largest
    # a batch of three at the largest length would leave no time for anything else
    among = [case for case in answered if costs[case.name] <= budget - largest] or answered
    longest = max(among, key=lambda case: (alone(case), -costs[case.name]))
    chosen: dict[str, Case] = {}
    spent = 0.0
    for case in (longest, *covering(plan.cases, lambda case: costs[case.name])):
        if case.name not in chosen and spent + costs[case.name] <= budget:
            chosen[case.name] = case
            spent += costs[case.name]
    left = len(plan.cases) - len(chosen)
    words = (f"{left} of {len(plan.cases)} calls, since the proof is quick: --proof full tries them",) if left else ()
    cases = tuple(case for case in plan.cases if case.name in chosen)
    return replace(plan, cases=cases, not_tried=(*plan.not_tried, *words))


def covering(cases: Sequence[Case], price: Callable[[Case], float]) -> list[Case]:
    """Return a few calls that have all pairs of properties; those that must be refused come behind the others.

    Args:
        cases: All calls.
        price: What a call costs: of calls that add as many pairs the cheapest is taken.
    """
    chosen: list[Case] = []
    for refused in (False, True):
        among = sorted((case for case in cases if case.refused is refused), key=price)
        missing = {pair for case in among for pair in _pairs(case)}
        while missing:
            chosen.append(max(among, key=lambda case: len(missing & _pairs(case))))
            missing -= _pairs(chosen[-1])
    return chosen


def _pairs(case: Case) -> frozenset[object]:
    """Return the pairs of properties of a call: padding, where it begins, whether it is refused, which sizes are 1."""
    ones = {name: size == 1 for name, size in case.sizes.items()}
    properties = {
        "padding": case.padding,
        "far": bool(case.first),
        "refused": case.refused,
        "unlike": bool(case.unlike),
    }
    return frozenset(combinations((properties | {f"1 in {name}": one for name, one in ones.items()}).items(), 2))


def shortest(plan: Plan, inputs: Sequence[Port]) -> Plan:
    """Return a plan of the shortest call alone, so that a bundle takes no longer than its export.

    Args:
        plan: All calls.
        inputs: What goes in.
    """
    chosen = min((case for case in plan.cases if not case.refused), key=lambda case: cost(case, inputs))
    words = f"{len(plan.cases) - 1} of {len(plan.cases)} calls, and no tokens: --proof quick or full tries them"
    return replace(plan, cases=(chosen,), not_tried=(*plan.not_tried, words))


def absent_reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
    """Raise NoReference, in the place of a reference: a copy of a model in float64 takes twice its memory."""
    raise NoReference("the proof is of one call")


def cost(case: Case, inputs: Sequence[Port]) -> int:
    """Return how many tokens, or other places, the largest input of a call has."""
    return max((prod(axis.size_in(case.sizes) for axis in port.dynamic.values()) for port in inputs), default=1)
