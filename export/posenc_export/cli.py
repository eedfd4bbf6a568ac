"""The command line: options to stages, results to text. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import functools
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc import __version__
from posenc_export.formats import DEFAULT_OPSET, FORMATS, OPSETS
from posenc_export.problems import Problem, Unavailable, first_line
from posenc_export.runtimes import RUNTIMES

if TYPE_CHECKING:
    from rich.console import Console

    from posenc_export.exporting import Outcome
    from posenc_export.validate import Options, Progress, Verdict

VERSION = click.version_option(__version__, prog_name="posenc-export", package_name="posenc-export")
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


def main_guard(command: Callable[..., Any]) -> Callable[..., Any]:
    """Tell an unexpected error in one line, unless -v -v asks for the traceback; clean up when told to stop."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that scratch folders are removed
        try:
            return command(*args, **kwargs)
        except (click.ClickException, click.Abort, click.exceptions.Exit, KeyboardInterrupt):
            raise
        except Exception as error:
            if kwargs.get("verbose", 0) >= 2:
                raise
            told = f"{type(error).__name__}: {first_line(error)}"
            raise Problem(f"{told} (-v -v shows where)") from error

    return guarded


def options(*decorators: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Apply click decorators in the order in which --help shall list them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda made, one: one(made), reversed(decorators), command)

    return decorate


FORM = options(
    click.option(
        "--dynamic/--baked", default=None, help="Rows computed in the graph, or a stored table.  [default: baked]"
    ),
    click.option(
        "--max-len",
        type=click.IntRange(min=1),
        default=2048,
        metavar="N",
        help="Rows of a baked table; the length up to which a dynamic graph is validated.",
    ),
    click.option(
        "--method",
        type=click.Choice(["exact", "trig"]),
        default=None,
        help="How a dynamic graph computes angles: angle addition, or Sin and Cos.  [default: exact]",
    ),
    click.option(
        "--positions",
        type=click.Choice(["implicit", "offset", "explicit"]),
        default=None,
        help="0..seq-1; the same from an input `start`; or an input `positions`.  [default: the scheme's]",
    ),
    click.option(
        "-p", "--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter; see `posenc schemes`."
    ),
    click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="PORT",
        help="An input of package.module:factory, as 'x: float32[batch, seq, 512]' or 'ids: int64[batch, seq] < 256'.",
    ),
    click.option(
        "--dtype", type=click.Choice(["fp32", "fp16", "bf16", "fp64"]), default="fp32", help="Of x and the output."
    ),
)
CHECKED = options(
    click.option(
        "--runtime",
        "runtimes",
        multiple=True,
        type=click.Choice(list(RUNTIMES)),
        help="Run only on this.  [default: all]",
    ),
    click.option(
        "--require", multiple=True, type=click.Choice(list(RUNTIMES)), help="Fail (status 3) if this cannot run here."
    ),
    click.option("--atol", type=click.FloatRange(min=0), metavar="X", help="Replace the derived tolerance."),
    click.option("--rtol", type=click.FloatRange(min=0), metavar="X", help="Replace the derived tolerance."),
)
SPOKEN = options(
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
    click.option("-v", "--verbose", count=True, help="Say more; twice, with tracebacks."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON and nothing else."),
)


@click.group(context_settings=SETTINGS)
@VERSION
def main() -> None:
    """Export positional encodings to ONNX and TorchScript, and prove the result."""


@main.command(context_settings=SETTINGS)
@click.argument("scheme", default="sinusoidal")
@FORM
@options(
    click.option(
        "-f",
        "--format",
        "formats",
        multiple=True,
        type=click.Choice(list(FORMATS)),
        default=("onnx", "torchscript"),
        help="What to write.",
    ),
    click.option(
        "--opset",
        type=click.IntRange(OPSETS.start, OPSETS.stop - 1),
        default=DEFAULT_OPSET,
        metavar="N",
        help="Of ONNX.",
    ),
)
@CHECKED
@options(
    click.option("--no-validate", is_flag=True, help="Write the bundle without running it."),
    click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Of random weights and inputs."),
)
@SPOKEN
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="[default: ./SCHEME-MODE]")
@VERSION
@main_guard
def export(**given: Any) -> None:
    """Export SCHEME (a name, or package.module:factory) to a bundle, and validate it.

    Exit status: 0 all that could run agreed; 1 a mismatch or a failed check, the bundle is then DIR-failed;
    2 wrong usage; 3 a required runtime is not available; 4 the export itself failed.
    """
    from posenc_export.bundle import check_target

    form = _form(given)
    if given["output"] is not None:
        check_target(given["output"])
    require_available(given["require"])
    with progress(given) as tell:
        tell("loading torch")
        outcome = _export(form, given, tell)
    told = console(given)
    if given["as_json"]:
        _print_json(outcome.manifest, outcome.verdicts, folder=str(outcome.folder))
    elif not given["quiet"]:
        _print_outcome(told, outcome, given["verbose"])
    _check_required(outcome.verdicts, given["require"])
    sys.exit(1 if outcome.failed else 0)


