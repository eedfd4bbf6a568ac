"""The maker of encodings: where positions come from, a source, a join and the mathematics, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posenc.call import Call, Formula
from posenc.counting import narrow
from posenc.encoding import Bounded, CaseLike, Encoding, Probes, Tables, Tolerance, ToleranceOf, no_tables, rounding
from posenc.ports import Array, Feeds, Integers, Port
from posenc.spec import Spec
from posenc.where import Where

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Join:
    """How a source meets the values that come in: returned beside them, added to them, or rotating them.

    Args:
        family: As in Encoding, and so are `added` and `shape`.
        module: It owns the source, and is called with the values, then with what positions are given by.
        values: Ports of the values: x, q and k, scores; none where only positions come in.
        outputs: Ports of the results.
        rounding: What the join costs; None for a sum with the values, if `added`, and a cast to the output's dtype.
    """

    family: str
    module: nn.Module
    values: tuple[Port, ...]
    outputs: tuple[Port, ...]
    added: bool = False
    shape: Mapping[str, int | bool] | None = None
    rounding: Tolerance | None = None


@dataclass(frozen=True)
class Claims:
    """What a source says of its numbers, before the join rounds them.

    Args:
        error: How far they may be from the float64 reference in a call.
        graph_error: How far a graph's numbers may be from the eager module's, on the CPU.
        tables: As in Encoding, and so are `probes`, `half_safe` and `not_on_cuda`.
    """

    error: ToleranceOf
    graph_error: ToleranceOf
    tables: Callable[[], Tables]
    probes: Probes = field(default_factory=Probes)
    half_safe: str = ""
    not_on_cuda: tuple[str, ...] = ()


def largest_position(case: CaseLike) -> int:
    """Return the largest position of a call."""
    return case.max_position


def claims_of(
    source: Bounded,
    *,
    tables: str | Callable[[], Tables],
    probes: Probes | None = None,
    at: Callable[[CaseLike], int] = largest_position,
) -> Claims:
    """Return what a source says of itself.

    Args:
        source: It says its tolerances, and whether it is half-safe.
        tables: What it stores, or why that is not all that is needed.
        probes: What must be tried of it.
        at: A call -> the position at which the source is asked for its tolerances.
    """
    return Claims(
        error=lambda case: source.tolerance(at(case)),
        graph_error=lambda case: source.eager_tolerance(at(case)),
        tables=no_tables(tables) if isinstance(tables, str) else tables,
        probes=probes or Probes(),
        half_safe=source.half_safe,
    )


def encoding(spec: Spec, where: Where, source: Claims, join: Join, reference: Formula) -> Encoding:
    """Return the encoding that a source makes at positions by a join.

    Args:
        spec: What is asked for.
        where: How a call gives positions.
        source: What the source says of itself.
        join: How its numbers meet the values of a call.
        reference: A call -> the outputs in float64, in the order of the ports; where it looks at `Call.at`, the rows
            that are wanted alone.
    """
    if spec.narrow:
        narrow(join.module)
    inputs = (*join.values, *where.ports)
    # A source says how far its own numbers are off; the join adds the cost of its sum and its cast.
    cost = rounding(spec, join.added) if join.rounding is None else join.rounding

    def of_feeds(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        outputs = reference(Call(inputs, feeds, at, spec.max_len))
        return {port.name: value for port, value in zip(join.outputs, outputs, strict=True)}

    return Encoding(
        family=join.family,
        module=join.module,
        inputs=inputs,
        outputs=join.outputs,
        reference=of_feeds,
        tolerance=lambda case: source.error(case).plus(cost),
        eager_tolerance=lambda case: source.graph_error(case).both_rounded(cost),
        tables=source.tables,
        positions=where.positions,
        end=where.end,
        probes=source.probes,
        shape=join.shape,
        half_safe=source.half_safe,
        not_on_cuda=source.not_on_cuda,
        added=join.added,
    )
