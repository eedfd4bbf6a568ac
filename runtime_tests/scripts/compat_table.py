"""The table of docs/compatibility.md: every bundle on every runtime. Written by old_runtimes.py, read by tests."""

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- measured -->\n", "<!-- /measured -->\n"
MARKS = {"same bits": "=", "within its tolerance": "~", "loads; from Python no bfloat16 can be given to it": "o"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Rows = Mapping[str, Mapping[str, str]]
"""What came of each file, by runtime."""


@dataclass(frozen=True)
class Cell:
    """What came of a file on a runtime: whether it loads and gives its numbers, and else why not."""

    file: str
    runtime: str
    version: str
    good: bool
    words: str


def put_table(bundles: Mapping[str, Path], rows: Rows) -> None:
    """Put the table, its date, versions and reasons into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{measured(bundles, rows)}{END}{after}", encoding="utf-8")


def measured(bundles: Mapping[str, Path], rows: Rows) -> str:
    """Return the part of the page that is measured."""
    from posenc_export.machine import facts

    reasons = sorted({words for results in rows.values() for words in results.values()} - set(MARKS))
    marks = {**MARKS, **dict(zip(reasons, LETTERS, strict=False))}
    machine = ", ".join(f"{name} {value}" for name, value in facts().items())
    lines = [
        f"Measured on {datetime.datetime.now(datetime.UTC).date()}: {machine}; releases before 1.24 with numpy 1.26.",
        "",
    ]
    titles = [title(name) for name in rows]
    lines += [f"| file | opset, IR | {' | '.join(titles)} |", "| --- " * (len(titles) + 2) + "|"]
    for name, bundle in bundles.items():
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        cells = [marks[results[name]] for results in rows.values()]
        lines.append(f"| {name} | {manifest['opset']}, {manifest['ir_version']} | {' | '.join(cells)} |")
    lines += ["", *(f"* {marks[words]}: {words}" for words in reasons)]
    return "\n".join(lines) + "\n"


def title(runtime: str) -> str:
    """Return a runtime with its version, as it heads a column."""
    from posenc_export.formats.onnx.compatibility import OPENVINO, WEB

    return {"openvino": f"OpenVINO {OPENVINO}", "onnxruntime-web": f"onnxruntime-web {WEB}"}.get(runtime, runtime)


def cells() -> Iterator[Cell]:
    """Yield what the table of the page says."""
    part = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    reasons = dict(re.findall(r"^\* (\w): (.+)$", part, flags=re.MULTILINE))
    table = [line for line in part.splitlines() if line.startswith("|")]
    names, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    for file, _, *marks in lines:
        for name, mark in zip(names[2:], marks, strict=True):
            runtime, _, version = name.rpartition(" ")
            yield Cell(file, runtime, version, mark in MARKS.values(), reasons.get(mark, mark))
