"""Every record of the JSON that is written, as docs/reference/json.md: tables made of the schemas beside it.

python runtime_tests/scripts/records.py > docs/reference/json.md
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from posenc_export.bundle import schema as manifest
from posenc_export.common.markdown import table
from posenc_export.proof.report import schema as report
from posenc_export.read.report import schema as inspection

HEAD = """# JSON: manifest, report, inspection

For those whose programs read what is written. A field is there in every file unless it says "may be left out".
The schemas say the same for programs, and have the fields of records that have no table here.

Made by `python runtime_tests/scripts/records.py > docs/reference/json.md`.
"""
FILES = {
    "manifest": ("`manifest.json` of a bundle", manifest.json_schema),
    "report": (
        "`report.json` of a bundle, and `--json` of `export`, `validate` and `prove`",
        report.json_schema,
    ),
    "inspection": ("`posenc inspect --json`", inspection.json_schema),
}
"""By the name of a schema: what holds such a record, and what makes the schema."""
Schema = Mapping[str, Any]


def type_of(field: Schema) -> str:
    """Return what a field may hold, in a few words."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field or "oneOf" in field:
        return " or ".join(dict.fromkeys(type_of(one) for one in field.get("anyOf") or field["oneOf"]))
    if "const" in field or "enum" in field:
        return ", ".join(f"`{json.dumps(one)}`" for one in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {type_of(field['items'])}" if "items" in field else "list"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"object of {type_of(field['additionalProperties'])}"
    return str(field.get("type", "anything"))


def rows(record: Schema) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a record: name, what it holds, what it means."""
    for name, field in record.get("properties", {}).items():
        left_out = "" if name in record.get("required", ()) else "May be left out. "
        yield f"`{name}`", type_of(field), left_out + " ".join(str(field.get("description", "")).split())


def page() -> str:
    """Return the page: a section a schema, the records that it is made of below it."""
    parts = [HEAD]
    for name, (where, make) in FILES.items():
        schema = json.loads(make())
        parts.append(f"## {name}\n\n{where}: [{name}.schema.json]({name}.schema.json). {schema['description']}\n")
        records = [("", schema), *schema["$defs"].items()]
        for title, record in records:
            head = f"### {title}\n\n{' '.join(record.get('description', '').split())}\n\n" if title else ""
            fields = list(rows(record))
            # where names and types say all, the schema does
            if title and not any(means.removeprefix("May be left out. ") for _, _, means in fields):
                parts.append(head.rstrip() + "\n")
            else:
                parts.append(f"{head}{table(('field', 'holds', 'means'), fields)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
