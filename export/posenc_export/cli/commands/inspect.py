"""`posenc inspect`: what an ONNX file that anybody made holds of positions."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.bundle.out_file import PlaceOption
from posenc_export.cli.declared import choice, named, path, real, several, switch
from posenc_export.cli.options import SETTINGS, SPOKEN, guarded
from posenc_export.cli.output.annotations import print_findings
from posenc_export.cli.output.helping import Command, epilog, options
from posenc_export.cli.output.printing import print_json
from posenc_export.common.errors import BadInput, PosencError, decoded, one_line
from posenc_export.read import finding_words

if TYPE_CHECKING:
    from posenc_export.read import Finding, Inspection

LATE = 3
"""The status of a file that a limit kept from being held against what was given."""
OPEN = ("PE211", "PE212", "PE216")
"""Findings of what is neither right nor wrong."""
COUNTED = {
    "failed": "failed",
    "late": "not run to the end",
    "unread": "could not be read",
    "passed": "passed",
    "judged in part": "judged in part",
    "not judged": "not judged",
}
"""What becomes of files, as the last line counts them."""
UNJUDGED = ("PE205", "PE206", "PE211", "PE212", "PE215", "PE216")
"""Findings of level error that make a bound of errors no answer: numbers that are noise, or were not measured."""
HELD = options(
    path("--config", "Compare the file with this config.json, or that of a model's folder, layer by layer."),
    path("--against", "Compare it with the ONNX file from which an optimizer or a quantizer made it."),
    under="What should be",
)
INPUTS = options(
    named("--positions", "An input that holds positions.  [default: every input is tried]", "INPUT", many=True),
    named("--mask", "An input that is a mask.", "INPUT", many=True),
    under="What inputs are for",
)
FAILING = options(
    several(
        "--fail-on",
        [entry.code for entry in finding_words()],
        "Exit with 1 on this finding, whatever its severity, and on no other one.  [default: every error]",
        metavar="CODE",
    ),
    real("--fail-above", "Exit with 1 also where numbers are off by more than this against float64.", None),
    under="What fails",
)
PAGE = PlaceOption("--html")
FORMATS = ("text", "json", "sarif", "github")
SHOWN = options(
    choice("--format", FORMATS, "How findings are printed; sarif and github are for code hosts.", "text"),
    SPOKEN,
    under="What is printed",
)
LIMITS = options(
    real("--timeout", "Seconds that reading a file may take.  [default: 120; 0 = no limit]", 120.0, "SECONDS"),
    real("--memory", "Memory that reading a file may take.  [default: 4]", 4.0, "GIB"),
    path("--plot", "Draw the error by position into this .png, .svg or .pdf."),
    path("--html", "Write a page to look at into this .html: layers, errors, findings with what to do."),
    switch("--force", "Replace the file of --html if it is there."),
)


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Say what ONNX files of your own hold of positions, and what is wrong.",
    epilog=epilog(
        [
            "posenc inspect model.onnx",
            "posenc inspect model.onnx --config config.json --fail-on PE208",
            "posenc inspect optimised.onnx --against model.onnx --json",
            "posenc inspect exported/ --format sarif > posenc.sarif",
            "posenc inspect model.onnx --html model.html",
        ],
        [0, 1, 2, 3, 5, 130],
        {
            0: "no finding is an error",
            1: "a finding is an error, or one that --fail-on names",
            3: "a limit ran out before what was asked was known",
            2: "wrong usage, or a file that cannot be read; the highest status counts",
        },
    ),
)
@click.argument("models", type=click.Path(path_type=Path), metavar="MODEL.onnx...", nargs=-1, required=True)
@HELD
@INPUTS
@FAILING
@LIMITS
@SHOWN
@guarded
def inspect(models: tuple[Path, ...], **values: Any) -> None:
    """Say which positional encodings ONNX files hold, how right they are, and where they end.

    MODEL.onnx may be a folder: all files in it that end in .onnx are read. It needs no PyTorch model. It
    does not run the model, only the small nodes that compute numbers from positions.
    """
    files, is_one = _files(models), len(models) == 1 and not os.path.isdir(models[0])
    format_ = _format(values)
    for name in ("against", "plot", "html"):
        if values[name] is not None and len(files) > 1:
            raise click.UsageError(f"--{name} is for one file: got {len(files)}")
    if values["plot"] is not None:
        from posenc_export.show.plots import check_picture

        check_picture(values["plot"])  # before a minute of reading, not after it
    if values["html"] is not None:
        from posenc_export.show.pages import check_page

        check_page(values["html"], values["force"], option=PAGE)
    spoken = format_ == "text" and not values["quiet"]
    answers = []
    for place, file in enumerate(files):
        if spoken and place:
            click.echo()
        answer = _answer(file, spoken, values, is_one)
        answers.append(answer)
        if values["github"] or format_ == "github":
            print_findings(answer.findings, bool(values["github"]) and format_ in ("json", "sarif"))
    if format_ == "json":
        from posenc_export.read import inspection_json

        read = [answer.inspection for answer in answers if answer.inspection]
        inspections = [inspection_json(inspection) for inspection in read]
        unread = [{"file": decoded(str(a.file)), "error": a.error} for a in answers if a.inspection is None]
        print_json(inspections[0] if is_one else {"inspections": inspections, "unread": unread})
    elif format_ == "sarif":
        from posenc_export.cli.output.sarif import sarif

        read_files = [(answer.file, answer.inspection) for answer in answers if answer.inspection]
        print_json(sarif(read_files, [(answer.file, answer.error) for answer in answers if answer.inspection is None]))
    elif spoken and not is_one:
        click.echo()
        for line in _summary(answers):
            click.echo(one_line(line))
    sys.exit(max(answer.status for answer in answers))


@dataclass(frozen=True)
class FileAnswer:
    """What became of a file.

    Args:
        file: its path.
        inspection: what it holds; None where it could not be read.
        status: the exit status that it asks for.
        error: why it could not be read.
    """

    file: Path
    inspection: Inspection | None
    status: int
    error: str = ""

    @property
    def findings(self) -> Sequence[Finding]:
        """Its findings; none where it could not be read."""
        return self.inspection.findings if self.inspection else ()


def _files(paths: Iterable[Path]) -> list[Path]:
    """Return files, and those in folders that end in .onnx, each once; BadInput for a folder without any."""
    files: dict[Path, None] = {}
    for place in paths:
        # of a name that is too long this says False; reading it says why
        if not os.path.isdir(place):
            files[place] = None
            continue
        inside = sorted(file for file in place.rglob("*.onnx") if file.is_file())
        if not inside:
            raise BadInput(f"{place} is a folder without a file that ends in .onnx: give another, or the files")
        files.update(dict.fromkeys(inside))
    return list(files)


def _format(values: dict[str, Any]) -> str:
    """Return how findings are printed; raise UsageError where two options contradict."""
    format_ = str(values["format"])
    if values["as_json"] and format_ not in ("text", "json"):
        raise click.UsageError(f"--json and --format {format_} contradict: give one of them")
    return "json" if values["as_json"] else format_


def _answer(file: Path, spoken: bool, values: dict[str, Any], is_one: bool) -> FileAnswer:
    """Read a file, print it where that is asked for, and return what became of it; of one file alone, raise errors."""
    import posenc_export

    bound = {} if values["fail_above"] is None else {"bound": values["fail_above"]}
    limits = {"timeout": values["timeout"], "memory": values["memory"], "begun": _print_head if spoken else _silent}
    limits |= {"positions": tuple(values["positions"]), "masks": tuple(values["mask"])}
    held = {"config": values["config"], "against": values["against"]}
    try:
        inspection = posenc_export.inspect(file, **held, **bound, **limits)
    except PosencError as error:
        if is_one:
            raise
        # a file's error names it already
        text = error.message if decoded(str(file)) in error.message else f"{file}: {error.message}"
        click.echo(one_line(f"Error: {text}"), err=not spoken)
        return FileAnswer(file, None, error.exit_code, text)
    if spoken:
        _print_body(inspection)
    if values["plot"] is not None:
        from posenc_export.show.plots import draw_errors

        draw_errors(inspection, values["plot"])
    if values["html"] is not None:
        from posenc_export.show.pages import inspection_page, write_page

        write_page(inspection_page(inspection), values["html"], values["force"], PAGE)
    return FileAnswer(file, inspection, _status(inspection, values))


def _status(inspection: Inspection, values: dict[str, Any]) -> int:
    """Return the status that a file asks for: 3 where a limit ran out before what was asked was known."""
    if fails(inspection, values["fail_on"], values["fail_above"]):
        return 1
    is_bound = values["fail_above"] is not None
    is_held = is_bound or values["config"] is not None or values["against"] is not None
    return LATE if (is_held and inspection.is_late) or (is_bound and not inspection.is_measured) else 0


def _summary(answers: Sequence[FileAnswer]) -> list[str]:
    """Return what fails and what was not judged, a line a file, and last how many files do or were."""
    lines = []
    for answer in answers:
        kind = _kind(answer)
        if kind == "unread":
            lines.append(f"{answer.file}: cannot be read")
        elif kind == "late":
            lines.append(f"{answer.file}: not run to its end: a limit ran out")
        elif kind == "failed":
            codes = dict.fromkeys(entry.code for entry in answer.findings if entry.severity == "error")
            lines.append(f"{answer.file}: {', '.join(codes or dict.fromkeys(e.code for e in answer.findings))}")
        elif kind != "passed":
            codes = dict.fromkeys(entry.code for entry in answer.findings if entry.code in OPEN)
            lines.append(f"{answer.file}: {COUNTED[kind]}: {', '.join(codes)}")
    counts = Counter(map(_kind, answers))
    some = ", ".join(f"{counts[kind]} {text}" for kind, text in COUNTED.items() if counts[kind])
    return [*lines, f"{len(answers)} file{'s' * (len(answers) != 1)}: {some}"]


def _kind(answer: FileAnswer) -> str:
    """Return what became of a file, as COUNTED has it: what was not judged has not passed, though it fails nothing."""
    if answer.inspection is None:
        return "unread"
    if answer.status:
        return "late" if answer.status == LATE else "failed"
    if not any(entry.code in OPEN for entry in answer.findings):
        return "passed"
    has_names = any(entry.family != "not recognised" for entry in answer.inspection.encodings)
    return "judged in part" if has_names else "not judged"


def fails(inspection: Inspection, codes: tuple[str, ...], bound: float | None) -> bool:
    """Return whether an inspection fails: by its errors or, where codes are asked for, by these and by the bound."""
    if not codes:
        return not inspection.passed
    # what a bound was asked for and could not be held against is an error of these
    held = {"PE204", *UNJUDGED} if bound is not None else set()
    graver = (entry for entry in inspection.findings if entry.code in held and entry.severity == "error")
    return any(graver) or any(entry.code in codes for entry in inspection.findings)


def _silent(inspection: Inspection) -> None:
    """Print nothing."""


def _print_head(inspection: Inspection) -> None:
    """Print what the file is, before it is interpreted."""
    from posenc_export.read import head_lines

    for line in head_lines(inspection):
        click.echo(one_line(line))


def _print_body(inspection: Inspection) -> None:
    """Print the verdict and what needs action, then what the file holds."""
    from posenc_export.read import body_lines, finding_lines, verdict_line

    for line in (verdict_line(inspection), *finding_lines(inspection.findings), "", *body_lines(inspection)):
        click.echo(one_line(line))
