"""What commands share: options, the guard around them, completion and the console."""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

import click

from posenc import __version__
from posenc.spec import BLOCK_ROWS, CHOICES, MOST_TABLE_ROWS
from posenc_export.cli.declared import choice, named, number, path, real, several, switch
from posenc_export.cli.output.helping import ENCODING, FILES, options
from posenc_export.common.errors import ToolFailed, first_line
from posenc_export.common.interrupts import STATUS, between_imports, end_stopped, is_command
from posenc_export.common.limit import ASK_TIMEOUT, TIMEOUT
from posenc_export.common.supervisor import is_supervised, scratch, tell
from posenc_export.proof.judging.verdict import MODEL, ValidateOptions
from posenc_export.proof.planning.scope import Proof
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.formats import DEFAULT_OPSET, OPSETS, ROTARY_OPS
from posenc_export.write.inputs.axis_names import words
from posenc_models.whole.tasks import TASKS

CLOSED = 141
"""The status of a command whose output was closed: as of a program that SIGPIPE ends."""
SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
VERSIONS = ("torch", "onnx", "onnxruntime-gpu", "onnxruntime", "onnxscript", "numpy", "transformers")
"""Packages whose versions a bug report needs."""


def print_versions(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    """Print the version of this package, of Python, and of the packages that a bug report needs; then end."""
    if not asked or context.resilient_parsing:
        return
    # no other command needs these, and all of them begin with this file
    import platform
    from importlib.metadata import PackageNotFoundError, version

    click.echo(f"posenc-export {__version__}")
    click.echo(f"Python {platform.python_version()}, {platform.platform()}")
    for name in VERSIONS:
        with suppress(PackageNotFoundError):
            click.echo(f"{name} {version(name)}")
    context.exit()


VERSION = click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    show_default=False,
    callback=print_versions,
    help="Show the versions of this package and of those that it uses, and exit.",
)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Print an unexpected error as one line, with status 5 (-v -v raises it); clean up when stopped."""

    @functools.wraps(command)
    def run(*args: object, **values: Any) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter must not end the command
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that scratch folders are removed
        try:
            with between_imports(once=is_supervised()), scratch():
                command(*args, **values)
                sys.stdout.flush()
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            tell(said=True)
            click.echo("stopped", err=True)
            if is_command():
                end_stopped()
            sys.exit(STATUS)
        except BrokenPipeError:
            # whoever read the output has seen enough, as `head -1`: nothing is left to be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(CLOSED)
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
    """Complete -p: the names of a scheme's parameters, then the choices of a parameter that has a list of them."""
    from posenc.scheme import SCHEMES
    from posenc.signatures import declared_parameters

    # A -p that waits for its value ends the parsing: what is typed before it lies in `args`.
    # the scheme may stand behind the options that were parsed
    scheme = next(iter(context.args), None) or context.params.get("scheme") or "sinusoidal"
    if scheme not in SCHEMES.names():
        return []
    known, (name, equals, _) = declared_parameters(scheme), text.partition("=")
    choices = known[name].choices if equals and name in known else ()
    words = [f"{name}={choice}" for choice in choices] if equals else [f"{name}=" for name in known]
    return [word for word in words if word.startswith(text)]


