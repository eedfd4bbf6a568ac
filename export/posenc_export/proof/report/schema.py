"""What report.json and `--json` hold, field by field: docs/reference/report.schema.json is made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, NotRequired

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from posenc.spec import Mode
from posenc_export.bundle import kinds
from posenc_export.bundle.kinds import Digest, Natural, Text
from posenc_export.proof.judging.verdict import Verdict

CODE = re.compile(r"PE\d{3}")
Code = Annotated[str, Field(pattern=rf"^{CODE.pattern}$")]


@dataclass(frozen=True)
class WithCode:
    """A verdict as a report has it: with the code of its check."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a verdict, with a look at the code before it."""
        return core_schema.no_info_before_validator_function(_without_code, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema of a verdict, with a code; those of models of one graph have no part."""
        reference = handler(schema)
        verdict = handler.resolve_ref_schema(reference)
        verdict["properties"]["code"] = {**TypeAdapter(Code).json_schema(), "description": "The code of the check."}
        left_out = ("curves", "part")  # reports of older versions have no curves
        verdict["required"] = [*(name for name in verdict["required"] if name not in left_out), "code"]
        return reference


def _without_code(data: object) -> object:
    """Return a row without its code; raise ValueError where it has none."""
    if not isinstance(data, dict) or not CODE.fullmatch(str(data.get("code"))):
        raise ValueError("a verdict must have the code of its check")
    return {name: value for name, value in data.items() if name != "code"}


class ReportJson(TypedDict):
    """A report: the result of the validation of a bundle."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    schema_version: Natural
    bundle: Annotated[NotRequired[str], Field(description="the bundle's folder; only in what --json prints")]
    scheme: Text
    mode: Mode
    passed: Annotated[bool, Field(description="whether something was validated, and nothing failed")]
    headline: Text
    manifest_sha256: Digest
    tolerance: Annotated[str, Field(description="derived, or in words the one that was given, or the loosest")]
    reference: Text
    model: Annotated[NotRequired[str], Field(description="of what --from-hf read: the model's code that was asked")]
    notes: list[Text]
    not_tried: list[Text]
    verdicts: list[Annotated[kinds.Object[Verdict], WithCode()]]
    markdown_sha256: Annotated[NotRequired[Digest], Field(description="of report.md; only in a bundle's report.json")]
    html_sha256: Annotated[NotRequired[Digest], Field(description="of report.html, where --html wrote one")]
    sha256: Annotated[
        NotRequired[Digest], Field(description="of report.json, with 64 zeros in the place of this; only there")
    ]


@cache
def adapter() -> TypeAdapter[ReportJson]:
    """Return the validator of a report; it is made when it is needed, since that takes a tenth of a second."""
    return kinds.reader(ReportJson)


def json_schema() -> str:
    """Return the text of docs/reference/report.schema.json."""
    return kinds.schema_text(adapter().json_schema(mode="serialization"))


if __name__ == "__main__":
    print(json_schema(), end="")
