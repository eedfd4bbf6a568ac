"""The fields of manifest.json: the only table for its validation and for docs/manifest.schema.json.

Types, ranges and names are checked here, contradictions between fields in `consistency.py`.
"""

from __future__ import annotations

import json
import reprlib
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, Union

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from posenc.ports import Kind
from posenc.spec import Method, Mode, Positions
from posenc_export.bundle import kinds
from posenc_export.bundle.carries import AnyPortKind, port_kinds
from posenc_export.bundle.case import Padding


class ToleranceJson(TypedDict):
    """How far an output may be off; see `posenc.encoding.Tolerance`."""

    atol: kinds.Off
    rtol: kinds.Off
    ulps: kinds.Off
    vector: kinds.Off
    bits: kinds.Flag


def _carried(kind: AnyPortKind) -> type:
    """Return the object of a manifest that says what a port of a kind carries."""
    name = kind.carries.__name__
    fields = {"what": Literal[name.lower()]}  # which the union of all kinds is told apart by
    for field, word in kind.fields.items():
        value = getattr(kinds, word.removesuffix("?"))
        fields[field] = NotRequired[value] if word.endswith("?") else value
    typed = TypedDict(f"{name}Json", fields)  # type: ignore[misc]
    typed.__doc__ = str(kind.carries.__doc__).partition("\n")[0]
    return typed


if TYPE_CHECKING:  # a union that is made at run time says nothing to mypy
    CarriesJson = dict[str, object]
else:
    CarriesJson = Annotated[Union[tuple(map(_carried, port_kinds().values()))], Field(discriminator="what")]  # noqa: UP007


class AxisJson(TypedDict):
    """An axis of a port; one of a fixed size needs no name."""

    name: kinds.AxisName
    kind: Kind
    size: kinds.NoCount
    least: kinds.Count
    multiple: kinds.Natural
    most: kinds.NoCount
    without: NotRequired[list[kinds.Count]]


class PortJson(TypedDict):
    """An input or an output."""

    name: kinds.PortName
    axes: list[AxisJson]
    dtype: kinds.DType
    carries: CarriesJson


class FileJson(TypedDict):
    """A file of the bundle beside its graphs."""

    file: kinds.PathName
    bytes: kinds.Count
    sha256: kinds.Digest


class ArtifactJson(TypedDict):
    """A graph, or the weights beside one."""

    file: kinds.FileName
    bytes: kinds.Count
    sha256: kinds.Digest
    format: kinds.FormatName
    eager_tolerance: ToleranceJson | None


class CaseJson(TypedDict):
    """A call that is tried."""

    name: kinds.CaseName
    sizes: dict[str, kinds.Count]
    first: kinds.Whole
    max_position: kinds.Count
    refused: kinds.Flag
    padding: Padding
    eager_tolerance: ToleranceJson
    tolerance: ToleranceJson
    unlike: NotRequired[dict[kinds.PortName, dict[kinds.Name, kinds.Count]]]
    model_tolerance: NotRequired[ToleranceJson]


class ModelJson(TypedDict):
    """The model of a config, whose own code was asked for outputs that golden data keep; or why it was not asked."""

    words: Annotated[str, kinds.Must("a text"), Field(description="the classes and functions that answered")]
    library: Annotated[str, kinds.Must("a text"), Field(description="where they are from, with its version")]
    permutation: Annotated[list[kinds.Count], Field(description="which feature of the model's keys is which of ours")]
    note: kinds.Text
    difference: Annotated[str, kinds.Must("a text"), Field(description="what would agree, where this does not")]
    unasked: Annotated[str, kinds.Must("a text"), Field(description="why it was not asked, if it was not")]
    crashed: kinds.Flag


class GenerationJson(TypedDict):
    """Prompts of one batch, and the tokens that were written behind each."""

    prompts: list[kinds.Naturals]
    tokens: list[kinds.Naturals]


class ManifestJson(TypedDict):
    """manifest.json: what a bundle says of itself."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    schema_version: kinds.Natural
    scheme: kinds.Text
    family: kinds.Text
    params: kinds.Params
    mode: Mode
    method: Annotated[Method | None, kinds.Must("exact, trig or null")]
    positions: Annotated[Positions | None, kinds.Must("implicit, offset, explicit, mask or null")]
    max_len: kinds.Natural
    dtype: kinds.DType
    opset: kinds.Natural
    opset_reason: kinds.Text
    ir_version: kinds.Natural
    loads_on: kinds.Text
    inputs: list[PortJson]
    outputs: Annotated[list[PortJson], Field(min_length=1)]
    artifacts: Annotated[list[ArtifactJson], Field(min_length=1)]
    files: Annotated[list[FileJson], Field(max_length=10_000)]
    cases: list[CaseJson]
    trace: dict[str, kinds.Natural]
    reference: kinds.Text
    versions: dict[str, kinds.Text]
    not_tried: list[kinds.Text]
    notes: list[kinds.Text]
    unread: NotRequired[
        Annotated[
            list[kinds.PortName],
            Field(description="inputs whose values the module does not read: their shape counts alone"),
        ]
    ]
    rotary_op: Literal["decomposed", "onnx", "microsoft", "microsoft-mrope"]
    check_positions: NotRequired[bool]
    half_safe: kinds.Text
    not_on_cuda: NotRequired[
        Annotated[
            list[kinds.Name],
            Field(description="operators that compute rows, and for which ONNX Runtime has no kernel on CUDA"),
        ]
    ]
    added: NotRequired[bool]
    origin: kinds.Origin
    seed: NotRequired[kinds.NoCount]
    model: NotRequired[ModelJson]
    id: NotRequired[kinds.NoDigest]
    facts: NotRequired[dict[str, kinds.Text]]
    foreign: NotRequired[
        Annotated[
            str, kinds.Must("a text"), Field(description="the proved ONNX file of another program, and its writer")
        ]
    ]
    generations: NotRequired[list[GenerationJson]]


WORDS = {
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "missing": "is missing",
    "extra_forbidden": "is not a field of it",
    "too_short": "must hold at least one",
    "too_long": "must hold at most 10,000",
}
"""What is wrong with an object or a list, by pydantic's word for it; types of values have words of their own."""
WITHOUT_VALUE = ("missing", "extra_forbidden", "too_short", "too_long")


@cache
def _adapter() -> TypeAdapter[ManifestJson]:
    return TypeAdapter(ManifestJson)  # made when it is needed: that takes a tenth of a second


def problems(data: object) -> list[str]:
    """Return a line for each wrong value of a manifest, with its place; nothing if all are right."""
    try:
        _adapter().validate_python(data)
    except ValidationError as error:
        return [f"manifest.json: {_line(problem)}" for problem in error.errors(include_url=False)]
    return []


def _line(error: ErrorDetails) -> str:
    kind, place = error["type"], _place(error["loc"])
    must = f"must be {error['msg']}" if kind == "must" else WORDS.get(kind) or f"must be {_choices(error)}"
    return f"{place} {must}" + ("" if kind in WITHOUT_VALUE else f", got {reprlib.repr(error['input'])}")


def _choices(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    return str(context.get("expected") or context.get("expected_tags") or "an object with the field 'what'")


def _place(parts: tuple[int | str, ...]) -> str:
    """Return the place of a value in the file, as cases[3].sizes.seq."""
    # The branch of a union comes after `carries`, and is not part of the place.
    shown = [part for i, part in enumerate(parts) if i < 1 or parts[i - 1] != "carries"]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in shown).removeprefix(".") or "it"


def json_schema() -> str:
    """Return the text of docs/manifest.schema.json."""
    return json.dumps(_adapter().json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
