"""Calls that must be refused: a user's module is asked first, and those that it answers are left out, with a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posenc.encoding import Encoding
from posenc_export.bundle.carries import kind_of, limits_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.write.targets.answering import answers


@dataclass(frozen=True)
class Asked:
    """The calls to record.

    Args:
        cases: without those that must be refused and that the module answers.
        notes: a line for the report on what it answers.
    """

    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


def refused_by_eager(encoding: Encoding, cases: Sequence[Case], seed: int, *, is_declared: bool = True) -> Asked:
    """Return the cases without those that a user's module answers though they are out of range.

    It may broadcast unlike lengths on purpose, and PyTorch's `table[ids]` counts negative ids from the end. The graph
    may do what the module does.

    Args:
        encoding: The module.
        cases: The planned calls.
        seed: For the numbers that go in.
        is_declared: Whether a user declares the inputs, and may say which numbers come in.
    """
    tried = [case for case in cases if case.unlike or case.refused]
    if rules_of(encoding.family).known_refusals or not tried:
        return Asked(tuple(cases))
    called = encoding.uncalled().module
    answered = {case.name for case in tried if answers(called, encoding.inputs, case, seed)}
    kept = tuple(case for case in cases if case.name not in answered)
    out_of_range = [case for case in tried if case.name in answered and not case.unlike]
    return Asked(kept, tuple(_notes(encoding, out_of_range, is_declared)))


def _notes(encoding: Encoding, answered: Sequence[Case], is_declared: bool) -> list[str]:
    if not answered:
        return []
    below = [case for case in answered if case.first < 0]
    some = ", ".join(f"position {case.first}" for case in below) or ", ".join(case.name for case in answered)
    # ports of positions first: it is positions that are tried out of range where there are any
    ports = sorted(encoding.inputs, key=lambda port: not kind_of(port.carries).gives_positions)
    ends = {port.name: end for port in ports if (end := limits_of(port).end) is not None}
    name, end = next(iter(ends.items()), ("", 0))
    way = f": -i '{name}: ... in 0..{end - 1}' says that no other numbers come in" if name and is_declared else ""
    return [f"the module itself answers out of range ({some}), and the graph may, too{way}"]
