"""All encodings that an interpreted graph holds."""

from __future__ import annotations

from dataclasses import replace

from posenc.formulas.fitting import Form
from posenc_export.read.interpret.networks import opened
from posenc_export.read.recognise.added.tables import tables_of
from posenc_export.read.recognise.by_formula import name_by_formula
from posenc_export.read.recognise.claims import claim, gathered
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.encodings import rotary_of
from posenc_export.read.recognise.rotary.image import image_rotary_of
from posenc_export.read.recognise.rotary.operators import absent_tables
from posenc_export.read.recognise.scores.biases import biases_of
from posenc_export.read.recognise.sides import axes_of_data
from posenc_export.read.recognise.sources import positions_from
from posenc_export.read.recognise.unrecognised import unrecognised_of
from posenc_export.read.values import Operand, Position, Run

AWAY = "tables not there"
"""The name of angles whose cosines and sines lie in a file that is missing."""


def encodings_of(run: Run) -> list[Named]:
    """Return the encodings that a graph holds, in its order: each meeting is claimed once."""
    named: list[Named] = []
    claimed: set[str] = set()
    axes = axes_of_data(run)
    rotary = rotary_of(run)
    images = image_rotary_of(run, {tensor for encoding in rotary for tensor in encoding.tensors})
    for encoding in (*rotary, *images, *biases_of(run, axes), *tables_of(run, axes)):
        # cosines and sines meet data in several nodes of a layer, of which an encoding has the first
        names = {*encoding.nodes, *(encoding.tensors if encoding.form.traits.is_turned else ())}
        if not claimed.issuperset(names):
            named.append(encoding)
            claimed.update(names, through(run, encoding))
    away = _of_tables_that_are_away(run)
    named += away
    claimed.update(node for encoding in away for node in encoding.nodes)
    # stored rows without a closed form may be those of a formula
    plain = [encoding for encoding in named if encoding.form.traits.is_learned]
    named = [encoding for encoding in named if not encoding.form.traits.is_learned]
    named += _once(run, name_by_formula(run, [*plain, *unrecognised_of(run, axes, claimed)]))
    # dicts keep the last of a key: the first node of a name counts
    order = {node.node: place for place, node in reversed(list(enumerate(run.nodes)))}
    return sorted(named, key=lambda encoding: min(order.get(node, len(order)) for node in encoding.nodes))


def through(run: Run, named: Named) -> frozenset[str]:
    """Return the nodes of the network that made the numbers of an encoding; none where no weights did."""
    values = (run.values.get(tensor) for tensor in named.tensors)
    known = (opened(Operand("", value)).value for value in values if value is not None)
    return frozenset[str]().union(*(value.through for value in known if isinstance(value, Position)))


def _once(run: Run, named: list[Named]) -> list[Named]:
    """Return encodings, and what goes into a network only where what comes out has no name: that is never unnamed."""
    told = [encoding for encoding in named if encoding.form.family != "not recognised"]
    inside = frozenset[str]().union(*(through(run, encoding) for encoding in told))
    return [
        encoding
        for encoding in named
        if encoding in told or not (through(run, encoding) or inside.issuperset(encoding.nodes))
    ]


def _of_tables_that_are_away(run: Run) -> list[Named]:
    """Return rotary encodings whose tables are not there: what their operators say without them."""
    flow = Flow(run)
    claims = []
    for node, table, rows, parameters, ids in absent_tables(flow):
        item = claim(run, Form("rotary", AWAY, parameters), node, table, rows=rows)
        source = "range" if ids is None else positions_from(run, ids.value)
        claims.append(replace(item, positions=source))
    return gathered(claims)
