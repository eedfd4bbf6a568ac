"""Records of `posenc` as a manifest has them, and what becomes of them: `posenc` itself knows no JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Union

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from posenc.encoding import Tolerance
from posenc.ports import Axis, Kind, Port
from posenc_export.bundle import kinds
from posenc_export.bundle.carries import AnyPortKind, port_kinds
from posenc_export.bundle.case import Case, Padding


@dataclass(frozen=True)
class RecordReader:
    """How a record is read: what its JSON must be, and what makes the record of it."""

    form: type
    make: Callable[[Any], object]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the JSON, with the record behind it."""
        return core_schema.no_info_after_validator_function(self.make, handler.generate_schema(self.form))


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
    masked_atol: NotRequired[kinds.Off]
    room: NotRequired[kinds.Off]
    hard: NotRequired[kinds.Text]


def tolerance_of(data: dict[str, Any]) -> Tolerance:
    """Return a tolerance, read from its JSON."""
    return Tolerance(**data)


def case_of(data: dict[str, Any]) -> Case:
    """Return a case, read from its JSON."""
    names = ("eager_tolerance", "tolerance", "model_tolerance")
    return Case(**{**data, **{name: Tolerance(**data[name]) for name in names if name in data}})


def port_of(data: dict[str, Any]) -> Port:
    """Return a port, read from its JSON."""
    carries = dict(data["carries"])
    made = port_kinds()[carries.pop("what")].carries
    carries = {key: tuple(value) if isinstance(value, list) else value for key, value in carries.items()}
    return Port(data["name"], tuple(_axis_of(axis) for axis in data["axes"]), data["dtype"], made(**carries))


def _axis_of(data: dict[str, Any]) -> Axis:
    return Axis(**{**data, "without": tuple(data.get("without", ()))})


AnyTolerance = Annotated[Tolerance, RecordReader(ToleranceJson, tolerance_of)]
AnyCase = Annotated[Case, RecordReader(CaseJson, case_of)]
AnyPort = Annotated[Port, RecordReader(PortJson, port_of)]
