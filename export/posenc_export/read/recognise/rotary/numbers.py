"""The numbers that rotations and operators turn by: their form and their error, each computed once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.recognise.flow import Flow
from posenc_export.read.recognise.rotary.operators import TabledOperator
from posenc_export.read.recognise.rotary.rotations import Rotation
from posenc_export.read.recognise.rotary.rows import CosSinRows, rotary_form, rotary_table, row_errors, some_of
from posenc_export.read.recognise.rotary.stored_rows import stored_table
from posenc_export.read.values import Constant, Operand


@dataclass(frozen=True)
class Numbers:
    """Cosines and sines that have a form.

    Args:
        form: what they are.
        error: the largest absolute error of the rows against the form; None without a formula.
        rows: all that are stored, some of those of a large table, or those that were computed, a row a position.
        positions: whole, a row each.
        count: how many rows are stored; None where they are computed.
        exchanged: whether sines stand where cosines should.
    """

    form: Form
    error: float | None
    rows: CosSinRows
    positions: NDArray[np.int64]
    count: int | None
    exchanged: bool = False


@dataclass(frozen=True)
class Reader:
    """Numbers that were read before, by the tensors that hold them, and by what they are.

    Layers mostly take one tensor, or tensors of their own with the same numbers.
    """

    flow: Flow
    _by_tensor: dict[tuple[str, str, bytes], Numbers | None] = field(default_factory=dict)
    _by_number: dict[bytes, tuple[Form, float | None] | None] = field(default_factory=dict)

    def of_rotation(self, rotation: Rotation) -> Numbers | None:
        """Return what a rotation turns by; None where its angles are not those of positions."""
        cosine, sine = rotation.tables
        key = (cosine.tensor, sine.tensor, rotation.rows.digest)
        if key not in self._by_tensor:
            self._by_tensor[key] = self._looked_up(rotation.tables, rotation.rows, rotation.positions)
        return self._by_tensor[key]

    def of_operator(self, operator: TabledOperator) -> Numbers | None:
        """Return what an operator turns by; None where its tables are no cosines and sines."""
        cosine, sine = operator.tables
        key = (cosine.tensor, sine.tensor, b"")
        if key not in self._by_tensor:
            # a table may stand where the other one belongs
            exchanged = CosSinRows(operator.rows.sine, operator.rows.cosine)
            self._by_tensor[key] = self._tabled(operator, operator.rows) or self._tabled(
                operator, exchanged, exchanged=True
            )
        return self._by_tensor[key]

    def _tabled(self, operator: TabledOperator, rows: CosSinRows, *, exchanged: bool = False) -> Numbers | None:
        """Return the numbers of an operator's tables, stored or looked up before."""
        cosine, sine = operator.tables
        if isinstance(cosine.value, Constant):
            return self._named(rows, operator.positions, len(rows), exchanged=exchanged)
        tables = (sine, cosine) if exchanged else (cosine, sine)
        numbers = self._looked_up(tables, rows, operator.positions)
        return None if numbers is None else replace(numbers, exchanged=exchanged)

    def _looked_up(
        self, tables: tuple[Operand, Operand], rows: CosSinRows, positions: NDArray[np.int64]
    ) -> Numbers | None:
        """Return the numbers of the whole table that rows were looked up in, or else of the rows."""
        stored = stored_table(self.flow, tables, rows, positions)
        count = None if stored is None else stored.count
        if stored is not None and stored.rows is not None:
            numbers = self._named(stored.rows, np.arange(stored.count), count)
            if numbers is not None:
                return numbers
        return self._named(rows, positions, count)

    def _named(
        self, rows: CosSinRows, positions: NDArray[np.int64], count: int | None, *, exchanged: bool = False
    ) -> Numbers | None:
        # layers have large tables each: the rows that were looked at stay, and the files are closed
        key = rows.some.digest + positions[:8].tobytes() + positions[-1:].tobytes()
        if key not in self._by_number:
            self._by_number[key] = _form_and_error(rows, positions)
        named = self._by_number[key]
        return None if named is None else Numbers(*named, rows.some, positions[some_of(len(rows))], count, exchanged)


def _form_and_error(rows: CosSinRows, positions: NDArray[np.int64]) -> tuple[Form, float | None] | None:
    """Return the form of rows, and the largest error of some of them."""
    if len(rows) == 0:
        return None
    counted = positions[0] == 0 and bool(np.all(np.diff(positions) == 1))
    form = rotary_table(rows) if counted else rotary_form(rows, positions)
    if form is None:
        return None
    return form, None if form.exact is None else float(row_errors(rows.some, form, positions[some_of(len(rows))]).max())
