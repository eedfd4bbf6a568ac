"""The command line: options to stages, results to text. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc import __version__
from posenc_export.cli.options import CHECKED, FORM, SPOKEN, WRITTEN, console, main_guard, options, progress
from posenc_export.errors import Unavailable, bad_input
from posenc_export.formats import DEFAULT_OPSET, FORMATS, ROTARY_OPS
from posenc_export.runtimes import RUNTIMES

if TYPE_CHECKING:
    from rich.console import Console

    from posenc.hf import ModelConfig
    from posenc.scheme import Form
    from posenc_export.exporter import Order, Outcome
    from posenc_export.targets.module import Subject
    from posenc_export.validation.run import Options, Progress, Verdict

LONGEST_TABLE = 2**22
"""Rows of a table beyond which nobody means it without saying so."""
VERSION = click.version_option(__version__, prog_name="posenc-export", package_name="posenc-export")
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.group(context_settings=SETTINGS)
@VERSION
def main() -> None:
    """Export positional encodings to ONNX and TorchScript, and prove the result."""


@main.command(context_settings=SETTINGS)
@click.argument("scheme", required=False)
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
)
@WRITTEN
@CHECKED
@options(
    click.option("--no-validate", is_flag=True, help="Write the bundle without running it."),
    click.option("--cpp", is_flag=True, help="Add a folder for C++: a class, an example, a replay of all cases."),
    click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Of random weights and inputs."),
)
@SPOKEN
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="[default: ./SCHEME-MODE]")
@VERSION
@main_guard
def export(**given: Any) -> None:
    """Export SCHEME (a name, or package.module:factory) to a bundle, and validate it; SCHEME is sinusoidal by default.

    Exit status: 0 all that could run agreed; 1 a mismatch or a failed check, the bundle is then DIR-failed;
    2 wrong usage; 3 a required runtime is not available; 4 the export itself failed.
    """
    from posenc_export.bundle.folder import check_target
    from posenc_export.exporter import export as run

    make = asked(given)
    order = _order(given)
    if given["output"] is not None:
        check_target(given["output"])
    with progress(given) as tell:
        prepare(given["runtimes"], given["require"], tell)
        tell("loading torch")
        outcome = run(make, order(tell), given["output"])
    told = console(given)
    if given["as_json"]:
        _print_json(outcome.manifest, outcome.verdicts, folder=str(outcome.folder))
    elif not given["quiet"]:
        _print_outcome(told, outcome, given["verbose"])
    _check_required(outcome.verdicts, given["require"])
    sys.exit(1 if outcome.failed else 0)


def asked(given: dict[str, Any]) -> Callable[[], Subject]:
    """Return what makes the subject that the options ask for; refuse options that mean nothing for it."""
    from posenc_export.targets.module import from_config, resolve

    config = _config(given)
    name = given["scheme"] or "sinusoidal"
    form = _form(given, name, config)
    if config is not None:
        return lambda: from_config(config, form, given["params"], given.get("seed", 0))
    return lambda: resolve(name, form, given["params"], given["inputs"], given.get("seed", 0))


def _config(given: dict[str, Any]) -> ModelConfig | None:
    from posenc.hf import ModelConfig

    if given["from_hf"] is None:
        if given["layer_type"] is not None:
            raise click.UsageError("--layer-type chooses among the layers of a config: give --from-hf with it")
        return None
    if given["inputs"]:
        raise click.UsageError("-i gives the inputs of package.module:factory; --from-hf has its own")
    with bad_input():
        config = ModelConfig.load(given["from_hf"], given["layer_type"])
        scheme = config.scheme
    if given["scheme"] not in (None, scheme):
        raise click.UsageError(f"{given['from_hf']} describes {scheme}, not {given['scheme']}: leave SCHEME out")
    return config


def _form(given: dict[str, Any], name: str, config: ModelConfig | None) -> Form:
    from posenc.scheme import Form

    own, dynamic = ":" in name, given["dynamic"]
    if own:
        scheme_only = {"--baked": dynamic is False, "--method": given["method"], "--positions": given["positions"]}
        wrong = [option for option, used in scheme_only.items() if used]
        wrong += ["--dtype"] if given["dtype"] != "fp32" else []
        if wrong:
            raise click.UsageError(f"{wrong[0]} is for schemes; {name} decides that itself: give it as -p, or in -i")
    elif given["method"] and not dynamic:
        raise click.UsageError("--method chooses how a dynamic graph computes angles: give --dynamic with it")
    mode: Any = "dynamic" if dynamic or own else "baked"
    longest = given["max_len"] or 2048
    if given["max_len"] is None and config is not None and mode == "baked":
        with bad_input():
            longest = config.max_position_embeddings or longest
        if longest > LONGEST_TABLE:
            raise click.UsageError(f"the config's max_position_embeddings is {longest}: give --max-len for a table")
    return Form(mode, given["method"] or "exact", given["positions"], longest, given["dtype"])


def _order(given: dict[str, Any]) -> Callable[[Progress], Order]:
    """Return what makes the order that the options place; refuse options that contradict one another."""
    from posenc_export.exporter import Order

    formats = tuple(dict.fromkeys(given["formats"]))
    for option, names in (("--runtime", given["runtimes"]), ("--require", given["require"])):
        idle = [n for n in names if RUNTIMES[n].format not in formats]
        if idle:
            raise click.UsageError(
                f"{option} {idle[0]} reads {RUNTIMES[idle[0]].format}, which -f {' -f '.join(formats)} does not write"
            )
    if given["rotary_op"] != "decomposed" and "onnx" not in formats:
        raise click.UsageError(f"--rotary-op {given['rotary_op']} is an operator of ONNX: give -f onnx with it")
    if given["cpp"] and not {"onnx", "torchscript"} & set(formats):
        raise click.UsageError("--cpp is for graphs that C++ loads: give -f onnx or -f torchscript with it")
    opset = _opset(given)
    return lambda tell: Order(
        formats=formats,
        opset=opset,
        rotary_op=given["rotary_op"],
        seed=given["seed"],
        validate=not given["no_validate"],
        cpp=given["cpp"],
        options=_options(given, tell),
    )


def _opset(given: dict[str, Any]) -> int:
    least = ROTARY_OPS[given["rotary_op"]]
    if given["opset"] is not None and given["opset"] < least:
        raise click.UsageError(f"--rotary-op {given['rotary_op']} needs opset {least}, got --opset {given['opset']}")
    return given["opset"] or max(DEFAULT_OPSET, least)


def _options(given: dict[str, Any], tell: Progress) -> Options:
    from posenc_export.validation.run import Options

    runtimes = tuple(dict.fromkeys((*given["runtimes"], *given["require"]))) if given["runtimes"] else ()
    return Options(runtimes, given["require"], given["atol"], given["rtol"], tell)


def prepare(runtimes: tuple[str, ...], require: tuple[str, ...], tell: Progress) -> None:
    """Make ready what was named; raise Unavailable, before any other work, where a required runtime cannot run."""
    from posenc_export.runtimes import Missing

    for name in dict.fromkeys((*runtimes, *require)):
        RUNTIMES[name].prepare(tell)
    for name in require:
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
    from posenc_export.bundle.folder import Bundle
    from posenc_export.validation.run import validate as run

    opened = Bundle.open(bundle)
    with progress(given) as tell:
        prepare(given["runtimes"], given["require"], tell)
        verdicts = run(opened, _options(given, tell))
    if given["as_json"]:
        _print_json(opened.manifest, verdicts, folder=str(bundle))
    elif not given["quiet"]:
        from posenc_export.validation.report import print_report

        print_report(console(given), opened.manifest, verdicts)
    _check_required(verdicts, given["require"])
    sys.exit(1 if any(v.status == "fail" for v in verdicts) else 0)


@main.command(context_settings=SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@main_guard
def schemes(as_json: bool) -> None:
    """List the registered schemes with their parameters and defaults."""
    from posenc_export.cli.listing import describe, print_schemes

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
    from posenc_export.plots import draw

    draw(given["scheme"], given["kind"], given["max_len"], given["params"], given["output"])
    click.echo(f"wrote {given['output']}")


@main.command(context_settings=SETTINGS)
@click.argument("scheme_or_bundle", required=False)
@FORM
@WRITTEN
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
    click.option("--heads", type=click.IntRange(min=1), default=32, help="Heads of queries and of keys."),
    click.option("--rounds", type=click.IntRange(min=1), default=7, help="Times each contender is loaded and timed."),
    click.option(
        "--runtime",
        "runtimes",
        multiple=True,
        type=click.Choice(list(RUNTIMES)),
        help="[default: all but onnx-reference and those in C++ processes]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
)
@main_guard
def bench(**given: Any) -> None:
    """Time SCHEME or a BUNDLE per runtime, beside a copy of the same bytes and the plain export of its usual module."""
    from posenc_export.benchmarks.timing import Asked, print_table, run

    name = given["scheme_or_bundle"]
    what = Asked(given["lengths"], given["batch"], given["heads"], given["rounds"], given["runtimes"])
    if name is not None and Path(name).is_dir():
        source: Any = Path(name)
    else:
        longest = max(*given["lengths"], given["max_len"] or 0)
        make = asked({**given, "scheme": name, "max_len": longest})
        source = make, {"opset": _opset(given), "rotary_op": given["rotary_op"]}
    with progress({"quiet": False, **given}) as tell:
        prepare(given["runtimes"], (), tell)
        results = run(source, what, tell)
    if given["as_json"]:
        click.echo(json.dumps(results, indent=1))
    else:
        print_table(console({}), results)


def _print_json(manifest: Any, verdicts: Any, *, folder: str) -> None:
    from posenc_export.validation.report import report_json

    click.echo(json.dumps({"bundle": folder, **report_json(manifest, verdicts)}, indent=1, allow_nan=False))


def _print_outcome(told: Console, outcome: Outcome, verbose: int) -> None:
    from posenc_export.validation.report import print_report

    print_report(told, outcome.manifest, outcome.verdicts)
    for artifact in outcome.manifest.artifacts:
        click.echo(f"{outcome.folder / artifact.file}  {artifact.bytes:,} bytes")
    if verbose:
        for verdict in outcome.verdicts:
            for trial in verdict.trials:
                click.echo(f"  {verdict.subject}  {trial.case}  {trial.output}  {trial.against}  {trial.max_abs:.3g}")
    if outcome.failed:
        click.echo(f"nothing was written to its place: what failed lies in {outcome.folder}", err=True)
