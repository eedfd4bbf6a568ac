"""The tables of docs/reference/measured/files.md: bundles on runtimes. Scripts write them, tests read them."""

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers.made_parts import part_of, put_part

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "files.md"
SERVERS, PHONES, BROWSERS, PLACED = "measured", "phones", "browsers", "placed"
"""The parts of the page that are measured: releases of ONNX Runtime and what is like it, phones, browsers, CUDA."""
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


def put_table(bundles: Mapping[str, Path], rows: Rows, part: str = SERVERS, note: str = "") -> None:
    """Put a table, its date, versions and reasons into a part of the page; the note stands behind the versions."""
    put_part(PAGE, part, measured(bundles, rows, note))


def measured(bundles: Mapping[str, Path], rows: Rows, note: str = "") -> str:
    """Return a part of the page that is measured."""
    from posenc_export.common.machine import facts

    reasons = sorted({words for results in rows.values() for words in results.values()} - set(MARKS))
    marks = {**MARKS, **dict(zip(reasons, LETTERS, strict=False))}
    machine = ", ".join(f"{name} {value}" for name, value in facts().items())
    lines = [
        f"Measured on {datetime.datetime.now(datetime.UTC).date()}: {machine}{note}.",
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
    from posenc_export.write.formats.onnx.browsers import RUNS_IN
    from posenc_export.write.formats.onnx.compatibility import OPENVINO, WEB
    from posenc_export.write.formats.onnx.phones import MNN, TRACT

    releases = {"openvino": OPENVINO, "onnxruntime-web": WEB, "tract": TRACT, "mnn": MNN, **dict.fromkeys(RUNS_IN, WEB)}
    names = {"openvino": "OpenVINO", "mnn": "MNN"}
    return f"{names.get(runtime, runtime)} {releases[runtime]}" if runtime in releases else runtime


def cells(part: str = SERVERS) -> Iterator[Cell]:
    """Yield what a table of the page says."""
    text = part_of(PAGE, part)
    reasons = dict(re.findall(r"^\* (\w): (.+)$", text, flags=re.MULTILINE))
    table = [line for line in text.splitlines() if line.startswith("|")]
    names, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    for file, _, *marks in lines:
        for name, mark in zip(names[2:], marks, strict=True):
            runtime, _, version = name.rpartition(" ")
            yield Cell(file, runtime, version, mark in MARKS.values(), reasons.get(mark, mark))
