"""What commands of the command line share: options, the guard around them, the console and the progress line."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.errors import Problem, first_line
from posenc_export.formats import DEFAULT_OPSET, OPSETS, ROTARY_OPS
from posenc_export.runtimes import RUNTIMES

if TYPE_CHECKING:
    from rich.console import Console

    from posenc_export.validation.run import Progress


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
        "--from-hf",
        type=click.Path(path_type=Path),
        default=None,
        metavar="CONFIG",
        help="Take scheme and parameters from a model's config.json, or its folder; -p is stronger.",
    ),
    click.option("--layer-type", default=None, metavar="NAME", help="Which layers of --from-hf, where they differ."),
    click.option(
        "--dynamic/--baked", default=None, help="Rows computed in the graph, or a stored table.  [default: baked]"
    ),
    click.option(
        "--max-len",
        type=click.IntRange(min=1),
        default=None,
        metavar="N",
        help="Rows of a baked table; the length up to which a dynamic graph is validated.  "
        "[default: 2048; of a table from --from-hf, the model's context]",
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
WRITTEN = options(
    click.option(
        "--opset",
        type=click.IntRange(OPSETS.start, OPSETS.stop - 1),
        default=None,
        metavar="N",
        help=f"Of ONNX.  [default: {DEFAULT_OPSET}, or what --rotary-op needs]",
    ),
    click.option(
        "--rotary-op",
        type=click.Choice(list(ROTARY_OPS)),
        default="decomposed",
        help="How ONNX rotates: plain operators, or one of ai.onnx (opset 23) or com.microsoft.",
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