def _form(given: dict[str, Any]) -> Any:
    """Return the Form that the options ask for; refuse those that mean nothing for what is exported."""
    from posenc.scheme import Form

    own, dynamic = ":" in given["scheme"], given["dynamic"]
    if own:
        scheme_only = {"--baked": dynamic is False, "--method": given["method"], "--positions": given["positions"]}
        wrong = [name for name, used in scheme_only.items() if used]
        wrong += ["--dtype"] if given["dtype"] != "fp32" else []
        if wrong:
            raise click.UsageError(
                f"{wrong[0]} is for schemes; {given['scheme']} decides that itself: give it as -p, or in -i"
            )
    elif given["method"] and not dynamic:
        raise click.UsageError("--method chooses how a dynamic graph computes angles: give --dynamic with it")
    mode: Any = "dynamic" if dynamic or own else "baked"
    method: Any = given["method"] or "exact"
    return Form(mode, method, given["positions"], given["max_len"], given["dtype"])


def _export(form: Any, given: dict[str, Any], tell: Progress) -> Outcome:
    from posenc_export.exporting import Order
    from posenc_export.exporting import export as run
    from posenc_export.subject import resolve

    order = Order(
        formats=tuple(dict.fromkeys(given["formats"])),
        opset=given["opset"],
        seed=given["seed"],
        validate=not given["no_validate"],
        options=_options(given, tell),
    )
    subject = (given["scheme"], form, given["params"], given["inputs"], given["seed"])
    return run(lambda: resolve(*subject), order, given["output"])


def _options(given: dict[str, Any], tell: Progress) -> Options:
    from posenc_export.validate import Options

    runtimes = tuple(dict.fromkeys((*given["runtimes"], *given["require"]))) if given["runtimes"] else ()
    return Options(runtimes, given["require"], given["atol"], given["rtol"], tell)


def require_available(names: tuple[str, ...]) -> None:
    """Raise Unavailable, before any work, where a required runtime cannot run here."""
    from posenc_export.runtimes import Missing

    for name in names:
        try:
            RUNTIMES[name].check()
        except Missing as missing:
            raise Unavailable(f"{name} is required and not available here: {missing}") from missing


def _check_required(verdicts: list[Verdict] | tuple[Verdict, ...], require: tuple[str, ...]) -> None:
    """Raise Unavailable where a required runtime turned out, when it was to load the graph, not to run here."""
    for verdict in verdicts:
        if verdict.subject in require and verdict.check == "agrees" and verdict.status == "skip":
            raise Unavailable(f"{verdict.subject} is required and {verdict.detail}")


@main.command(context_settings=SETTINGS)
@click.argument("bundle", type=click.Path(path_type=Path))
@CHECKED
@SPOKEN
@main_guard
def validate(bundle: Path, **given: Any) -> None:
    """Check an existing BUNDLE on this machine, from its golden data alone; the bundle itself is left as it is."""
    from posenc_export.bundle import Bundle
    from posenc_export.validate import validate as run

    opened = Bundle.open(bundle)
    require_available(given["require"])
    with progress(given) as tell:
        verdicts = run(opened, _options(given, tell))
    if given["as_json"]:
        _print_json(opened.manifest, verdicts, folder=str(bundle))
    elif not given["quiet"]:
        from posenc_export.report import print_report

        print_report(console(given), opened.manifest, verdicts)
    _check_required(verdicts, given["require"])
    sys.exit(1 if any(v.status == "fail" for v in verdicts) else 0)


