"""manifest.json becomes the records of `manifest.py`: each wrong value is a line with its place.

docs/reference/manifest.schema.json is made of the same records. Types, ranges and names are checked here,
contradictions between fields in `consistency.py`.
"""

from __future__ import annotations

import reprlib
from functools import cache

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from posenc_export.bundle import forms, kinds
from posenc_export.bundle.consistency import misfits
from posenc_export.bundle.counts import too_many
from posenc_export.bundle.manifest import SCHEMA_VERSION, Manifest
from posenc_export.common.errors import BadInput, one_line
from posenc_export.common.names import first_few

MOST_LINES = 10
"""Problems of a manifest that are named; the others are counted."""
WORDS = {
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "dataclass_type": "must be an object",
    "missing": "is missing",
    "extra_forbidden": "is not a field of it",
    "unexpected_keyword_argument": "is not a field of it",
    "too_short": "must hold at least one",
    "too_long": "must hold at most 10,000",
}
"""What is wrong with an object or a list, by pydantic's word for it; types of values have words of their own."""
WITHOUT_VALUE = ("missing", "extra_forbidden", "unexpected_keyword_argument", "too_short", "too_long")


def read_manifest(data: object) -> Manifest:
    """Read a manifest; raise BadInput if it has another schema, or is damaged: a line for each problem."""
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(data, dict) or version is None:
        raise BadInput("manifest.json has no schema_version: it does not describe a bundle")
    # True is an int, too; the schema refuses what is not a version.
    if type(version) is int and version > 0 and version != SCHEMA_VERSION:
        todo = "upgrade it" if version > SCHEMA_VERSION else "export the bundle again"
        raise BadInput(f"the bundle has schema version {version}, this posenc-export reads {SCHEMA_VERSION}: {todo}")
    # Each step relies on the one before: few enough entries, of the right types, that fit each other.
    _refuse(too_many(data))
    try:
        read = _adapter().validate_python(data)
    except ValidationError as error:
        _refuse([f"manifest.json: {_line(problem)}" for problem in error.errors(include_url=False)])
        raise
    _refuse(misfits(read.inputs, read.outputs, read.cases))
    return read


def _refuse(lines: list[str]) -> None:
    """Raise BadInput with a line for each problem, up to `MOST_LINES`."""
    if lines:
        failure = BadInput("\n".join(map(one_line, first_few(lines, MOST_LINES))))
        failure.has_lines = True
        raise failure


@cache
def _adapter() -> TypeAdapter[Manifest]:
    """Return the reader of manifests; it is made when it is needed, since that takes a tenth of a second."""
    return kinds.reader(kinds.Object[Manifest], forms=forms)


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
    """Return the text of docs/reference/manifest.schema.json."""
    return kinds.schema_text(_adapter().json_schema())


if __name__ == "__main__":
    print(json_schema(), end="")
