"""What a process that validates a bundle says of it: a line of JSON each, read as a stranger's.

Whoever wrote a graph may have taken the process over that runs it: every value has a type and a bound, and a row is of
a check that there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal, NotRequired, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from posenc_export.errors import BadInput, PosencError, ToolFailed, Unavailable, decoded
from posenc_export.validation.checks.catalogue import CATALOGUE
from posenc_export.validation.judging.verdict import Against, Comparison, Status, Verdict

MOST_CHARACTERS = 20_000
"""Characters of a text."""
LINE = 2**26
"""Bytes of a line."""
MOST_ROWS, MOST_COMPARISONS = 1000, 200_000
ERRORS: Mapping[str, type[PosencError]] = {one.__name__: one for one in (BadInput, Unavailable, ToolFailed)}
"""What ends a validation, by name."""
Name: TypeAlias = Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9. -]*$")]
Words: TypeAlias = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Number: TypeAlias = Annotated[int, Field(ge=-1, lt=1000)]
Position: TypeAlias = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class ComparisonSaid(TypedDict):
    """One output in one case; NaN and infinity are numbers here."""

    case: Words
    output: Words
    against: Against
    max_abs: float
    max_ulp: float
    position: Position | None
    passed: bool
    reason: Words
    peak: float


class RowSaid(TypedDict):
    """A row of the report."""

    subject: Words
    check: Name
    status: Status
    detail: Words
    comparisons: Annotated[list[ComparisonSaid], Field(max_length=MOST_COMPARISONS)]
    note: Words


class Message(TypedDict):
    """A line.

    step: its key, and what a display says of it. call: a check of it that begins, and a call of that. rows: what came
    of the step. progress: how far it is. error: what ends all of it. end: there is no further step.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    step: NotRequired[tuple[Number, Words, Name]]
    call: NotRequired[tuple[Name, Words]]
    rows: NotRequired[Annotated[list[RowSaid], Field(max_length=MOST_ROWS)]]
    progress: NotRequired[Words]
    error: NotRequired[tuple[Literal["BadInput", "Unavailable", "ToolFailed"], Words]]
    end: NotRequired[bool]


@cache
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


def read(line: bytes) -> Message:
    """Return what a line says; raise ValueError where it is none that a validation writes."""
    return _adapter().validate_json(line)


def written(**message: object) -> bytes:
    """Return a line."""
    return json.dumps(message).encode() + b"\n"


def cut(text: str) -> str:
    """Return a text, of one that is too long its beginning."""
    shown = decoded(text)  # half of a pair, as in a name that the locale cannot read, is no JSON
    return shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 3] + "..."


def row_json(row: Verdict) -> dict[str, object]:
    """Return a row as it is written."""
    texts = {name: cut(getattr(row, name)) for name in ("detail", "note")}
    comparisons = [{**vars(one), "reason": cut(one.reason)} for one in row.comparisons]
    return {**vars(row), **texts, "comparisons": comparisons}


def row_read(said: RowSaid) -> Verdict:
    """Return a row that was read; raise ValueError where it is of a check that there is not."""
    if said["check"] not in CATALOGUE:
        raise ValueError(f"there is no check {said['check']!r}")
    comparisons = tuple(Comparison(**one) for one in said["comparisons"])
    return Verdict(said["subject"], said["check"], said["status"], said["detail"], comparisons, said["note"])
