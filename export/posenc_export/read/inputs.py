"""What the inputs of a file are for: each is tried as positions, and its numbers decide; names decide only ties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from posenc_export.common.errors import BadInput
from posenc_export.read.first_run import first_run, with_tokens_first
from posenc_export.read.graph import Graph, Input, Node
from posenc_export.read.inspection import Taken
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.roles import Role, named_role, roles_of
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Constant, Position, Run

WEAK = r"^pos$|^pos_?ids?$|^pos_?tags?$"
"""Names that are those of positions and of parts of speech."""
FEWEST = 64
"""Rows that a table of positions has at least, where a weak name alone says that it is one."""
TRIED = 4
"""Inputs that are tried as positions, at most."""
COORDINATES = 4
"""How many coordinates a place has at most."""
UNTOLD: tuple[Role, ...] = ("tokens", "types", "length", "flag")
"""Roles of inputs that are taken for them by their element type: an operator takes such positions as they come."""
LOOKUPS = ("Gather", "GatherND", "GatherBlockQuantized", "GatherElements")
SIZES = ("Shape", "Size")
USES: Mapping[str, tuple[str, ...]] = {
    "angles": ("Sin", "Cos", "RotaryEmbedding", "MRotaryEmbedding", "GemmaRotaryEmbedding"),
    "words": ("EmbedLayerNormalization", "QEmbedLayerNormalization", "OneHot"),
    "filtered": ("Conv", "NhwcConv", "FusedConv", "ConvInteger", "QLinearConv"),
    "compared": ("CumSum", "ReduceSum", "Where", "Not", "Equal", "Sub"),
}
"""What operators do with an input: a mask is compared and counted, sound is filtered."""
SHOWN: Mapping[Role, str] = {
    "places": "positions",
    "before": "number of past tokens",
    "bias": "mask that is added",
    "types": "classes",
}
"""Roles in words, where their names are none."""
NAMES, NUMBERS, BOTH, SAID = "its name", "its numbers", "its name and its numbers", "the caller"
OPERATOR = "the operator that takes it"
"""Why an input was taken for what it was taken for."""


def said(graph: Graph, positions: tuple[str, ...], masks: tuple[str, ...]) -> Graph:
    """Return a graph with what a caller says of its inputs; raise BadInput for names that are none."""
    names = {item.name for item in graph.inputs}
    for option, given in (("--positions", positions), ("--mask", masks)):
        for name in given:
            if name not in names:
                shown = ", ".join(sorted(names)[:12])
                raise BadInput(f"{option}: the file has no input {name!r}: give one of {shown}")
    return replace(graph, roles={**dict.fromkeys(masks, "mask"), **dict.fromkeys(positions, "places")})


def taken(graph: Graph, budget: Budget) -> tuple[Graph, Run, tuple[Taken, ...]]:
    """Return a graph with what its inputs are for, its usual run, and by what each was decided.

    Args:
        graph: as `said` returns it: what a caller has said holds.
        budget: how much an interpretation may cost.
    """
    given = dict(graph.roles)
    graph = replace(graph, roles={**_by_use(graph), **given})
    graph, run = with_tokens_first(graph, first_run(graph, budget), budget)
    decided: dict[str, str] = {}
    named: list[Named] | None = None
    for item in list(_candidates(graph, given))[:TRIED]:
        named = encodings_of(run) if named is None else named
        role = roles_of(graph)[item.name]
        if role == "places" or (_evident(run, named, item.name) and role not in UNTOLD):
            if role == "places" and _evident(run, named, item.name):
                decided[item.name] = NUMBERS
            continue
        # a number of its own is where positions begin
        other = replace(graph, roles={**graph.roles, item.name: "before" if item.shape == (1,) else "places"})
        tried = first_run(other, budget)
        if tried.stopped is None or run.stopped is not None:
            found = encodings_of(tried)
            if _evident(tried, found, item.name):
                graph, run, named = other, tried, found
                decided[item.name] = NUMBERS
    classes = [] if named is None and not _weak(graph, given) else list(_classes(graph, run, named, given))
    if classes:
        graph = replace(graph, roles={**graph.roles, **dict.fromkeys(classes, "types")})
        run = first_run(graph, budget)
        decided |= dict.fromkeys(classes, NUMBERS)
    return graph, run, tuple(_taken(graph, given, decided))


def _taken(graph: Graph, given: Mapping[str, str], decided: Mapping[str, str]) -> Iterator[Taken]:
    by_name = roles_of(replace(graph, roles={}))
    for name, role in roles_of(graph).items():
        if name in given:
            why = SAID
        elif name in decided:
            why = BOTH if named_role(name) == role else decided[name]
        elif by_name[name] != role:
            why = NUMBERS
        else:
            why = NAMES if named_role(name) == role else OPERATOR if role in ("last", "total") else "its type"
        yield Taken(name, SHOWN.get(role, role), why)


def _weak(graph: Graph, given: Mapping[str, str]) -> list[Input]:
    return [item for item in graph.inputs if item.name not in given and re.search(WEAK, item.name.lower())]


def _classes(graph: Graph, run: Run, named: list[Named] | None, given: Mapping[str, str]) -> Iterator[str]:
    """Yield inputs that only a weak name makes positions, and that pick rows of a table too small for them."""
    found = encodings_of(run) if named is None else named
    for item in _weak(graph, given):
        own = [entry for entry in found if entry.positions == item.name or item.name in _inputs(run, entry)]
        rows = [entry.rows for entry in own if entry.form.traits.is_learned and entry.rows is not None]
        if rows and len(rows) == len(own) and max(rows) < FEWEST and roles_of(graph)[item.name] == "places":
            yield item.name


def _evident(run: Run, named: list[Named], name: str) -> bool:
    """Return whether numbers of an input have become an encoding whose form is that of positions."""
    return any(
        entry.form.traits.is_evident
        and entry.form.name not in ("table", "no position")
        and (entry.positions == name or name in _inputs(run, entry))
        for entry in named
    )


def _inputs(run: Run, entry: Named) -> set[str]:
    values = [run.values.get(name) for name in entry.tensors]
    return {name for value in values if isinstance(value, Position) for name in value.inputs}


def _candidates(graph: Graph, given: Mapping[str, str]) -> Iterator[Input]:
    """Yield the inputs that may be positions by what nodes do with them."""
    for item in graph.inputs:
        if item.name in given or not item.shape or len(item.shape) > 3:
            continue
        kind = item.dtype.kind
        fixed = [size for size in item.shape if isinstance(size, int)]
        # coordinates of places may be floats; so may be everything else, unless it is as narrow
        is_float = "float" in item.dtype.name and len(fixed) < len(item.shape) and max(fixed, default=0) <= COORDINATES
        if (kind in "iu" and item.dtype.itemsize > 1) or (is_float and named_role(item.name) in (None, "places")):
            uses = set(_uses(graph, item.name))
            if uses & {"angles", "cache"}:
                yield item


def _by_use(graph: Graph) -> dict[str, Role]:
    """Return the roles of inputs whose names say nothing: masks are compared and counted, sound goes into filters."""
    by_name, roles = roles_of(graph), dict[str, Role]()
    for item in graph.inputs:
        if named_role(item.name) is not None or any(isinstance(size, int) for size in item.shape):
            continue
        if by_name[item.name] == "tokens" and len(item.shape) in (2, 3):
            uses = set(_uses(graph, item.name))
            if uses & {"compared", "counted"} and not uses & {"angles", "cache", "rows", "words"}:
                roles[item.name] = "mask"
        elif by_name[item.name] == "data" and len(item.shape) == 2 and "filtered" in _uses(graph, item.name):
            roles[item.name] = "audio"
    return roles


def unsaid(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield inputs that pick rows of a table, and of which neither a name nor numbers say whether they are positions.

    Each comes with the table. A file with a single such input has words there.
    """
    roles = roles_of(graph)
    unnamed = [
        (item.name, tables[0])
        for item in graph.inputs
        if roles[item.name] == "tokens"
        and item.name not in graph.roles
        and not re.search(r"tok|ids?$|words?|label|code", item.name.lower())
        and (tables := list(_rows_of(graph, item.name)))
    ]
    looked_up = [item.name for item in graph.inputs if roles[item.name] == "tokens" and any(_rows_of(graph, item.name))]
    if len(looked_up) > 1:
        yield from unnamed


