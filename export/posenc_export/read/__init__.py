"""Graphs that others made: which encodings of positions an ONNX file holds, how right they are, and where they end.

* `graph` reads a file without loading its weights. `interpret` goes through its nodes: constants stay closed until
  their numbers are asked for, values that depend on positions alone are computed by `kernels`, and data carry their
  shape.
* Where a position value meets data, `recognise` names its numbers, by the formulas of `posenc.formulas`.
* `inspect` starts a process (`child`) in which `examine` does all of this and returns an `inspection`, the record.
* A call is short at first (`first_run`). `other_lengths` and `starts` read it at other lengths and starts, where more
  shows.
* `errors` compares the numbers with float64 by position. `ends` finds the last right length.
* `comparing` holds a file against a config or another file. `judging` makes `findings` of all, and
  `report` says them. `bad_numbers` looks for NaN, infinity and tables that are no rotation.
* `extend` writes such a file with more positions, and proves it.
* `weighing` says, in a process with limits, how much a file takes that is about to be proved.

A new operator takes a function in `kernels`. A new finding takes an entry in `findings`, and the code that reports it.
A new encoding needs a formula with a `fit`. It needs no change here, unless it is a rope type that depends on the
length of a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.common.doors import door

if TYPE_CHECKING:
    from posenc_export.read.extend.extend import ExtendOptions, extend_file
    from posenc_export.read.extend.lines import extension_lines
    from posenc_export.read.extend.result import Extended
    from posenc_export.read.findings import FINDINGS, USUAL, finding_words
    from posenc_export.read.inspect import InspectOptions, inspect_file
    from posenc_export.read.inspection import Finding, FoundEncoding, Inspection, NotJudged
    from posenc_export.read.loading import Loading
    from posenc_export.read.report.schema import inspection_json
    from posenc_export.read.report.text import ASKED_COLUMNS, asked_row, inspection_lines, parameters_in_words
    from posenc_export.read.weighing import MEMORY, weigh

__all__ = [
    "ASKED_COLUMNS",
    "FINDINGS",
    "MEMORY",
    "USUAL",
    "ExtendOptions",
    "Extended",
    "Finding",
    "FoundEncoding",
    "InspectOptions",
    "Inspection",
    "Loading",
    "NotJudged",
    "asked_row",
    "extend_file",
    "extension_lines",
    "finding_words",
    "inspect_file",
    "inspection_json",
    "inspection_lines",
    "parameters_in_words",
    "weigh",
]
__getattr__ = door(
    __name__,
    {
        "extend.extend": "ExtendOptions extend_file",
        "extend.lines": "extension_lines",
        "extend.result": "Extended",
        "findings": "FINDINGS USUAL finding_words",
        "inspect": "InspectOptions inspect_file",
        "inspection": "FoundEncoding Finding Inspection NotJudged",
        "loading": "Loading",
        "report.schema": "inspection_json",
        "report.text": "ASKED_COLUMNS asked_row inspection_lines parameters_in_words",
        "weighing": "MEMORY weigh",
    },
)