PARAMS = click.option(
    *("-p", "--param", "params"),
    multiple=True,
    metavar="KEY=VALUE",
    help="A parameter; see `posenc schemes`.",
    shell_complete=complete_parameter,
)
TASK = choice(
    "--task",
    TASKS,
    f"What the model is for: {', '.join(TASKS)}.  [default: what its config's architecture says]",
    metavar="TASK",
)
PROOF_WORDS = (
    "Which calls are tried. full: all; quick: a few, together with as many tokens as three of the longest calls; "
    "one: a single call, and no text is written.  [default: quick for a whole model of more than a billion parameters, "
)
PROOF = choice("--proof", get_args(Proof), f"{PROOF_WORDS}else full]")
PROOF_OF_EXPORTS = choice("--proof", get_args(Proof), f"{PROOF_WORDS}one with --no-validate, else full]")
SPEC = options(
    path(
        "--from-hf",
        "Take scheme and parameters from a model's config.json, or its folder; -p overrides them. "
        "-p weights=FOLDER reads the model's tables.",
        "CONFIG",
    ),
    named("--part", "Which encoding of --from-hf, if it has several: text, vision, audio, encoder, decoder."),
    named("--layer-type", "Which type of layers of --from-hf, if they differ; all: each type, in one graph."),
    number("--layer", "Which layer of --from-hf, counted from 0.", least=0),
    switch("--dynamic/--baked", "Rows computed in the graph, or a stored table.  [default: baked]", None),
    choice("--mode", CHOICES["mode"], "The same as --baked and --dynamic, by the name that Python has."),
    number(
        "--max-len",
        "Rows of a baked table; the length up to which a dynamic graph is validated.  "
        "[default: 2048; of a table from a file, its rows; of one from --from-hf, the model's context]",
    ),
    choice(
        "--method",
        CHOICES["method"],
        "How a dynamic graph computes angles: angle addition, or Sin and Cos.  [default: exact]",
    ),
    choice(
        "--positions",
        CHOICES["positions"],
        "0..seq-1; the same from an input `start`; an input `positions`; or counted from an attention mask.  "
        "[default: the scheme's, or with --from-hf the model's]",
    ),
    number(
        "--position-offset",
        "Where positions from a mask begin: 2 for RoBERTa and OPT.  [default: 0, or with --from-hf the model's]",
        least=0,
    ),
    PARAMS,
    click.option(
        *("-i", "--input", "inputs"),
        multiple=True,
        metavar="PORT",
        help="An input of package.module:factory, as 'x: float32[batch, seq, 512]' or 'ids: int64[batch, seq] < 256'. "
        "A word after the axes says what it carries: "
        f"{', '.join(word.usage for word in words().values())}.",
    ),
    choice(
        "--dtype",
        CHOICES["dtype"],
        "The dtype of x and of the output; of a whole model, that of its weights, inputs and outputs.",
        "fp32",
    ),
    choice(
        "--index-dtype",
        CHOICES["index_dtype"],
        "The dtype of positions, masks and what is computed of them; sizes stay int64.",
        "int64",
    ),
    number(
        "--table-rows",
        "With --dynamic: the first positions, whose sines and cosines are stored, a multiple of 64. More of them make "
        "files larger, and calls as long faster.  [default: 2048; with a header 64]",
        least=BLOCK_ROWS,
        end=MOST_TABLE_ROWS,
    ),
    under=ENCODING,
)
WRITTEN = options(
    number(
        "--opset",
        f"Opset of ONNX.  [default: {DEFAULT_OPSET}, or what the operators below need]",
        least=min(OPSETS),
        end=max(OPSETS),
    ),
    choice(
        "--rotary-op",
        ROTARY_OPS,
        "How ONNX rotates: plain operators, one of ai.onnx (opset 23) or com.microsoft, or MRotaryEmbedding.",
        "decomposed",
    ),
    switch("--check-positions", "ONNX: NaN for a position out of range where a device, such as CUDA, reports nothing."),
    under=FILES,
)
CHECKED = options(
    several(
        "--runtime runtimes",
        RUNTIMES,
        f"Run only on this, and fail (status 3) if it cannot run here: {', '.join(RUNTIMES)}. "
        "Several have commas between.  [default: all]",
        metavar="RUNTIME",
    ),
    several(
        "--require",
        [*RUNTIMES, MODEL],
        "Fail (status 3) if this cannot run here. With `model`: if the model of --from-hf could not be compared.",
        metavar="RUNTIME",
    ),
    switch("--prove", "Also run the slow runtimes and the slow checks."),
    *(real(name, "Replace the derived tolerance.") for name in ("--atol", "--rtol")),
    real(
        "--timeout",
        "Seconds for one call of a graph; validate also gives them to loading and to each check.  "
        "[default: 300; 0 = no limit]",
        TIMEOUT,
        "SECONDS",
    ),
    under="Validation",
)
ASKED = options(
    real(
        "--ask-timeout",
        "Seconds of CPU time that the model of --from-hf may take to answer.  [default: 120; 0 = no limit]",
        ASK_TIMEOUT,
        "SECONDS",
    ),
    under="Validation",
)
VALIDATING = ("runtimes", "require", "prove", "atol", "rtol", "timeout")
"""The names of the values of these options."""


def validate_options(values: Mapping[str, Any], progress: Callable[[str], None]) -> ValidateOptions:
    """Return what these options ask for, and what shows the progress."""
    from posenc_export.proof.exporter.settings import with_fields

    return with_fields(ValidateOptions(), {**{name: values[name] for name in VALIDATING}, "progress": progress})


TRUST = options(
    switch("--trust", "Also run code from BUNDLE: TorchScript, torch.export, AOTInductor, C++ headers."), under="Trust"
)
VERBOSE = click.option("-v", "--verbose", count=True, show_default=False, help="Say more; twice, with tracebacks.")
SPOKEN = options(
    switch("-q --quiet", "Print nothing but errors."),
    VERBOSE,
    switch("--json as_json", "Print the report as JSON and nothing else."),
    switch("--github", "Also print annotations for a GitHub workflow."),
    under="What is printed",
)
