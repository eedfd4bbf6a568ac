"""What `posenc inspect --json` prints: the records of `inspection.py`, of which the JSON schema is made, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import cast

from pydantic import TypeAdapter

from posenc_export.bundle.kinds import reader, schema_text
from posenc_export.read import kinds
from posenc_export.read.inspection import Inspection


@cache
def adapter() -> TypeAdapter[Inspection]:
    """Return the reader of inspections; it is made when it is needed, since that takes a tenth of a second."""
    return reader(Inspection, kinds=kinds)


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
    return adapter().validate_json(text)


def json_schema() -> str:
    """Return the text of docs/reference/inspection.schema.json."""
    return schema_text(adapter().json_schema(mode="serialization"))


if __name__ == "__main__":
    print(json_schema(), end="")
