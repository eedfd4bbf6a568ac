"""The errors of a file's encodings by position: of all rows of a table, and far out where rows are computed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from posenc_export.read.errors.biases import Bias, BiasErrors, call_errors, far_bias_errors, growth, worst_of
from posenc_export.read.errors.biases import table_errors as bias_table_errors
from posenc_export.read.errors.by_position import Exact, curve, errors_by_position, larger_errors
from posenc_export.read.errors.calls import COUNTED, FAR, LARGEST, MASKS, Calls, Indices
from posenc_export.read.errors.far import Far, far_errors
from posenc_export.read.errors.far_rows import LENGTH, FarRows, far_rows
from posenc_export.read.errors.places import distance_errors, place_errors, stored_distances
from posenc_export.read.errors.rounding import rounded_rotary, rounded_table
from posenc_export.read.errors.tables import Effort, table_errors
from posenc_export.read.first_run import FRAMES, is_left_out, with_outputs
from posenc_export.read.graph import Graph
from posenc_export.read.inspection import Errors, Place, Rounded
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.roles import roles_of
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import axes_of, default_sizes
from posenc_export.read.interpret.state import shape_of
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Array, Constant, Operand, Position, Run, Value

SECONDS = 15.0
"""How long rows of an encoding are computed far out; positions that are not reached in it count as not tried."""
TWO_SIDED = "longrope"
"""The form with other frequencies in longer calls than in short ones."""
BY_LENGTH = ("dynamic", "longrope", "unknown frequencies")
"""Forms whose rows depend on the length of a call, too: they are read in whole calls."""
DENSE = 2**12
"""Positions from 0 on that are all looked at; of those beyond, some."""
SPARSE = 2**12
ROUNDED = 2**9
SEPARATE = 2
"""Tensors that a table of rows is stored in, at most: one for cosines and one for sines."""
LONGER: tuple[Mapping[str, int], ...] = tuple({"length": length} for length in (1021, 509, 251, 127, 61))
IMAGES: tuple[Mapping[str, int], ...] = tuple({"height": 2 * k, "width": 3 * k} for k in (512, 256, 128, 64, 32, 16, 8))
"""Sizes of larger calls, the largest first. Encodings without a formula of positions are measured in them."""
LONGEST = 1 << 14
"""The longest call of this kind: it is as long as a table has rows."""
LARGER_BYTES = 1 << 25
"""Bytes of a value in such a call."""
SAMPLES = (1 << 20, 1 << 17)
"""Samples of sound of a long call, as many as ends are looked for in, and of a shorter one."""
BEYOND, UNTRIED = "in larger calls its numbers were not recognised", "later ones were not tried"
SEEN = 5
"""Positions behind a seam that a call has."""
TABLE_DTYPES = ("int8", "uint8", "bfloat16", "float16", "float32", "float64")
"""Element types of tables, the narrowest first."""


@dataclass(frozen=True)
class LargerCall:
    """A call that is larger than the one in which encodings were recognised.

    Args:
        shapes: of the numbers that were computed, by tensor.
        entries: the encodings that are recognised in it.
        is_whole: whether nothing was too large to be looked into.
    """

    shapes: Mapping[str, tuple[int, ...]]
    entries: Sequence[Named]
    is_whole: bool


@dataclass(frozen=True)
class Measuring:
    """What is needed to measure encodings of a graph.

    Args:
        graph: the graph.
        run: its interpretation at usual sizes, in which encodings were recognised.
        bound: the error that counts as too large.
        budget: how much another interpretation may cost.
        effort: how many numbers of stored tables are compared with float64, all encodings together.
    """

    graph: Graph
    run: Run
    bound: float
    budget: Budget
    effort: Effort = field(default_factory=Effort)
    _composed: dict[tuple[str, ...], bool] = field(default_factory=dict, compare=False)
    _far: dict[tuple[object, ...], Far | None] = field(default_factory=dict, compare=False)
    _larger: dict[object, LargerCall] = field(default_factory=dict, compare=False)

    @cached_property
    def calls(self) -> Calls:
        """Other calls of the graph."""
        return Calls(self.graph, self.run, self.budget)

    def errors(self, named: Named, limit: int = FAR) -> Errors | None:
        """Return the errors of an encoding by position; None where it has no closed form, or rows of another kind.

        Args:
            named: the encoding.
            limit: how many positions are tried where rows are computed, from 0 on.
        """
        if named.form.exact is None or named.form.distances is not None:
            return self._by_place(named, limit)
        if named.form.grows:
            return self._of_bias(named, limit)
        if named.sides:
            return self._of_sides(named)
        if named.rows is not None and not self.is_composed(named):
            # tables of eight bits are numbers only once they are read
            return self._of_table(named, named.rows) or self._looked_up(named, named.rows)
        return self._computed(named, limit)

    def _of_sides(self, named: Named) -> Errors | None:
        """Return the errors of two tables, of which a graph reads one in short calls and the other in long ones."""
        context = named.form.parameters.get("original_max_position_embeddings")
        if not isinstance(context, int):
            return None
        long = replace(self, run=self.calls.interpreted(default_sizes(self.graph, {"length": context + 1}), {}))
        one, other = (measuring.errors(side) for measuring, side in zip((self, long), named.sides, strict=True))
        return None if one is None or other is None else larger_errors(one, other)

    def _by_place(self, named: Named, limit: int) -> Errors | None:
        """Return the errors of a grid, of distances, or of rows without a formula of positions: in the largest call."""
        form = named.form
        if form.is_trained or form.family == "not recognised":
            return None
        whole = self._of_distances(named)
        errors, beyond = whole or place_errors(form, self.bound), ""
        if errors is None or whole is not None:
            return whole
        if named.rows is not None:
            seen = 0 if form.differences is None else len(form.differences)
            return errors if errors.grid or seen >= named.rows else replace(errors, sampled=seen)
        is_given = not errors.grid and roles_of(self.graph).get(named.positions) == "places"
        shapes = [_shape(self.run, name) for name in named.tensors]
        deadline = time.monotonic() + min(SECONDS, self.budget.seconds / 2)
        # the fewer images a video has, the larger they may be
        frames = {"length": FRAMES} if len(errors.grid) > 2 else {}
        lengths = (*([{"length": limit}] if limit <= LONGEST else []), *LONGER)
        for sizes in [{**image, **frames} for image in IMAGES] if errors.grid else lengths:
            if time.monotonic() > deadline:
                break
            call = self._in_larger_call(sizes)
            larger = [call.shapes.get(name) for name in named.tensors]
            if larger == shapes:
                break  # nothing of it depends on these sizes
            same = next((entry.form for entry in call.entries if _is_same(entry, named)), None)
            found = None if same is None else place_errors(same, self.bound)
            if found is not None:
                errors = max(errors, found, key=lambda one: one.last_position or 0)
                break
            if None not in larger and call.is_whole:
                beyond = BEYOND
        is_part = is_given and (errors.last_position or 0) + 1 < limit
        return replace(errors, beyond=beyond or UNTRIED * is_part)

    def _of_distances(self, named: Named) -> Errors | None:
        """Return the errors of a stored table of distances, of which a short call reads some rows; None for others."""
        exact, value = named.form.exact, self.run.values.get(named.tensors[0] if named.tensors else "")
        if exact is None or named.rows is None or not isinstance(value, (Position, Constant)):
            return None
        rows = _loaded(value) if isinstance(value, Constant) else value.array
        for _, table in self._tables((*named.stored, *named.tensors), named.rows):
            read = None if rows is None else rows.reshape(-1, rows.shape[-1])
            distances = None if read is None else stored_distances(named.form, read, table)
            if distances is not None:
                differences = np.abs(table.astype(np.float64) - exact(distances)).max(axis=1)
                return distance_errors(distances, differences, self.bound)
        return None

    def _in_larger_call(self, sizes: Mapping[str, int]) -> LargerCall:
        key = tuple(sizes.items())
        if key not in self._larger:
            budget = replace(self.budget, value_bytes=LARGER_BYTES)
            run = with_outputs(self.graph, interpret(self.graph, default_sizes(self.graph, sizes), {}, budget))
            shapes = {name: shape for name in run.values if (shape := _shape(run, name)) is not None}
            self._larger[key] = LargerCall(shapes, encodings_of(run), not is_left_out(self.graph, run))
        return self._larger[key]

    def _of_bias(self, named: Named, limit: int) -> Errors | None:
        """Return the errors of a bias that grows with the distance: of its table, far out, or in one long call."""
        exact = named.form.exact
        assert exact is not None
        found: BiasErrors | None = None
        if named.rows is not None:
            tables = self._tables((*named.stored, *named.tensors), named.rows)
            found = next(filter(None, (bias_table_errors(table, named.form) for _, table in tables)), None)
        else:
            # each layer may compute its own
            deadline = time.monotonic() + min(SECONDS, self.budget.seconds / 2)
            found = worst_of([self._of_one_bias(named, target, limit, deadline) for target in named.tensors])
        if found is None:
            return None
        errors = curve(found.positions, found.errors, self.bound)
        place: Place = "position" if named.form.name == "key" else "distance"
        last = int(found.positions[-1])
        slope, power = growth(exact, last)
        return replace(errors, last_position=last, is_late=found.is_late, slope=slope, power=power, place=place)

    def _of_one_bias(self, named: Named, target: str, limit: int, deadline: float) -> BiasErrors | None:
        """Return the errors of a tensor far out, or in a call as long as memory allows, or as what is stored."""
        budget = replace(self.budget, value_bytes=MASKS)
        bias = Bias(self.graph, self.run, self.calls.at_length, target, named.form, budget)
        found = far_bias_errors(bias, limit, deadline)
        if found is not None:
            return found
        value = self.run.values.get(target)
        if isinstance(value, Constant) and len(value.shape) > 1:  # every call has the same sizes
            return None if (array := _loaded(value)) is None else call_errors(array, named.form)
        if not isinstance(value, Position) or value.array.ndim < 2:
            return None
        heads = value.array.size // (value.array.shape[-1] * value.array.shape[-2])
        queries = value.array.shape[-2] > 1
        numbers = LARGEST // 8 // max(heads, 1)
        longest = min(limit, int(np.sqrt(numbers)) if queries else min(numbers, FAR))
        stored = (self.run.values.get(name) for name in named.stored)
        sizes = [table.shape[-1] for table in stored if isinstance(table, Constant) and table.shape]
        for length in dict.fromkeys((longest, *(size for size in sizes if 1 < size < longest))):
            arrays = self.calls.in_a_whole_call(length, [target])
            array = None if arrays is None else arrays[target]
            if array is not None and array.ndim > 1 and array.shape[-1] == length:
                return call_errors(array, named.form)
        return None

    def _looked_up(self, named: Named, rows: int) -> Errors | None:
        """Return the errors of the rows that the graph reads of a table."""
        assert named.form.exact is not None
        offset = named.form.parameters.get("offset", 0)
        shift = offset if isinstance(offset, int) and 0 <= offset < rows else 0
        places = np.arange(min(rows, COUNTED) - shift)
        run = self.calls.interpreted(default_sizes(self.graph, {"length": len(places)}), {})
        errors = errors_by_position(_arrays(run, named), named.form.exact, places + shift, self.bound)
        return None if errors is None else replace(errors, last_position=len(places) - 1 + shift)

    def stored_dtype(self, named: Named) -> str:
        """Return the element type in which the table of an encoding is stored; nothing where rows are computed."""
        if named.rows is None:
            return ""
        values = [self.run.values.get(name) for name in (*named.stored, *named.tensors)]
        tables = [
            v for v in values if isinstance(v, Constant) and named.rows in v.shape and v.dtype.name in TABLE_DTYPES
        ]
        return min((str(table.dtype.name) for table in tables), key=TABLE_DTYPES.index, default="")

    def breaks_at(self, named: Named) -> tuple[int, str] | None:
        """Return the first position that gets the numbers of another one, and words for it; None where none does."""
        if named.form.grows:
            return None  # its errors show what is another's number
        far = self._far_out(named, min(FAR, named.rows or FAR))
        return None if far is None or far.breaks is None else (far.breaks, far.words)

    def moves(self, operand: Operand) -> bool:
        """Return whether a value that is the same everywhere in a short call is another one far out."""
        rows = self._rows_of(operand)
        if rows is None:
            return False
        near, far = rows.at(0), rows.at(FAR) or rows.at(self._last_turn(operand))
        if near is None or far is None or np.isin(far[operand.tensor], (0, 1)).all():
            return False  # what is beyond the end of a sound is multiplied by 0
        return not np.array_equal(near[operand.tensor], far[operand.tensor], equal_nan=True)

    def factors(self, operand: Operand) -> Array | None:
        """Return a factor of each position, from 0 to the farthest that is looked at; None for all else."""
        rows = self._rows_of(operand)
        if rows is None:
            return None
        found: list[Array] = []
        for first in range(0, FAR, rows.stride):
            numbers = rows.at(first)
            if numbers is None:
                break
            if numbers[operand.tensor].size != LENGTH:
                return None
            found.append(numbers[operand.tensor].reshape(-1)[: rows.stride])
        last = self._last_turn(operand)
        numbers = rows.at(last) if found and len(found) * rows.stride < FAR else None
        if numbers is not None:
            # the rest of a table, which no whole turn has
            found.append(numbers[operand.tensor].reshape(-1)[len(found) * rows.stride - last :])
        return np.concatenate(found) if found else None

    def _last_turn(self, operand: Operand) -> int:
        """Return where the last turn begins that the stored tables of a value have rows for; 0 where they have few."""
        stored = operand.value.stored if isinstance(operand.value, Position) else frozenset()
        shapes = (_shape(self.run, name) for name in stored)
        return max(0, min((shape[0] for shape in shapes if shape and shape[0] > SEPARATE), default=LENGTH) - LENGTH)

    def _rows_of(self, operand: Operand) -> FarRows | None:
        """Return what computes a value again at other positions; None where it does not follow from a count alone."""
        inputs = operand.value.inputs if isinstance(operand.value, Position) else frozenset()
        places = [name for name in sorted(inputs) if roles_of(self.graph).get(name) == "places"]
        source = places[0] if places else None
        budget = replace(self.budget, value_bytes=MASKS)
        return far_rows(self.graph, self.calls.at_length, [operand.tensor], source, budget)

    def seam_of(self, named: Named) -> int | None:
        """Return the first row of a second table behind a first one that positions run into; None without one.

        A graph that reads two tables of one tensor adds the length of the first to positions of long calls. One that
        does not reads rows of position 0 again behind the first table.
        """
        seam = named.form.parameters.get("original_max_position_embeddings")
        if named.form.parameters.get("long_first_position") != 0 or not isinstance(seam, int):
            return None
        length = seam + SEEN
        run = self.calls.interpreted(default_sizes(self.graph, {"length": length}), {})
        tables = {*named.tensors, *named.stored}
        for node in run.nodes:
            operands = [operand for operand in node.operands if operand is not None]
            if not any(o.tensor in tables or set(getattr(o.value, "stored", ())) & tables for o in operands):
                continue
            places = [o.value.array for o in operands if isinstance(o.value, Position)]
            if any(array.dtype.kind in "iu" and array.size and int(array.max()) == length - 1 for array in places):
                return seam
        return None

    def is_counted(self, named: Named) -> bool:
        """Return whether the graph counts the positions of an encoding, which a caller cannot give."""
        return roles_of(self.graph).get(named.positions) is None

    def is_composed(self, named: Named) -> bool:
        """Return whether rows are put together of tables that are shorter than the positions that they are right for.

        Angle addition has a table for each digit of a position: far beyond the rows of any of them it is right.
        """
        if named.sides or len(named.stored) <= SEPARATE or named.form.exact is None:
            return False
        # asked several times, and each answer takes another interpretation
        if named.tensors not in self._composed:
            errors = self._computed(named)
            beyond = errors is not None and max(errors.positions) >= (named.rows or 0)
            self._composed[named.tensors] = beyond and errors is not None and errors.exceeds_from is None
        return self._composed[named.tensors]

    def _computed(self, named: Named, limit: int = FAR) -> Errors | None:
        """Return the errors of rows that the graph makes: at positions far out, given or counted."""
        assert named.form.exact is not None
        far = self._far_out(named, limit)
        if far is not None and far.errors.size:
            errors = curve(far.positions, far.errors, self.bound)
            last = int(far.positions[-1])
            return replace(errors, last_position=last, sampled=far.sampled, is_late=far.is_late)
        return self._in_one_call(named) or self._in_sound(named)

    def _counts(self, positions: Indices, named: Named) -> Iterator[int]:
        """Yield how many positions to try where a graph refuses all: the rows of its tables, a half, a quarter, ..."""
        shapes = (_shape(self.run, name) for name in named.stored)
        tables = {int((positions < shape[0]).sum()) for shape in shapes if shape}
        halves = {len(positions) >> bits for bits in range(1, 8)}
        yield from sorted((count for count in tables | halves if 1 < count < len(positions)), reverse=True)

    def _in_sound(self, named: Named) -> Errors | None:
        """Return the errors of rows that the graph counts in samples of sound: as many as convolutions leave."""
        exact = named.form.exact
        assert exact is not None
        if "samples" not in axes_of(self.graph).values() or not self.is_counted(named):
            return None
        budget = replace(self.budget, value_bytes=LARGEST)
        shorter = [_shape(self.run, name) for name in named.tensors]
        for samples in SAMPLES:
            run = interpret(self.graph, default_sizes(self.graph, {"samples": samples}), {}, budget)
            arrays = _arrays(run, named)
            if len(arrays) < len(shorter):
                continue
            pairs = (zip(array.shape, shape or (), strict=False) for array, shape in zip(arrays, shorter, strict=True))
            sizes = {size for pair in pairs for size, before in pair if size != before}
            if len(sizes) == 1:
                positions = np.arange(sizes.pop())
                errors = errors_by_position(arrays, exact, positions, self.bound)
                return None if errors is None else replace(errors, last_position=len(positions) - 1, samples=samples)
        return None

    def _in_one_call(self, named: Named) -> Errors | None:
        """Return the errors of rows at some positions, in a single call."""
        exact = named.form.exact
        assert exact is not None
        positions, run = self.calls.positions(named.positions)
        role = roles_of(self.graph).get(named.positions)
        unit, given = named.form.parameters.get("scale", 1.0), positions.astype(np.float64)
        if named.form.traits.is_stepped and isinstance(unit, float) and unit > 1 and self._is_float(named.positions):
            # a model that multiplies steps by 1000 is given fractions of all of them: Flux
            given = positions / unit
            run = self.calls.fed("step", given, {"batch": len(given)})
            exact = _of_fractions(exact, unit)
        arrays = _arrays(run, named)
        if not arrays and role in ("places", "step"):
            for count in self._counts(positions, named):
                run = self.calls.fed(role, given[:count], {"length" if role == "places" else "batch": count})
                arrays = _arrays(run, named)
                if arrays:
                    positions = positions[:count]
                    break
        errors = errors_by_position(arrays, exact, positions, self.bound)
        if errors is None:
            return None
        last = int(positions[-1])
        return replace(errors, last_position=last, sampled=None if last < len(positions) else len(positions))

    def _is_float(self, name: str) -> bool:
        """Return whether an input takes numbers that need not be whole."""
        return any(item.name == name and item.dtype.kind not in "iub" for item in self.graph.inputs)

    def _far_out(self, named: Named, limit: int) -> Far | None:
        """Return the errors of all positions up to a limit; None where rows are not computed from a count alone."""
        key = (named.tensors, limit)
        if key not in self._far:
            self._far[key] = None if _is_by_length(named) else self._measured_far_out(named, limit)
        return self._far[key]

    def _measured_far_out(self, named: Named, limit: int) -> Far | None:
        role = roles_of(self.graph).get(named.positions)
        exact = named.form.exact or self._table_of(named)
        if exact is None or role not in (None, "places", "mask") or not named.tensors:
            return None
        run = self.calls.at_length
        source = named.positions if role == "places" else None
        rows = far_rows(self.graph, run, named.tensors, source, replace(self.budget, value_bytes=MASKS))
        offset = named.form.parameters.get("offset", 0) if named.form.exact is not None else 0
        # a graph may count from 1 on, or an offset may be added to the positions of an input
        for start in dict.fromkeys((offset if isinstance(offset, int) else 0, 0, 1)):
            seconds = min(SECONDS, self.budget.seconds / 2)
            whole = self.calls.in_a_whole_call
            far = None if rows is None else far_errors(rows, _from(exact, start), limit, seconds, whole)
            if far is not None and far.errors.size:
                return far
        return None

    def _table_of(self, named: Named) -> Exact | None:
        """Return the stored rows of a learned table as a function of positions; None for other encodings."""
        offset = named.form.parameters.get("offset", 0)
        if (
            not named.form.traits.is_learned
            or named.rows is None
            or len(named.stored) != 1
            or not isinstance(offset, int)
        ):
            return None
        table = _table(self.run.values.get(named.stored[0]), named.rows)
        if table is None or table.dtype.kind != "f":
            return None
        return lambda positions: table[np.minimum(positions + offset, len(table) - 1)].astype(np.float64)

    def rounded(self, named: Named) -> tuple[Rounded, ...]:
        """Return what half precision does to an encoding with a closed form: to its table, or to its angles."""
        if named.form.exact is None or not named.form.parameters:
            return ()
        if self.is_composed(named):
            return ()
        if named.rows is not None:
            return rounded_table(named.form.exact, _some(named.rows))
        return rounded_rotary(named.form.exact, _some(FAR, ROUNDED)) if named.form.traits.is_turned else ()

    def _of_table(self, named: Named, rows: int) -> Errors | None:
        assert named.form.exact is not None
        # a table may be what was recognised, and what it is made of
        names = dict.fromkeys((*named.tensors, *named.stored))
        measured = table_errors(self._tables(names, rows), named.form.exact, _some(rows), self.effort)
        if measured is None:
            return None
        # rows below the first that is read are for padding
        offset = named.form.parameters.get("offset", 0)
        read = measured.positions >= (offset if isinstance(offset, int) and offset < rows else 0)
        errors = curve(measured.positions[read], measured.errors[read], self.bound)
        sampled = None if measured.rows == rows else measured.rows
        return replace(errors, sampled=sampled, tensor=measured.tensor, last_position=int(measured.positions[-1]))

    def _tables(self, names: Iterable[str], rows: int) -> Iterator[tuple[str, Array]]:
        """Yield tables with a row a position, one at a time: all of a file may be larger than the memory."""
        for name in names:
            table = _table(self.run.values.get(name), rows)
            if table is not None:
                yield name, table


def _is_same(entry: Named, other: Named) -> bool:
    """Return whether two entries are the same encoding, recognised in calls of other sizes."""
    # parameters as they are typed leave out the sizes of a grid
    ours, theirs = (
        (one.nodes, one.form.family, one.form.name, one.form.typed or one.form.parameters) for one in (entry, other)
    )
    return ours == theirs


def _arrays(run: Run, named: Named) -> list[Array]:
    """Return the numbers of an encoding's tensors, of those that are computed."""
    return [value.array for name in named.tensors if isinstance(value := run.values.get(name), Position)]


