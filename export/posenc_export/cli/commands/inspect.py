"""`posenc inspect`: what an ONNX file that anybody made holds of positions."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from posenc_export.cli.output.progressing import progress
from posenc_export.common.errors import BadInput, PosencError, decoded, one_line
from posenc_export.read import finding_words

if TYPE_CHECKING:
    from posenc_export.proof.runtimes import Progress
    from posenc_export.read import Finding, Inspection, NotJudged

LATE = 3
"""The status of a file that a limit kept from being held against what was given."""
OPEN = ("PE211", "PE212", "PE216")
"""Findings of what is neither right nor wrong."""
COUNTED = {
    "failed": "failed",
    "late": "not run to the end",
    "unread": "not inspected",
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
ASKED = options(
    named(
        "--explain",
        "A node, or a value that it gives: say what is seen there, and how near each formula came.",
        "NODE",
        many=True,
    ),
    under="What is asked of one place",
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
PAGE, PLOT = PlaceOption("--html"), PlaceOption("--plot")
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
    switch("--force", "Replace the files of --html and --plot if they are there."),
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
            "posenc inspect model.onnx --explain node_add_12",
        ],
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
@ASKED
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
    _check_places(values, files)
    with progress(values) as say:
        answers = [_answer(file, values, is_one, say) for file in files]
    if format_ == "json":
        _print_json(answers, is_one)
    elif format_ == "sarif":
        from posenc_export.cli.output.sarif import sarif

        read_files = [(answer.file, answer.inspection) for answer in answers if answer.inspection]
        print_json(sarif(read_files, [(answer.file, answer.error) for answer in answers if answer.inspection is None]))
    elif format_ == "text" and not values["quiet"]:
        for line in _lines(answers, values, is_one):
            click.echo(one_line(line))
    if format_ != "text" or values["quiet"]:
        for answer in answers:
            if answer.error:
                click.echo(one_line(f"Error: {answer.error}"), err=True)
    if values["github"] or format_ == "github":
        for answer in answers:
            print_findings(answer.findings, bool(values["github"]) and format_ in ("json", "sarif"))
    sys.exit(max(answer.status for answer in answers))


def _check_places(values: dict[str, Any], files: Sequence[Path]) -> None:
    """Raise BadInput or UsageError where what is to be written beside the text has no place."""
    from posenc_export.bundle.inside import data_files
    from posenc_export.bundle.place import check_apart

    count = len(files)
    reads = [*files, *(values[name] for name in ("config", "against") if values[name] is not None)]
    places = [(place, option) for place, option in ((values["plot"], PLOT), (values["html"], PAGE)) if place]
    if any(os.path.lexists(place) for place, _ in places):
        reads += [data for file in (*files, values["against"]) if file for data in data_files(file)]
    for place, option in places:
        check_apart(place, reads, option)
    for name in ("against", "plot", "html"):
        if values[name] is not None and count > 1:
            raise click.UsageError(f"--{name} is for one file: got {count}")
    if values["explain"] and count > 1:
        raise click.UsageError(f"--explain is for one file: got {count}")
    if values["plot"] is not None:
        from posenc_export.show.plots import check_picture

        check_picture(values["plot"], values["force"], PLOT)  # before a minute of reading, not after it
    if values["html"] is not None:
        from posenc_export.show.pages import check_page

        check_page(values["html"], values["force"], option=PAGE)


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

    @property
    def not_judged(self) -> Sequence[NotJudged]:
        """What was not judged of it."""
        return self.inspection.not_judged if self.inspection else ()


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


def _answer(file: Path, values: dict[str, Any], is_one: bool, say: Progress) -> FileAnswer:
    """Read a file, draw what is asked for, and return what became of it; of one file alone, raise errors."""
    import posenc_export

    bound = {} if values["fail_above"] is None else {"bound": values["fail_above"]}
    limits = {"timeout": values["timeout"], "memory": values["memory"]}
    limits |= {"positions": tuple(values["positions"]), "masks": tuple(values["mask"])}
    limits["explain"] = tuple(values["explain"])
    limits["begun"] = lambda made: say(f"reading {made.file}: {made.nodes:,} nodes")
    held = {"config": values["config"], "against": values["against"]}
    say(f"reading {decoded(str(file))}")
    try:
        inspection = posenc_export.inspect(file, **held, **bound, **limits)
    except PosencError as error:
        if is_one:
            raise
        # a file's error names it already
        text = error.message if decoded(str(file)) in error.message else f"{file}: {error.message}"
        return FileAnswer(file, None, error.exit_code, text)
    if values["plot"] is not None:
        from posenc_export.show.plots import draw_errors

        draw_errors(inspection, values["plot"], force=values["force"], option=PLOT)
    if values["html"] is not None:
        from posenc_export.show.pages import inspection_page, write_page

        write_page(inspection_page(inspection), values["html"], values["force"], PAGE)
    return FileAnswer(file, inspection, _status(inspection, values))


def _print_json(answers: Sequence[FileAnswer], is_one: bool) -> None:
    """Print one inspection, or a list of them and of files that could not be read."""
    from posenc_export.read import inspection_json

    inspections = [inspection_json(answer.inspection) for answer in answers if answer.inspection]
    unread = [{"file": decoded(str(a.file)), "error": a.error} for a in answers if a.inspection is None]
    print_json(inspections[0] if is_one else {"inspections": inspections, "unread": unread})


def _lines(answers: Sequence[FileAnswer], values: dict[str, Any], is_one: bool) -> Iterator[str]:
    """Yield what people read: of several files the summary first, then each, and last what was written beside."""
    from posenc_export.read import inspection_lines

    yield from () if is_one else _summary(answers)
    for answer in answers:
        if answer.inspection is not None:
            verdict = _verdict(answer, answer.inspection, values)
            yield from () if is_one else ("",)
            yield from inspection_lines(answer.inspection, verdict, bool(values["verbose"]))
    yield from (f"written: {values[name]}" for name in ("plot", "html") if values[name] is not None)


def _verdict(answer: FileAnswer, inspection: Inspection, values: dict[str, Any]) -> str:
    """Return what becomes of a file, what was found, and how to read more of what fails it, or of the gravest."""
    found, asked = [entry.code for entry in inspection.findings], values["fail_on"]
    failing = list(dict.fromkeys(code for code in found if code in asked))
    words = COUNTED[_kind(answer)]
    if failing:
        words += f" by {', '.join(failing)}"
    elif asked and not answer.status and not inspection.passed:
        words += ", as --fail-on asks"
    more = next(iter([*failing, *found]), None)
    return f"{words}: {inspection.verdict}" + (f"; posenc explain {more} says what to do" if more else "")


def _status(inspection: Inspection, values: dict[str, Any]) -> int:
    """Return the status that a file asks for: 3 where a limit ran out before what was asked was known."""
    if fails(inspection, values["fail_on"], values["fail_above"]):
        return 1
    is_bound = values["fail_above"] is not None
    is_held = is_bound or values["config"] is not None or values["against"] is not None
    return LATE if (is_held and inspection.is_late) or (is_bound and not inspection.is_measured) else 0


def _summary(answers: Sequence[FileAnswer]) -> list[str]:
    """Return how many files fail, and of how many not all was judged; then a line for each of them."""
    lines = []
    for answer in answers:
        kind = _kind(answer)
        if kind == "unread":
            lines.append(answer.error)
        elif kind == "late":
            lines.append(f"{answer.file}: not run to its end: a limit ran out")
        elif kind == "failed":
            codes = dict.fromkeys(entry.code for entry in answer.findings if entry.severity == "error")
            lines.append(f"{answer.file}: {', '.join(codes or dict.fromkeys(e.code for e in answer.findings))}")
        elif kind != "passed":
            codes = dict.fromkeys(entry.code for entry in answer.findings if entry.code in OPEN)
            reasons = codes or dict.fromkeys(entry.reason for entry in answer.not_judged)
            lines.append(f"{answer.file}: {COUNTED[kind]}: {', '.join(reasons)}")
    counts = Counter(map(_kind, answers))
    some = ", ".join(f"{counts[kind]} {text}" for kind, text in COUNTED.items() if counts[kind])
    return [f"{len(answers)} file{'s' * (len(answers) != 1)}: {some}", *lines]


def _kind(answer: FileAnswer) -> str:
    """Return what became of a file, as COUNTED has it: what was not judged has not passed, though it fails nothing."""
    if answer.inspection is None:
        return "unread"
    if answer.status:
        return "late" if answer.status == LATE else "failed"
    if not answer.inspection.not_judged and not any(entry.code in OPEN for entry in answer.findings):
        return "passed"
    return "judged in part" if answer.inspection.named else "not judged"


def fails(inspection: Inspection, codes: tuple[str, ...], bound: float | None) -> bool:
    """Return whether an inspection fails: by its errors or, where codes are asked for, by these and by the bound."""
    if not codes:
        return not inspection.passed
    # what a bound was asked for and could not be held against is an error of these
    held = {"PE204", *UNJUDGED} if bound is not None else set()
    graver = (entry for entry in inspection.findings if entry.code in held and entry.severity == "error")
    return any(graver) or any(entry.code in codes for entry in inspection.findings)
