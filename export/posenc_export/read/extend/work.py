"""An extension, made in a scratch folder: planned, written, read back, and its ends looked for again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from posenc.formulas.fitting import Form
from posenc_export.bundle.place import check_apart
from posenc_export.common.errors import BadInput
from posenc_export.common.rounding import ceiling
from posenc_export.read.ends import Searched, search_end
from posenc_export.read.extend.exact import swapped
from posenc_export.read.extend.measured import in_batches, measured, of_graph
from posenc_export.read.extend.model import Model, forget_shapes
from posenc_export.read.extend.plan import check_one, chosen, encodings_in
from posenc_export.read.extend.request import ExtendRequest
from posenc_export.read.extend.result import Extended, Grown, Swap, Table, Wall
from posenc_export.read.extend.scaling import Scaling, scaled
from posenc_export.read.extend.tables import Planned, check_form, not_rewritten, planned, proved, rewrite
from posenc_export.read.extend.walls import grow
from posenc_export.read.graph import Graph
from posenc_export.read.graph.data import external
from posenc_export.read.graph.external import Location
from posenc_export.read.graph.read import graph_in
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Constant, Position, Run

ROUNDS = 8
"""How many walls are looked for, one behind another."""
CONSTANTS = 2**29
"""Bytes of the largest table that is read back."""


@dataclass
class Work:
    """An extension on its way.

    Args:
        request: what is to be done.
        graph: the file as it was read.
        searched: where its positions end.
        run: its interpretation.
        model: what is rewritten.
        meant: the encodings that are.
        plans: tables, by name.
        tables: what became of them.
        swaps: chains that were swapped.
        computed: the encodings whose chains these were, with the closed forms that they have now.
        grown: buffers that were made longer.
        notes: what else is worth a line.
    """

    request: ExtendRequest
    graph: Graph
    searched: Searched
    run: Run
    model: Model
    meant: list[Named]
    plans: dict[str, Planned] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    computed: list[tuple[Named, Form]] = field(default_factory=list)
    grown: list[Grown] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def place(self) -> Path:
        """Where the new file is."""
        return Path(self.request.made)


def begun(request: ExtendRequest) -> Work:
    """Return the file as it was read, with the encodings that are meant; BadInput where there are none."""
    graph = graph_in(Path(request.file))
    if graph.missing:
        raise BadInput(f"external data are missing: {', '.join(graph.missing)}: put them beside the file")
    model = Model.load(Path(request.file))
    if request.out:
        check_apart(Path(request.out), model.files())
    searched = search_end(graph)
    # at the last right length, where every row that it reads is seen
    run, named = encodings_in(graph, searched.end.last if searched.end else None)
    meant = chosen(named, request.encoding or None)
    # another scaling is that of one encoding: two bases would become one
    if request.rope_type:
        check_one(meant)
    return Work(request, graph, searched, run, model, meant)


def extended(request: ExtendRequest) -> tuple[Extended, Work]:
    """Make an extension in the scratch folder; raise BadInput, in one line, where it cannot be made."""
    work = begun(request)
    for named in work.meant:
        _add(work, named)
    # buffers alone may end, as stored position ids do
    ends = work.searched.end is not None and request.max_len > work.searched.end.last
    if not work.plans and not work.swaps and not ends:
        raise BadInput(
            "positions are computed in the graph and do not end: there is no table to extend; "
            "--exact makes computed ones exact"
        )
    for plan in work.plans.values():
        work.tables.append(rewrite(work.model, plan, request.keep_rows))
    # shapes that the file notes are those of the old tables
    _forget(work)
    graph = _saved(work)
    _prove(work, graph)
    if work.swaps:
        before, after = of_graph(work.graph, work.run), of_graph(graph)
        pairs = zip(work.swaps, work.computed, strict=True)
        work.swaps = [measured(swap, *forms, before, after) for swap, forms in pairs]
    walls, reached = _walls(work, graph)
    if not (work.tables or work.swaps or work.grown):
        raise BadInput(_why_nothing(work, walls))
    if request.keep_rows:
        work.notes += [_seam(table) for table in work.tables if table.old_error]
    result = Extended(request.shown, request.made, request.max_len, (), (), (), walls, reached)
    return replace(
        result,
        tables=tuple(work.tables),
        swaps=tuple(work.swaps),
        grown=tuple(work.grown),
        notes=tuple(work.notes),
    ), work


def _why_nothing(work: Work, walls: tuple[Wall, ...]) -> str:
    """Return why a file cannot be made longer, of which nothing could be rewritten."""
    other = next((named for named in work.meant if not named.form.traits.is_computed and named.stored), None)
    words = "" if other is None else f"{other.stored[0]}: {not_rewritten(other.form.family)}; "
    ends = "; ".join(f"positions end at {wall.last:,} in {wall.node}: {wall.reason}" for wall in walls)
    return f"{words}nothing in the file can be made longer: {ends or 'no stored table was found'}"


def _add(work: Work, named: Named) -> None:
    """Plan what becomes of an encoding: its tables, or its chain, which is swapped at once."""
    request = work.request
    if named.rows is None:
        _add_computed(work, named)
        return
    check_form(named)
    count = request.max_len or named.rows
    new = _new_form(work, named, count)
    for plan in planned(work.model, named, new, count):
        if plan.quantized:
            work.notes.append(f"{plan.name} was quantised to {plan.quantized}: it is a table of floats now")
        # layers share tables
        old = work.plans.setdefault(plan.name, plan)
        if str(old.new.parameters) != str(plan.new.parameters):
            raise BadInput(f"{plan.name} is the table of two encodings that differ: it cannot be rewritten for both")
        size = work.model.array(plan.name).shape[plan.axis]
        if plan.rows < size:
            raise BadInput(f"{plan.name} has {size} rows now: --max-len {request.max_len} would make it shorter")
    if request.exact:
        work.notes.append(
            f"{named.stored[0]} is a stored table: its rows are exact as they are written, with --exact and without it"
        )


def _add_computed(work: Work, named: Named) -> None:
    request = work.request
    if request.exact:
        if named.form.exact is None:
            raise BadInput(f"{named.nodes[0]}: its frequencies fit no closed form ({named.form.name})")
        if not named.form.traits.is_turned:
            raise BadInput(f"{named.nodes[0]}: --exact is for rotary encodings, and not for {named.form.family}")
        new = _new_form(work, named, request.max_len or 2)
        work.computed.append((named, new))
        work.swaps.append(swapped(work.model, in_batches(work.graph), named, new, request.max_len))
    elif request.rope_type:
        raise BadInput(f"{named.nodes[0]}: its rows are computed: --rope-type needs --exact there, which swaps them")


def _new_form(work: Work, named: Named, count: int) -> Form:
    request = work.request
    if not request.rope_type:
        return named.form
    return scaled(named.form, Scaling(request.rope_type, request.parameters), named.rows or count, count)


def _forget(work: Work) -> None:
    names = {name for name, value in work.run.values.items() if isinstance(value, (Constant, Position))}
    sizes = {table.rows for table in work.tables if table.rows != table.new_rows}
    forget_shapes(work.model.proto, names, sizes)


def _saved(work: Work) -> Graph:
    """Save the model as it is now, and read it back."""
    request = work.request
    if request.weights and not work.place.with_name(request.weights).exists():
        work.model.move_data(work.place.with_name(request.weights))
    work.model.save(work.place, request.tables)
    return graph_in(work.place, CONSTANTS, _data_of(work))


def _data_of(work: Work) -> dict[str, Path]:
    """Return where the data of the new file lie meanwhile: those that it shares with the old one lie beside that."""
    request = work.request
    files = {name: work.place.with_name(name) for name in (request.tables, request.weights) if name}
    for tensor in external(work.model.proto):
        Location.find(tensor, f"tensor {tensor.name!r}", Path(request.file), files)
    return files


def _prove(work: Work, graph: Graph) -> None:
    """Hold every row of the tables that were written against float64, as they are in the new file."""
    written = Model.load(work.place)
    for place, table in enumerate(work.tables):
        # large tables are not among the constants, which are bounded
        constant = graph.constants.get(table.name)
        array = written.array(table.name) if constant is None else constant.load()
        # rows that stay are as they were, right or not
        first = table.rows if work.request.keep_rows else 0
        work.tables[place] = proved(work.plans[table.name], table, array, first)


def _walls(work: Work, graph: Graph) -> tuple[tuple[Wall, ...], int | None]:
    """Return where positions end now, once the buffers that can be made longer are longer."""
    wanted = work.request.max_len
    for _ in range(ROUNDS):
        searched = search_end(graph, max_length=max(wanted, (work.searched.right or 0), 2))
        end = searched.end
        if end is None or end.last >= wanted > 0:
            if searched.reason:
                work.notes.append(f"not seen beyond {searched.right}: {searched.reason}")
            return (), searched.right
        # without --max-len nothing is to be made longer
        if not wanted:
            return (), end.last
        grown = grow(work.model, end, work.run, wanted)
        if not grown:
            return (Wall(end.last, end.node, end.beyond, end.reason),), end.last
        work.grown += grown
        names = {name for name, value in work.run.values.items() if isinstance(value, (Constant, Position))}
        forget_shapes(work.model.proto, names, {buffer.size for buffer in grown})
        graph = _saved(work)
    raise BadInput(f"more than {ROUNDS} walls stand one behind another: the file is of a kind that is not known")


def _seam(table: Table) -> str:
    return (
        f"--keep-rows: {table.name} is off by up to {ceiling(table.old_error)} before row {table.rows}, and exact from "
        "there on: products of queries and keys across that row are off"
    )