def _shape(run: Run, name: str) -> tuple[int, ...] | None:
    """Return the shape of numbers; None where they were not computed."""
    value = run.values.get(name)
    return shape_of(value) if isinstance(value, (Constant, Position)) else None


def _of_fractions(exact: Exact, unit: float) -> Exact:
    """Return rows as a function of steps that are divided by a unit before they are given."""
    return lambda steps: exact(steps / unit)  # type: ignore[arg-type]


def _from(exact: Exact, start: int) -> Exact:
    """Return the rows of a form whose first position is another one."""
    return (lambda positions: exact(positions + start)) if start else exact


def _is_by_length(named: Named) -> bool:
    """Return whether rows are those of a form that a call of LENGTH does not have."""
    context = named.form.parameters.get("original_max_position_embeddings")
    # a longer call than the first context has the frequencies of all longer ones
    is_beyond = named.form.name == TWO_SIDED and isinstance(context, int) and context < LENGTH
    return named.form.name in BY_LENGTH and not is_beyond


def _table(value: Value | None, rows: int) -> Array | None:
    """Return a value as (rows, all else), with a row a position; None for every other value."""
    if not isinstance(value, (Constant, Position)):
        return None
    array = _loaded(value) if isinstance(value, Constant) else value.array
    if array is None:
        return None
    axis = next((axis for axis, size in enumerate(array.shape) if size == rows), None)
    if axis is None or not rows or array.dtype.kind in "OUSc":
        return None
    return np.moveaxis(array, axis, 0).reshape(rows, -1)


def _loaded(value: Constant) -> Array | None:
    """Return stored numbers; None where they are missing, or too many."""
    try:
        return value.load()
    except ValueError:
        return None


def _some(rows: int, sparse: int = SPARSE) -> Indices:
    """Return all positions of a few rows; of many, the first ones and some of the others, with the last."""
    if rows <= DENSE + sparse:
        return np.arange(rows)
    return np.concatenate([np.arange(DENSE), np.linspace(DENSE, rows - 1, sparse).astype(np.int64)])
