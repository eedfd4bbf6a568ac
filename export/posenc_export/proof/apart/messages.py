"""The messages of a process that validates a bundle: a line of JSON each, which is not trusted.

A graph may have taken over the process that runs it. So every value of a message has a type and a bound, and rows name
checks that exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Annotated, Literal, NotRequired, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from posenc_export.bundle import kinds
from posenc_export.common.errors import BadInput, PosencError, ToolFailed, Unavailable, decoded
from posenc_export.proof.checks.catalogue import CATALOGUE
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.running.steps import Key

MAX_CHARACTERS = 20_000
"""Characters of a text."""
MAX_ROWS, MAX_COMPARISONS = 1000, 200_000
MAX_CURVES, MAX_BINS = 2000, 200
ERRORS: Mapping[str, type[PosencError]] = {kind.__name__: kind for kind in (BadInput, Unavailable, ToolFailed)}
"""The errors that end a validation, by name."""
Name: TypeAlias = Annotated[str, Field(max_length=100, pattern=r"^[a-z0-9. -]*$")]
Words: TypeAlias = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Number: TypeAlias = Annotated[int, Field(ge=-1, lt=1000)]


class ProcessRequest(TypedDict):
    """The options of a process, and what it need not do: the steps in `done`, and those of files in `over`.

    A bundle may be a `part` of the one in the folder above.
    """

    runtimes: list[str]
    require: list[str]
    atol: float | None
    rtol: float | None
    prove: bool
    default: list[str]
    trust: bool
    part: bool
    done: list[Key]
    over: list[int]


class Message(TypedDict):
    """A message: one of its fields.

    Args:
        step: The key of a step that begins.
        call: A check of the step that begins, and its call.
        rows: The rows of the step, which is over.
        progress: How far the step is.
        error: The error that ends the validation.
        end: No step follows.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    step: NotRequired[tuple[Number, Words, Name]]
    call: NotRequired[tuple[Name, Words]]
    rows: NotRequired[Annotated[list[Verdict], Field(max_length=MAX_ROWS)]]
    progress: NotRequired[Words]
    error: NotRequired[tuple[Literal["BadInput", "Unavailable", "ToolFailed"], Words]]
    end: NotRequired[bool]


@cache
def _adapter() -> TypeAdapter[Message]:
    return kinds.reader(Message)


def read(line: bytes) -> Message:
    """Return the message of a line; raise ValueError where no validation writes such a line."""
    return _adapter().validate_json(line)


def written(**message: object) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"


def cut(text: str) -> str:
    """Return a text, cut where it is too long."""
    shown = decoded(text)  # JSON has no half of a surrogate pair, as in a name that the locale cannot read
    return shown if len(shown) <= MAX_CHARACTERS else shown[: MAX_CHARACTERS - 3] + "..."


def row_json(row: Verdict) -> dict[str, object]:
    """Return a row as it is written."""
    texts = {"detail": cut(row.detail), "note": cut(row.note)}
    comparisons = [{**vars(comparison), "reason": cut(comparison.reason)} for comparison in row.comparisons]
    return {**vars(row), **texts, "comparisons": comparisons, "curves": [asdict(curve) for curve in row.curves]}


def checked(row: Verdict) -> Verdict:
    """Return a row that was read; raise ValueError where its check does not exist, or where it is too large."""
    if row.check not in CATALOGUE:
        raise ValueError(f"there is no check {row.check!r}")
    texts = [row.subject, row.detail, row.note, *(curve.output for curve in row.curves)]
    texts += [text for one in row.comparisons for text in (one.case, one.output, one.reason)]
    counts = [(len(row.comparisons), MAX_COMPARISONS), (len(row.curves), MAX_CURVES)]
    counts += [(len(curve.bins), MAX_BINS) for curve in row.curves] + [(len(text), MAX_CHARACTERS) for text in texts]
    if any(count > most for count, most in counts):
        raise ValueError("a row has more than any validation finds")
    return row