@main.command(context_settings=SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@main_guard
def schemes(as_json: bool) -> None:
    """List the registered schemes with their parameters and defaults."""
    from posenc_export.listing import describe, print_schemes

    if as_json:
        click.echo(json.dumps(describe(), indent=1))
    else:
        print_schemes(console({}))


@main.command(context_settings=SETTINGS)
@click.argument("scheme", default="sinusoidal")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .png, .svg or .pdf."
)
@click.option("--kind", type=click.Choice(["heatmap", "clock", "error"]), default="heatmap", help="What to draw.")
@click.option("--max-len", type=click.IntRange(min=1), default=None, metavar="N", help="Positions to draw.")
@click.option("-p", "--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter; see `posenc schemes`.")
@main_guard
def plot(**given: Any) -> None:
    """Draw SCHEME: its table, its pairs as clock hands, or the error of the three ways to compute it."""
    from posenc_export.plot import draw

    draw(given["scheme"], given["kind"], given["max_len"], given["params"], given["output"])
    click.echo(f"wrote {given['output']}")


@main.command(context_settings=SETTINGS)
@click.argument("scheme_or_bundle", default="sinusoidal")
@FORM
@options(
    click.option(
        "--length",
        "lengths",
        multiple=True,
        type=click.IntRange(min=1),
        default=(512, 2048, 8192),
        help="Lengths to time.",
    ),
    click.option("--batch", type=click.IntRange(min=1), default=1, help="Sequences in a call."),
    click.option("--rounds", type=click.IntRange(min=1), default=7, help="Times each contender is loaded and timed."),
    click.option(
        "--runtime",
        "runtimes",
        multiple=True,
        type=click.Choice(list(RUNTIMES)),
        help="[default: all but onnx-reference]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
)
@main_guard
def bench(**given: Any) -> None:
    """Time SCHEME or a BUNDLE per runtime, beside a copy of the same bytes and the plain export of a Sin/Cos module."""
    from posenc_export.bench import print_table, run

    with progress({"quiet": False, **given}) as tell:
        results = run(
            given["scheme_or_bundle"],
            None if Path(given["scheme_or_bundle"]).is_dir() else _bench_form(given),
            given,
            tell,
        )
    if given["as_json"]:
        click.echo(json.dumps(results, indent=1))
    else:
        print_table(console({}), results)


def _bench_form(given: dict[str, Any]) -> Any:
    longest = max(*given["lengths"], given["max_len"])
    return _form({**given, "scheme": given["scheme_or_bundle"], "max_len": longest})


def console(given: dict[str, Any]) -> Console:
    """Return a console on stdout; not a terminal, it is wide enough not to break a table's cells."""
    from rich.console import Console

    made = Console(highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(highlight=False, width=120)


@contextmanager
def progress(given: dict[str, Any]) -> Iterator[Progress]:
    """Yield a function that shows what is going on, on stderr and only on a terminal."""
    if given.get("quiet") or given.get("as_json") or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def _print_json(manifest: Any, verdicts: Any, *, folder: str) -> None:
    from posenc_export.report import report_json

    click.echo(json.dumps({"bundle": folder, **report_json(manifest, verdicts)}, indent=1, allow_nan=False))


def _print_outcome(told: Console, outcome: Outcome, verbose: int) -> None:
    from posenc_export.report import print_report

    print_report(told, outcome.manifest, outcome.verdicts)
    for artifact in outcome.manifest.artifacts:
        click.echo(f"{outcome.folder / artifact.file}  {artifact.bytes:,} bytes")
    if verbose:
        for verdict in outcome.verdicts:
            for trial in verdict.trials:
                click.echo(f"  {verdict.subject}  {trial.case}  {trial.output}  {trial.against}  {trial.max_abs:.3g}")
    if outcome.failed:
        click.echo(f"nothing was written to its place: what failed lies in {outcome.folder}", err=True)
