"""What `posenc inspect --json` prints, field by field: docs/reference/inspection.schema.json is made of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from posenc.formulas.families import Family
from posenc.formulas.fitting import Parameter
from posenc_export.read.inspection import (
    AskedFit,
    Attended,
    Beyond,
    ComparedFile,
    End,
    Errors,
    Explained,
    Finding,
    FoundEncoding,
    GraphInput,
    Inspection,
    NotJudged,
    Observed,
    Place,
    Rounded,
    Severity,
    Sight,
    Size,
    Taken,
)

if TYPE_CHECKING:
    from pydantic.config import ExtraValues

FORBID: ExtraValues = "forbid"
Code = Annotated[str, Field(pattern=r"^PE2\d{2}$")]
"""The code of a finding."""
Text = Annotated[str, Field(max_length=2**20)]
Names = Annotated[tuple[Text, ...], Field(max_length=2**17)]
Number = Annotated[float | None, Field(description="null where it is NaN or infinite, or where there is none")]
Whole = int | None


class FindingJson(TypedDict):
    """Something that a user should know of a file."""

    code: Code
    name: Annotated[Text, Field(description="a name that `posenc explain` knows")]
    severity: Annotated[Severity, Field(description="an error fails the inspection")]
    where: Annotated[Text, Field(description="the nodes or tensors that it is about")]
    detail: Text


class ErrorsJson(TypedDict):
    """How far numbers are from their closed form in float64, by position."""

    positions: Annotated[tuple[int, ...], Field(max_length=2**16)]
    errors: Annotated[tuple[Number, ...], Field(max_length=2**16)]
    bound: float
    exceeds_from: Annotated[Whole, Field(description="the first position whose error is larger than the bound")]
    sampled: Annotated[Whole, Field(description="positions that were measured; null where all were")]
    tensor: Annotated[Text, Field(description="the stored table with the largest error; empty without one")]
    last_position: Annotated[Whole, Field(description="the last position that was tried, the first is 0")]
    is_late: Annotated[bool, Field(description="whether time ran out before the last position that was to be tried")]
    slope: Annotated[float, Field(description="by how much the largest number grows with a position; 0: it does not")]
    power: Annotated[float, Field(description="of the position, by which the largest number grows")]
    place: Annotated[Place, Field(description="what positions are: of a grid, the largest coordinate of a place")]
    grid: Annotated[tuple[int, ...], Field(description="places of the largest grid that was tried, along each axis")]
    samples: Annotated[Whole, Field(description="samples of sound that had these positions; null without sound")]
    beyond: Annotated[Text, Field(description="why nothing is known of larger calls; mostly empty")]


class RoundedJson(TypedDict):
    """What becomes of an encoding where every position value is rounded to half precision."""

    dtype: Text
    worst: Number
    position: Whole
    noise_from: Annotated[Whole, Field(description="the first position off by more than a tenth of the largest number")]


class EncodingJson(TypedDict):
    """An encoding of the file."""

    family: Family
    name: Annotated[Text, Field(description="a rope type, or a layout; table where there is no closed form")]
    parameters: Annotated[Mapping[Text, Parameter], Field(description="by the names of this project's schemes")]
    also: Annotated[Names, Field(description="other forms that fit as well")]
    nodes: Annotated[Names, Field(description="where it meets data")]
    layers: Annotated[tuple[int, ...], Field(description="the attentions before which it does, counted from 0")]
    tensors: Names
    stored: Annotated[Names, Field(description="the initializers that it is made of")]
    dtype: Text
    rows: Annotated[Whole, Field(description="positions that its table stores; null where they are computed")]
    positions: Annotated[Text, Field(description="where positions come from: an input, range, or mask NAME")]
    error: Number
    shape: Annotated[tuple[int, ...], Field(description="of a value that is not recognised")]
    errors: ErrorsJson | None
    rounded: tuple[RoundedJson, ...]
    moved: Annotated[tuple[int, ...], Field(description="distances whose row is up to how half precision is rounded")]
    stored_dtype: Annotated[Text, Field(description="the element type of its table; empty where rows are computed")]
    scheme: Annotated[Text, Field(description="a scheme with its parameters, as they are typed; empty without one")]


class EndJson(TypedDict):
    """Where the right positions of the file end."""

    axis: Annotated[Text, Field(description="the dynamic size that grows")]
    last_right: Annotated[Whole, Field(description="the last length at which positions are right; null without an end")]
    tried: int
    node: Text
    beyond: Beyond
    reason: Text


class NotJudgedJson(TypedDict):
    """Something of which it is not known whether it is right."""

    place: Annotated[Text, Field(description="the node, tensor, input or file that it is about")]
    reason: Annotated[Text, Field(description="what was not judged there, and why")]


class ComparedJson(TypedDict):
    """A config, or the file before, that the file was compared with."""

    file: Text
    encodings: Annotated[int, Field(description="encodings of the file that it could be compared with")]
    agrees: Annotated[bool, Field(description="whether no finding says that they differ")]
    layers: Annotated[int | None, Field(description="of a rotary config: how many layers of the file rotate")]
    of_layers: Annotated[int | None, Field(description="how many layers rotate by that config")]
    lists: Annotated[tuple[str, ...], Field(description="longrope's lists by which the file and the config turn alike")]


class InputJson(TypedDict):
    """An input of the file; a size is a number, the name of a dynamic size, or null where the file says nothing."""

    name: Text
    shape: tuple[Size, ...]
    dtype: Text


class AskedFitJson(TypedDict):
    """What a formula said when it was asked about numbers that were seen."""

    scheme: Text
    guesses: int
    name: Annotated[Text, Field(description="the form within the scheme of the nearest guess")]
    parameters: Annotated[Mapping[Text, Text], Field(description="those of the nearest guess; empty without one")]
    off: Annotated[Number, Field(description="how far off that guess is; null without one")]
    allowed: Annotated[Number, Field(description="how far off it may be")]
    agrees: bool


class ObservedJson(TypedDict):
    """Numbers that follow from positions, as formulas were asked about them."""

    kind: Annotated[Text, Field(description="how they meet data: bias, rows, rotation and others")]
    how: Text
    axes: Text
    shapes: Annotated[Names, Field(description="in which they were asked about: tokens in a row may be a grid")]
    dtype: Text
    numbers: Annotated[tuple[Number, ...], Field(description="the first of them; angles of rotations", max_length=64)]
    lowest: Number
    highest: Number
    stored: Annotated[Names, Field(description="what is stored of which they were made; single numbers by value")]
    fits: tuple[AskedFitJson, ...]


class ExplainedJson(TypedDict):
    """What is seen at a node, and which formulas were asked about it."""

    name: Annotated[Text, Field(description="the node, or the value, that --explain named, or that no form has")]
    op_type: Text
    operands: Annotated[Names, Field(description="what comes in, in words")]
    words: Annotated[Text, Field(description="what it was recognised as, or why no formula was asked")]
    observed: tuple[ObservedJson, ...]
    is_asked: Annotated[bool, Field(description="whether --explain named it; else nothing there was recognised")]


class AttendedJson(TypedDict):
    """What becomes of the queries, the keys and the values of an attention: the nodes in which they are turned."""

    layer: int
    node: Text
    queries: Names
    keys: Names
    values: Names


class SightJson(TypedDict):
    """Which keys the queries of an attention see."""

    layer: int
    node: Text
    later: Annotated[bool | None, Field(description="whether keys behind a query's own place are; null: not known")]
    window: Annotated[Whole, Field(description="keys that a query sees, its own among them; null without a limit")]
    tried: Annotated[int, Field(description="keys of the longest call that was tried; 0: nothing is known of windows")]


class TakenJson(TypedDict):
    """What an input was taken for."""

    name: Text
    role: Annotated[Text, Field(description="positions, mask, tokens, length, data and others")]
    why: Annotated[Text, Field(description="by which it was taken so: its numbers, its name, or what a caller said")]


class InspectionJson(TypedDict):
    """What a file holds of positions, and what is wrong with it."""

    __pydantic_config__ = ConfigDict(strict=True, extra=FORBID)  # type: ignore[misc]

    schema_version: int
    file: Text
    nodes: Annotated[int, Field(description="with functions inlined")]
    opsets: Mapping[Text, int]
    inputs: tuple[InputJson, ...]
    encodings: tuple[EncodingJson, ...]
    ends: tuple[EndJson, ...]
    attentions: int
    attended: Annotated[tuple[AttendedJson, ...], Field(description="attentions of a file that turns anything")]
    sights: Annotated[tuple[SightJson, ...], Field(description="which keys the queries of each attention see")]
    taken: Annotated[tuple[TakenJson, ...], Field(description="what the inputs were taken for")]
    missing: Annotated[Names, Field(description="files of external data that are not there")]
    stopped: Annotated[Text, Field(description="where reading the graph stopped; empty where it went through")]
    findings: tuple[FindingJson, ...]
    not_judged: Annotated[
        tuple[NotJudgedJson, ...], Field(description="neither right nor wrong by this inspection", max_length=2**17)
    ]
    compared: Annotated[tuple[ComparedJson, ...], Field(description="with what --config and --against give")]
    explained: Annotated[tuple[ExplainedJson, ...], Field(description="nodes of --explain, and those not recognised")]


@cache
def adapter() -> TypeAdapter[InspectionJson]:
    """Return the validator of an inspection; it is made when it is needed."""
    return TypeAdapter(InspectionJson)


def inspection_json(inspection: Inspection) -> dict[str, object]:
    """Return an inspection as JSON has it: numbers that JSON lacks become null."""
    return cast("dict[str, object]", _finite(asdict(inspection)))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def inspection_read(text: bytes | str) -> Inspection:
    """Return an inspection of JSON; raise ValueError where no inspection is written so."""
    data = adapter().validate_json(text)
    inputs = tuple(GraphInput(**entry) for entry in data["inputs"])
    encodings = tuple(_encoding(entry) for entry in data["encodings"])
    ends = tuple(End(**entry) for entry in data["ends"])
    findings = tuple(Finding(**entry) for entry in data["findings"])
    others = tuple(NotJudged(**entry) for entry in data["not_judged"])
    lists = {
        "inputs": inputs,
        "encodings": encodings,
        "ends": ends,
        "findings": findings,
        "not_judged": others,
        "attended": tuple(Attended(**entry) for entry in data["attended"]),
        "sights": tuple(Sight(**entry) for entry in data["sights"]),
        "taken": tuple(Taken(**entry) for entry in data["taken"]),
        "compared": tuple(ComparedFile(**entry) for entry in data["compared"]),
        "explained": tuple(_explained(entry) for entry in data["explained"]),
    }
    return Inspection(**{**data, **lists})  # type: ignore[arg-type]


def _explained(data: ExplainedJson) -> Explained:
    observed = tuple(
        Observed(**{**entry, "fits": tuple(AskedFit(**fit) for fit in entry["fits"]), **_with_nan(entry)})  # type: ignore[arg-type]
        for entry in data["observed"]
    )
    return Explained(**{**data, "observed": observed})  # type: ignore[arg-type]


def _with_nan(data: ObservedJson) -> dict[str, object]:
    """Return the numbers of an observation, of which null was none."""
    ends = {"lowest": data["lowest"], "highest": data["highest"]}
    known = {name: math.nan if number is None else number for name, number in ends.items()}
    return {**known, "numbers": tuple(math.nan if number is None else number for number in data["numbers"])}


def _encoding(data: EncodingJson) -> FoundEncoding:
    measured = data["errors"]
    rounded = tuple(Rounded(**entry) for entry in data["rounded"])
    errors = None
    if measured is not None:
        errors = Errors(**{**measured, "errors": _infinite(measured["errors"])})  # type: ignore[arg-type]
    return FoundEncoding(**{**data, "errors": errors, "rounded": rounded})  # type: ignore[arg-type]


def _infinite(errors: tuple[float | None, ...]) -> tuple[float, ...]:
    # null was NaN, or infinite
    return tuple(math.inf if error is None else error for error in errors)


def json_schema() -> str:
    """Return the text of docs/reference/inspection.schema.json."""
    return json.dumps(adapter().json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
