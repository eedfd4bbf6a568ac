"""The maker of encodings: a source, how that meets what comes in, and the mathematics, put together in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc.call import Call, Formula
from posenc.encoding import Bounded, CaseLike, Encoding, Probes, Tables, Tolerance, ToleranceOf, no_tables
from posenc.ports import Array, Feeds, Integers, Port
from posenc.spec import Spec

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Join:
    """How a source meets what comes in: a module that owns the source, with its ports.

    rounding: what the join costs: a sum with x, and a cast to a narrower dtype.
    family, added, shape: as in Encoding.
    """

    family: str
    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    rounding: Tolerance
    added: bool = False
    shape: Mapping[str, int | bool] | None = None


@dataclass(frozen=True)
class Claims:
    """What a source says of what it gives, before the join rounds it.

    error: how far it may be from the float64 reference in a call.
    graph_error: how far a graph's may be from the eager module's, on the CPU.
    end, probes, half_safe, tables: as in Encoding.
    """

    error: ToleranceOf
    graph_error: ToleranceOf
    tables: Callable[[], Tables]
    probes: Probes
    end: int | None = None
    half_safe: str = ""


def largest_position(case: CaseLike) -> int:
    """Return the largest position of a call."""
    return case.max_position


def claims_of(
    source: Bounded,
    *,
    tables: str | Callable[[], Tables],
    probes: Probes,
    end: int | None = None,
    at: Callable[[CaseLike], int] = largest_position,
) -> Claims:
    """Return what a source says of itself.

    tables: what it stores, or why that is not all that is needed.
    at: a call -> the position at which the source is asked for its tolerances.
    """
    return Claims(
        error=lambda case: source.tolerance(at(case)),
        graph_error=lambda case: source.eager_tolerance(at(case)),
        tables=no_tables(tables) if isinstance(tables, str) else tables,
        probes=probes,
        end=end,
        half_safe=source.half_safe,
    )


def encoding(spec: Spec, join: Join, source: Claims, formula: Formula) -> Encoding:
    """Return the encoding that a source makes by a join.

    formula: a call -> the outputs in float64, in the order of the ports; where it looks at `Call.at`, of the rows that
    are wanted alone.
    """

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        outputs = formula(Call(join.inputs, feeds, at, spec.max_len))
        return {port.name: value for port, value in zip(join.outputs, outputs, strict=True)}

    return Encoding(
        family=join.family,
        module=join.module,
        inputs=join.inputs,
        outputs=join.outputs,
        reference=reference,
        tolerance=lambda case: source.error(case).plus(join.rounding),
        eager_tolerance=lambda case: source.graph_error(case).both_rounded(join.rounding),
        tables=source.tables,
        positions=spec.positions,
        end=source.end,
        probes=source.probes,
        shape=join.shape,
        half_safe=source.half_safe,
        added=join.added,
    )
