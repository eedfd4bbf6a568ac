"""`posenc bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.bundle.folder import MANIFEST
from posenc_export.cli.declared import JSON, number, several
from posenc_export.cli.options import SETTINGS, SPEC, TRUST, WRITTEN, complete_source, guarded
from posenc_export.cli.output.helping import ENCODING, EXPORTED, FILES, Command, epilog, heading, options
from posenc_export.cli.output.printing import console, print_json
from posenc_export.cli.output.progressing import progress
from posenc_export.cli.text.sources import Values, read_source
from posenc_export.cli.text.words import check_file, command_line, spelled, typed
from posenc_export.common.errors import BadInput
from posenc_export.proof.runtimes import RUNTIMES, Progress

if TYPE_CHECKING:
    from posenc_export.proof.benchmarks import BenchResult

TIMED = [runtime.name for runtime in RUNTIMES.values() if runtime.runs]


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Time a scheme or a bundle, beside a copy of the same bytes.",
    epilog=epilog(
        [
            "posenc bench --dynamic",
            "posenc bench rope --length 4096 --runtime ort-cpu",
            "posenc bench rope-dynamic --trust",
        ],
        {0: "the times are printed"} | EXPORTED,
    ),
)
@click.argument("scheme_or_bundle", required=False, shell_complete=complete_source)
@TRUST
@SPEC
@WRITTEN
@options(
    number("--length lengths", "Lengths to time.  [default: 512, 2048, 8192, as far as a table goes]", many=True),
    number("--batch", "Sequences in a call.", 1),
    number("--heads", "Heads of queries and of keys.", 32),
    number("--rounds", "Times each contender is loaded and timed.", 7),
    several(
        "--runtime runtimes",
        TIMED,
        f"Time only this: {', '.join(TIMED)}.  [default: all but onnx-reference and those in C++ processes]",
        metavar="RUNTIME",
    ),
    JSON,
    click.option(
        "--save",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the table, the machine and the command into a Markdown file; the same machine's table is replaced.",
    ),
    under="What is timed",
)
@guarded
def bench(**values: Any) -> None:
    """Time SCHEME or a BUNDLE on each runtime, against a plain copy of as many bytes and against the usual module."""
    from posenc_export.cli.output.tables import print_bench

    check_file(values["save"])
    _check_apart(values["save"], values["scheme_or_bundle"])
    with progress(values) as say:
        result = _timed(values, say)
    if values["save"] is not None:
        _save(result, values["save"])
    if values["as_json"]:
        print_json(result.to_json())
    else:
        print_bench(console(), result)


def _save(result: BenchResult, file: Path) -> None:
    """Put the table into a file; it replaces the table of the same command on the same machine."""
    from posenc_export.common.machine import facts
    from posenc_export.proof.benchmarks.report import with_section

    # a new file has no table to replace
    text = _text_of(file) if file.is_file() else ""
    command = command_line(click.get_current_context(), without="save")
    file.write_text(with_section(text, result, command, facts()), encoding="utf-8")


def _check_apart(file: Path | None, bundle: str | None) -> None:
    """Raise BadInput, before any work, where the table cannot go into a file: one of the bundle, or no text."""
    if file is None:
        return
    if (
        bundle is not None
        and (Path(bundle) / MANIFEST).exists()
        and file.resolve().is_relative_to(Path(bundle).resolve())
    ):
        raise BadInput(f"{file} lies in the bundle, which is left as it is: give another with --save")
    if file.is_file():
        _text_of(file)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} is there, and is no text to put a table into: give another with --save") from error


def _is_bundle(name: str) -> bool:
    """Return whether a name is that of a folder; raise BadInput, in one line, for any other path."""
    path = Path(name)
    if ":" not in name and path.name != name and not path.is_dir():
        where = f"give its folder, {path.parent}" if path.is_file() else "there is no such folder"
        raise BadInput(f"{name} is no bundle: {where}")
    return path.is_dir()


def _refuse_for_bundle(context: click.Context) -> None:
    """Raise UsageError for an option of exports: a bundle is exported already."""
    for parameter in typed(context):
        if heading(parameter) in (ENCODING, FILES):
            option = spelled(parameter, context.params[parameter.name or ""])
            raise click.UsageError(f"{option} is for SCHEME: a bundle is timed as it was written")


def _timed(values: Values, say: Progress) -> BenchResult:
    """Time a bundle, or what the options ask for."""
    import posenc_export
    from posenc_export.proof.benchmarks import BenchOptions
    from posenc_export.proof.exporter.options import ExportOptions
    from posenc_export.proof.exporter.settings import split

    names = ("lengths", "batch", "heads", "rounds", "runtimes")
    timing = BenchOptions(**{name: values[name] for name in names})
    choices = ("opset", "rotary_op", "check_positions")
    written = {**{name: values[name] for name in choices}, "progress": say}
    name = values["scheme_or_bundle"]
    if name is not None and _is_bundle(name):
        _refuse_for_bundle(click.get_current_context())
        return posenc_export.bench(Path(name), trust=values["trust"], timing=timing, progress=say)
    source = read_source({**values, "scheme": name})
    settings = split({**source.settings, **written}, None, ExportOptions(), source.source)
    spec: dict[str, Any] = dict(source.settings)
    return posenc_export.bench(
        source.source,
        inputs=source.inputs,
        options=settings.options,
        timing=timing,
        parameters=source.parameters(),
        **spec,
    )
