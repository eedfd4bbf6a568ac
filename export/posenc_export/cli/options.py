"""What commands share: options, the guard around them, completion and the console."""

from __future__ import annotations

import functools
import io
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc import __version__
from posenc_export.cli.output.helping import ENCODING, FILES, options
from posenc_export.cli.text.axis_names import words
from posenc_export.cli.text.words import Choice, Words
from posenc_export.errors import ToolFailed, first_line
from posenc_export.formats import DEFAULT_OPSET, OPSETS, ROTARY_OPS
from posenc_export.runtimes import RUNTIMES
from posenc_export.runtimes.limit import TIMEOUT
from posenc_export.validation.judging.verdict import MODEL

if TYPE_CHECKING:
    from rich.console import Console


SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
VERSION = click.version_option(__version__, prog_name="posenc-export", package_name="posenc-export")


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Say an unexpected error in one line, with status 5, but for -v -v; clean up when stopped."""

    @functools.wraps(command)
    def run(*args: object, **values: Any) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal without a letter is no reason to fail
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that scratch folders are removed
        try:
            command(*args, **values)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            sys.exit(130)  # what a shell expects of a program that Ctrl-C has ended
        except Exception as error:
            if values.get("verbose", 0) >= 2:
                raise
            raise ToolFailed(f"{type(error).__name__}: {first_line(error)} (-v -v shows where)") from error

    return run


def complete_source(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Complete the name of a scheme, without importing any."""
    from posenc.scheme import SCHEMES

    return [name for name in SCHEMES.names() if name.startswith(text)]


def complete_parameter(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    """Complete -p: the names of a scheme's parameters, then the choices of one that has a list of them."""
    from posenc.scheme import SCHEMES

    # A -p that waits for its value ends the parsing: what is typed before it lies in `args`.
    scheme = next(iter(context.args), None) or context.params.get("scheme") or "sinusoidal"
    if scheme not in SCHEMES:
        return []
    known, (name, equals, _) = SCHEMES[scheme].parameters, text.partition("=")
    choices = known[name].choices if equals and name in known else ()
    words = [f"{name}={choice}" for choice in choices] if equals else [f"{name}=" for name in known]
    return [word for word in words if word.startswith(text)]


PARAMS = click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter; see `posenc schemes`.",
    shell_complete=complete_parameter,
)
SPEC = options(
    click.option(
        "--from-hf",
        type=click.Path(path_type=Path),
        default=None,
        metavar="CONFIG",
        help="Take scheme and parameters from a model's config.json, or its folder; -p is stronger.  "
        "-p weights=FOLDER reads its tables.",
    ),
    click.option(
        "--part",
        default=None,
        metavar="NAME",
        help="Which encoding of --from-hf, where it has several: text, vision, audio, encoder, decoder.",
    ),
    click.option("--layer-type", default=None, metavar="NAME", help="Which layers of --from-hf, where they differ."),
    click.option("--layer", type=click.IntRange(min=0), default=None, metavar="N", help="One of them, from 0."),
    click.option(
        "--dynamic/--baked", default=None, help="Rows computed in the graph, or a stored table.  [default: baked]"
    ),
    click.option("--mode", type=Choice(["baked", "dynamic"]), default=None, help="The same, as Python has it."),
    click.option(
        "--max-len",
        type=click.IntRange(min=1),
        default=None,
        metavar="N",
        help="Rows of a baked table; the length up to which a dynamic graph is validated.  "
        "[default: 2048; of a table from a file, its rows; of one from --from-hf, the model's context]",
    ),
    click.option(
        "--method",
        type=Choice(["exact", "trig"]),
        default=None,
        help="How a dynamic graph computes angles: angle addition, or Sin and Cos.  [default: exact]",
    ),
    click.option(
        "--positions",
        type=Choice(["implicit", "offset", "explicit", "mask"]),
        default=None,
        help="0..seq-1; the same from an input `start`; an input `positions`; or counted from an attention mask.  "
        "[default: the scheme's, or with --from-hf the model's]",
    ),
    click.option(
        "--position-offset",
        type=click.IntRange(min=0),
        default=None,
        metavar="N",
        help="Where positions from a mask begin: 2 for RoBERTa and OPT.  [default: 0, or with --from-hf the model's]",
    ),
    PARAMS,
    click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="PORT",
        help="An input of package.module:factory, as 'x: float32[batch, seq, 512]' or 'ids: int64[batch, seq] < 256'. "
        f"Words after the axes: {', '.join(word.usage for word in words().values())}.",
    ),
    click.option("--dtype", type=Choice(["fp32", "fp16", "bf16", "fp64"]), default="fp32", help="Of x and the output."),
    under=ENCODING,
)
WRITTEN = options(
    click.option(
        "--opset",
        type=click.IntRange(min(OPSETS), max(OPSETS)),
        default=None,
        metavar="N",
        help=f"Of ONNX.  [default: {DEFAULT_OPSET}, or what --rotary-op needs]",
    ),
    click.option(
        "--rotary-op",
        type=Choice(list(ROTARY_OPS)),
        default="decomposed",
        help="How ONNX rotates: plain operators, or one of ai.onnx (opset 23) or com.microsoft.",
    ),
    under=FILES,
)
CHECKED = options(
    click.option(
        "--runtime",
        "runtimes",
        cls=Words,
        multiple=True,
        type=Choice(list(RUNTIMES)),
        metavar="RUNTIME",
        help=f"Run only on this: {', '.join(RUNTIMES)}. Several have commas between.  [default: all]",
    ),
    click.option(
        "--require",
        cls=Words,
        multiple=True,
        type=Choice([*RUNTIMES, MODEL]),
        metavar="RUNTIME",
        help="Fail (status 3) if this cannot run here; model: if the model of --from-hf was not asked.",
    ),
    click.option("--prove", is_flag=True, help="Run what takes longer too, of runtimes and of checks."),
    click.option("--atol", type=click.FloatRange(min=0), metavar="X", help="Replace the derived tolerance."),
    click.option("--rtol", type=click.FloatRange(min=0), metavar="X", help="Replace the derived tolerance."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=TIMEOUT,
        metavar="SECONDS",
        help="Of one call of a graph; in validate of loading it, and of a check, too.  [default: 300; 0 = any]",
        show_default=False,
    ),
    under="Validation",
)
VALIDATING = ("runtimes", "require", "prove", "atol", "rtol", "timeout")
"""The values of those options."""
TRUST = options(
    click.option(
        "--trust", is_flag=True, help="Run code from BUNDLE too: TorchScript, torch.export, AOTInductor, C++ headers."
    ),
    under="Trust",
)
SPOKEN = options(
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors."),
    click.option("-v", "--verbose", count=True, show_default=False, help="Say more; twice, with tracebacks."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON and nothing else."),
    click.option("--github", is_flag=True, help="Print annotations for GitHub's workflow runs too."),
    under="What is printed",
)


def console() -> Console:
    """Return a console on stdout; not a terminal, it is wide enough not to break a table's cells."""
    from rich.console import Console

    made = Console(highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(highlight=False, width=120)
