"""Findings as SARIF 2.1.0 (OASIS), which code hosts show beside the files of a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from posenc import __version__
from posenc_export.common.errors import decoded
from posenc_export.read import USUAL, finding_words

if TYPE_CHECKING:
    from posenc_export.common.explanations import Explanation
    from posenc_export.read import Finding, Inspection

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(read: Sequence[tuple[Path, Inspection]], unread: Sequence[tuple[Path, str]]) -> dict[str, object]:
    """Return a log of one run: a rule for each code, a result for each finding, a notification for each unread file.

    Args:
        read: files with what they hold.
        unread: files that could not be read, and why.
    """
    codes = {entry.code: place for place, entry in enumerate(finding_words())}
    results = [_result(path, entry, codes) for path, inspection in read for entry in inspection.findings]
    notes = [{"level": "error", "message": {"text": why}, "locations": [_location(path, "")]} for path, why in unread]
    invocation: dict[str, object] = {"executionSuccessful": not unread, "toolExecutionNotifications": notes}
    driver = {"name": "posenc", "version": __version__, "rules": [_rule(entry) for entry in finding_words()]}
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(entry: Explanation) -> dict[str, object]:
    return {
        "id": entry.code,
        "name": entry.name,
        "shortDescription": {"text": entry.asks},
        "fullDescription": {"text": entry.failure},
        "help": {"text": entry.remedy},
        "defaultConfiguration": {"level": USUAL[entry.name]},
    }


def _result(path: Path, entry: Finding, codes: Mapping[str, int]) -> dict[str, object]:
    where = f"{entry.where}: " if entry.where else ""
    return {
        "ruleId": entry.code,
        "ruleIndex": codes[entry.code],
        "level": entry.severity,
        "message": {"text": f"{where}{entry.detail}"},
        "locations": [_location(path, entry.where)],
    }


def _location(path: Path, where: str) -> dict[str, object]:
    # a file in binary has no lines: hosts want one all the same
    uri = path.absolute().as_uri() if path.is_absolute() else quote(decoded(path.as_posix()))
    place = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}
    return {**place, "logicalLocations": [{"name": where, "kind": "member"}]} if where else {**place}
