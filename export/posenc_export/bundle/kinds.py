"""Types of values in JSON files, manifests and reports, each with words for what a value must be."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, cast, get_args

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from posenc import ports
from posenc.spec import Method, Positions

INT64 = 2**63
T = TypeVar("T")


@dataclass(frozen=True)
class Must:
    """Words for what a value must be, in the place of pydantic's own."""

    words: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the type, with these words for every error."""
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="must", custom_error_message=self.words
        )


@dataclass(frozen=True)
class FromList:
    """Makes a tuple of a list of JSON, of so many values at least and at most."""

    least: int = 0
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a list of what the tuple holds, with the tuple behind it."""
        held = handler.generate_schema(get_args(source)[0])
        listed = core_schema.list_schema(held, min_length=self.least or None, max_length=self.most)
        return core_schema.no_info_after_validator_function(tuple, listed)


@dataclass(frozen=True)
class FromObject:
    """Lets an object of JSON become a dataclass, which strict reading would take as an instance alone."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the dataclass; its fields stay strict."""
        schema = handler(source)
        resolved: dict[str, Any] = dict(handler.resolve_ref_schema(schema))
        return cast("CoreSchema", {**resolved, "strict": False})


@dataclass(frozen=True)
class OrNull:
    """Reads null as a number that JSON does not have: NaN, or infinity."""

    number: float = math.nan

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a number or null, with the number behind it."""
        words = Must("a number, or null").__get_pydantic_core_schema__(float | None, handler)
        return core_schema.no_info_after_validator_function(self._read, words)

    def _read(self, value: float | None) -> float:
        return self.number if value is None else value


def _finite(value: Mapping[str, Any]) -> Mapping[str, Any]:
    json.dumps(value, allow_nan=False)
    return value


def _from_config(value: Mapping[str, str]) -> Mapping[str, str]:
    if value and "config" not in value:
        raise ValueError("it does not name the config")
    return value


Count = Annotated[int, Field(ge=0, lt=INT64), Must("a whole number of at least 0")]
Natural = Annotated[int, Field(ge=1, lt=INT64), Must("a whole number of at least 1")]
Whole = Annotated[int, Field(ge=-INT64, lt=INT64), Must("a whole number of 64 bits")]
NoCount = Annotated[int | None, Field(ge=0, lt=INT64), Must("a whole number of at least 0, or null")]
NoWhole = Annotated[int | None, Field(ge=-INT64, lt=INT64), Must("a whole number of 64 bits, or null")]
NoNumber = Annotated[float | None, Field(allow_inf_nan=False), Must("a finite number, or null")]
Figure = Annotated[float, OrNull()]
Off = Annotated[float, Field(ge=0, allow_inf_nan=False), Must("a finite number of at least 0")]
Flag = Annotated[bool, Must("true or false")]
Text = Annotated[str, Must("a text")]
PromptPart = Annotated[ports.PromptPart, Must(f"one of {', '.join(get_args(ports.PromptPart))}")]
Naturals = list[Natural]
ID, NUMBER = "[A-Za-z_][A-Za-z0-9_]*", "[1-9][0-9]{0,17}"
Name = Annotated[str, Field(pattern=rf"^{ID}$"), Must("a name of letters, digits and _, that no digit begins")]
PortName = Annotated[
    str,
    Field(pattern=rf"^{ID}(\.[A-Za-z0-9_]+)*$"),
    Must("a name of letters, digits and _, that no digit begins, or several with dots between"),
]
NoName = Annotated[
    str | None, Field(pattern=rf"^{ID}$"), Must("a name of letters, digits and _, that no digit begins, or null")
]
# past+seq, -1+2*seq, 5+height*width: an optional number, then names or products, with plus between
TERM = rf"({NUMBER}\*)?{ID}(\*{ID})*"
SUM = Must("a name, a sum as past+seq, in outputs one of products as 5+height*width, or empty")
AxisName = Annotated[str, Field(pattern=rf"^((-?{NUMBER}\+)?{TERM}(\+{TERM})*)?$"), SUM]
CaseName = Annotated[str, Field(pattern=r"^[\w.+-]+$", max_length=1000), Must("a name of letters, digits and _.+-")]
FileName = Annotated[
    str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=255), Must("a file's name without control characters")
]
FormatName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100), Must("a name of a format")]
PathName = Annotated[
    str,
    Field(pattern=r"^\w[\w.+-]*(/\w[\w.+-]*)*$", max_length=1000),
    Must("the path of a file in the bundle, with slashes"),
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), Must("a SHA-256 of 64 hexadecimal digits")]
NoDigest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$"), Must("a SHA-256 of 64 hexadecimal digits, or empty")]
DType = Literal["float32", "float16", "bfloat16", "float64", "int64", "int32", "bool"]
Origin = Annotated[
    Mapping[str, str],
    AfterValidator(_from_config),
    Must("empty, or an object of texts with 'config', the file that parameters were read from"),
    Field(json_schema_extra={"anyOf": [{"maxProperties": 0}, {"required": ["config"]}]}),
]
Params = Annotated[Mapping[str, Any], AfterValidator(_finite), Must("an object without NaN and infinity")]
NoMethod = Annotated[Method | None, Must("exact, trig or null")]
NoPositions = Annotated[Positions | None, Must("implicit, offset, explicit, mask or null")]
Listed = Annotated[tuple[T, ...], FromList()]
Some = Annotated[tuple[T, ...], FromList(least=1)]
Files = Annotated[tuple[T, ...], FromList(most=10_000)]
Few = Annotated[tuple[T, ...], FromList(most=100)]
Object = Annotated[T, FromObject()]


def reader(kind: type[T], **modules: object) -> TypeAdapter[T]:
    """Return what reads JSON as values of a type.

    Args:
        kind: The type: its records name types of this file as `kinds.Text`, and load without pydantic.
        modules: What else their annotations name, by its name there.

    """
    adapter = TypeAdapter(kind)
    adapter.rebuild(_types_namespace={"kinds": sys.modules[__name__], **modules})
    return adapter


def schema_text(schema: dict[str, Any]) -> str:
    """Return a JSON schema as text; what docstrings say of fields stands at the fields, with null for None."""
    for record in (schema, *schema["$defs"].values()):
        words, _, fields = record.get("description", "").partition("\n\nArgs:\n")
        for name, said in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", fields, re.MULTILINE):
            record["properties"][name]["description"] = re.sub(r"\bNone\b", "null", " ".join(said.split()))
        record.update({"description": words} if words else {})
    return json.dumps(schema, indent=1) + "\n"
