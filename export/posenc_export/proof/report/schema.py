"""What report.json and `--json` hold, field by field: docs/report.schema.json is made of it."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from posenc.spec import Mode
from posenc_export.bundle.kinds import Digest, Flag, Natural, NoNumber, NoWhole, Text, Whole

Code = Annotated[str, Field(pattern=r"^PE\d{3}$")]


class ComparisonJson(TypedDict):
    """One output in one case, compared with an expected one; null where an error is NaN or infinite."""

    case: Text
    output: Annotated[str, Field(description="empty where the call itself failed; scores: q k^T of both")]
    against: Literal["eager", "reference", "model"]
    max_abs: NoNumber
    max_ulp: NoNumber
    position: Annotated[NoWhole, Field(description="where the largest error is")]
    passed: Flag
    reason: Annotated[str, Field(description="why it did not pass")]
    peak: Annotated[NoNumber, Field(description="the largest magnitude that was expected")]


class BinJson(TypedDict):
    """The largest error in a range of positions, two ranges from a power of two to the next."""

    position: Annotated[Whole, Field(description="where that error is")]
    error: NoNumber
    allowed: Annotated[NoNumber, Field(description="how far that element may be off")]


class CurveJson(TypedDict):
    """The largest errors of an output by position, in all cases of a runtime."""

    output: Text
    against: Literal["eager", "reference", "model"]
    bins: list[BinJson]


class VerdictJson(TypedDict):
    """The result of one check of one file, or one runtime."""

    subject: Annotated[str, Field(description="a format, a runtime, golden.npz or other files")]
    check: Annotated[str, Field(description="a name that `posenc explain` knows")]
    code: Code
    status: Annotated[Literal["pass", "fail", "skip"], Field(description="skip: it did not run here")]
    detail: Annotated[str, Field(description="why it failed or did not run; or what was tried")]
    comparisons: list[ComparisonJson]
    note: Annotated[str, Field(description="what a user should know although nothing failed; mostly nothing")]
    curves: Annotated[
        NotRequired[list[CurveJson]], Field(description="errors by position, where outputs differ; none in old reports")
    ]


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
    verdicts: list[VerdictJson]
    markdown_sha256: Annotated[NotRequired[Digest], Field(description="of report.md; only in a bundle's report.json")]
    html_sha256: Annotated[NotRequired[Digest], Field(description="of report.html, where --html wrote one")]
    sha256: Annotated[
        NotRequired[Digest], Field(description="of report.json, with 64 zeros in the place of this; only there")
    ]


@cache
def adapter() -> TypeAdapter[ReportJson]:
    """Return the validator of a report; it is made when it is needed, since that takes a tenth of a second."""
    return TypeAdapter(ReportJson)


def json_schema() -> str:
    """Return the text of docs/report.schema.json."""
    return json.dumps(adapter().json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
