"""The process that reads a file for `inspect`: `python -P -m posenc_export.read.child REQUEST`.

NumPy in C cannot be interrupted, and anybody may have made the file: this process has a bound on its memory, and the
process that started it ends it with SIGKILL when its time is over. It writes lines of JSON to what was stdout: what is
known until then, as soon as the file is read and once its encodings are named, and last the whole inspection.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import BinaryIO, TypedDict

from posenc_export.common.errors import BadInput, check_machine, first_line
from posenc_export.common.messages import run_within_memory, say


class ReadRequest(TypedDict):
    """What is read, and how much it may take.

    Args:
        file: the path, which the process does not share its working folder with.
        shown: the path as the user gave it.
        bound: the error that counts as too large; None for the usual one.
        memory: bytes.
        seconds: how long it may take.
        placed: inputs that hold positions, as a caller says.
        masks: inputs that are masks.
        windows: how many keys a config says that queries see; None without a config.
        explain: nodes, or values that they give, of which all that is seen is asked for.
    """

    file: str
    shown: str
    bound: float | None
    memory: int
    seconds: float
    placed: list[str]
    masks: list[str]
    windows: list[int] | None
    explain: list[str]


def main(request: ReadRequest) -> None:
    """Inspect a file, and write messages to what was stdout; libraries print to stderr."""
    run_within_memory(
        request["memory"],
        lambda pipe: _inspect(pipe, request),
        lambda limit, error: _overload(request, limit, error),
    )


def _inspect(pipe: BinaryIO, request: ReadRequest) -> None:
    from posenc_export.read.facts import facts_of
    from posenc_export.read.graph.read import graph_in
    from posenc_export.read.inspection import Inspection
    from posenc_export.read.report.schema import inspection_json

    def say_known(inspection: Inspection) -> None:
        say(pipe, "known", inspection_json(inspection))

    try:
        graph = graph_in(Path(request["file"]))
        facts = facts_of(graph, request["shown"])
        say_known(facts)
        # the first lines are there before all that recognises encodings is imported
        from posenc_export.read.examine import Examining, examine
        from posenc_export.read.inputs import said

        graph = said(graph, tuple(request["placed"]), tuple(request["masks"]))
        windows = None if request["windows"] is None else tuple(request["windows"])
        how = Examining(
            request["shown"], request["bound"], request["seconds"], say_known, windows, tuple(request["explain"])
        )
        inspection = examine(graph, facts, how)
    except ValueError as error:
        check_machine(error)
        raise BadInput(f"{request['shown']}: {first_line(error)}") from error
    say(pipe, "inspected", inspection_json(inspection))


def _overload(request: ReadRequest, limit: float, error: BaseException) -> str:
    if "RecursionError" in str(error):
        return f"{request['shown']}: its graphs are nested too deep to be read"
    return f"{request['shown']}: reading it takes more memory than {limit:.3g} GiB: give more with --memory"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
