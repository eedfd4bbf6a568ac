"""The truth about a file that somebody else's exporter wrote: what it holds, and where it ends, as JSON has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

Parameter = int | float | str | bool | list[float] | list[int]
FAMILIES = ("rotary", "sinusoidal", "learned", "alibi", "t5", "relative", "window", "grid", "timestep")


@dataclass(frozen=True)
class Held:
    """An encoding that a model holds, from its config and its code, never from a graph.

    Args:
        family: as `inspect` names it.
        form: the form within the family: a rope type, a layout, "table".
        parameters: by the names that schemes of this project have; rows and offset for tables.
        layers: the layers that it meets data in; none where it is added to what goes into the first.
        part: "encoder" or "decoder" of a model that has both.
    """

    family: str
    form: str
    parameters: Mapping[str, Parameter]
    layers: tuple[int, ...] = ()
    part: str = ""


@dataclass(frozen=True)
class End:
    """The lengths at which ONNX Runtime runs a file and agrees with the eager model.

    Args:
        first: the least length that is right; None where none is.
        last: the last that is right, all from the first on; None where no end was met, up to `tried`.
        beyond: at the length after the last: "refuses", "wrong" numbers, or "runs", where the model itself refuses.
        tried: the largest length that was tried.
        error: the largest difference at lengths that are right, as a share of the largest value; None without one.
        unit: what a length counts.
    """

    first: int | None
    last: int | None
    beyond: str
    tried: int
    error: float | None
    unit: str = "tokens"


@dataclass(frozen=True)
class Truth:
    """A file, how it was made, and what is true of it.

    Args:
        file: its name in the archive of its model.
        model: a name of the table of models.
        model_type: its name in transformers.
        exporter: which, and with what setting.
        optimizer: what changed the file after that, "" for nothing.
        versions: of the packages that made it.
        sha256: of its bytes.
        size: in bytes.
        inputs: names of its inputs.
        held: the encodings, as the model that it was made from has them.
        dtype: the element type of the model's numbers in the file.
        end: where ONNX Runtime ends or goes wrong.
        must_find: of a faulty file, what is wrong with it, in words; "" for a right one.
        held_in_file: of a faulty file, the encodings that it has instead; None where they are those of the model.
    """

    file: str
    model: str
    model_type: str
    exporter: str
    optimizer: str
    versions: Mapping[str, str]
    sha256: str
    size: int
    inputs: tuple[str, ...]
    held: tuple[Held, ...]
    dtype: str
    end: End
    must_find: str = ""
    held_in_file: tuple[Held, ...] | None = field(default=None)

    @property
    def in_file(self) -> tuple[Held, ...]:
        """The encodings that a right reader of the file names."""
        return self.held if self.held_in_file is None else self.held_in_file


@dataclass(frozen=True)
class Refused:
    """A combination that makes no file, and the first line of why."""

    model: str
    exporter: str
    optimizer: str
    why: str


@dataclass(frozen=True)
class Table:
    """All that is checked in about foreign files.

    Args:
        made: the date of the run of the generator.
        truths: of the files that are checked in.
        refused: what was tried and made no file.
        measured: how many files the generator made and judged, of which the checked-in ones are a choice.
    """

    made: str
    truths: tuple[Truth, ...]
    refused: tuple[Refused, ...]
    measured: int


def _held(content: list[dict[str, object]]) -> tuple[Held, ...]:
    """Return encodings of JSON."""
    return tuple(Held(**{**row, "layers": tuple(row["layers"])}) for row in content)  # type: ignore[arg-type]


def truth_of(content: dict[str, object]) -> Truth:
    """Return the record that a JSON object holds."""
    instead: object = content.get("held_in_file")
    record = {
        **content,
        "inputs": tuple(content["inputs"]),  # type: ignore[arg-type]
        "held": _held(content["held"]),  # type: ignore[arg-type]
        "end": End(**content["end"]),  # type: ignore[arg-type]
        "held_in_file": None if instead is None else _held(instead),  # type: ignore[arg-type]
    }
    return Truth(**record)  # type: ignore[arg-type]


def read_table(path: Path) -> Table:
    """Read the table."""
    content = json.loads(path.read_text(encoding="utf-8"))
    truths = tuple(truth_of(row) for row in content["truths"])
    refused = tuple(Refused(**row) for row in content["refused"])
    return Table(content["made"], truths, refused, content["measured"])


def write_table(table: Table, path: Path) -> None:
    """Write the table, a record a line, so that a change of one shows as one line."""
    rows = ",\n".join(json.dumps(asdict(truth)) for truth in table.truths)
    refused = ",\n".join(json.dumps(asdict(row)) for row in table.refused)
    head = f'"made": {json.dumps(table.made)}, "measured": {table.measured}'
    path.write_text(f'{{{head},\n"truths": [\n{rows}\n],\n"refused": [\n{refused}\n]}}\n', encoding="utf-8")