def _rows_of(graph: Graph, name: str) -> Iterator[str]:
    return (use.partition(" ")[2] for use in _uses(graph, name) if use.startswith("rows "))


def _uses(graph: Graph, name: str) -> Iterator[str]:
    """Yield what becomes of an input, as long as nothing but constants and sizes comes to it.

    "angles" of sines and cosines; rows of a "cache" that begins as one of cosines and sines does; "rows", and "rows
    TABLE", of another table; "words" of an operator that embeds; "compared" as a mask is, "counted" by a sum that
    runs on; "filtered" by a convolution.
    """
    own, fixed, counted = {name}, set(graph.constants), set[str]()
    tables, names = dict(graph.constants), {entry: entry for entry in graph.constants}
    for node in graph.nodes:
        inputs = [entry for entry in node.inputs if entry]
        if node.op_type in SIZES or not own.intersection(inputs):
            if node.op_type in SIZES or fixed.issuperset(inputs):
                fixed.update(node.outputs)
                if inputs and inputs[0] in tables and node.op_type not in SIZES:
                    tables.update(dict.fromkeys(node.outputs, tables[inputs[0]]))
                    names.update(dict.fromkeys(node.outputs, names[inputs[0]]))
            continue
        has_counted = bool(counted.intersection(inputs))
        if node.op_type in LOOKUPS and len(inputs) > 1 and inputs[1] in own and inputs[0] not in own:
            kind = "cache" if _begins_as_angles(tables.get(inputs[0])) else "rows"
            yield from ("counted",) if has_counted else (kind, f"rows {names.get(inputs[0], inputs[0])}")
            continue
        use = next((word for word, operators in USES.items() if node.op_type in operators), "")
        if use:
            yield "counted" if use == "angles" and has_counted else use
        if use in ("", "compared") and _stays(node, own, fixed):
            own.update(output for output in node.outputs if output)
            if node.op_type == "CumSum" or has_counted:
                counted.update(node.outputs)


def _stays(node: Node, own: set[str], fixed: set[str]) -> bool:
    return all(entry in own or entry in fixed for entry in node.inputs if entry)


def _begins_as_angles(table: Constant | None) -> bool:
    """Return whether the first row of a table is that of cosines and sines: zeros, and one other number at most."""
    if table is None or len(table.shape) < 2 or table.dtype.kind not in "fV" or table.shape[0] < 2:
        return False
    try:
        rows = np.asarray(table.load()[:2], np.float64)
    except (ValueError, TypeError):
        return False
    first = np.unique(np.round(rows[0], 2))
    return first.size <= 2 and bool(np.ptp(rows[1]) > 0)
