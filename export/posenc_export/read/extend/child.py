"""The process that makes an extension: `python -P -m posenc_export.read.extend.child STEP REQUEST`.

Anybody may have made the file: this process has a bound on its memory, and the process that started it ends it with
SIGKILL when its time is over. The step `make` runs nothing of the file but kernels on position values; the step `call`
runs the files before and after in ONNX Runtime. A step writes one line of JSON to what was stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from posenc_export.common.errors import BadInput, check_machine, first_line
from posenc_export.common.messages import run_within_memory, say
from posenc_export.read.extend.request import ExtendRequest


def main(step: str, request: ExtendRequest) -> None:
    """Do a step, and say what came of it; libraries print to stderr."""
    run_within_memory(
        request.memory,
        lambda pipe: say(pipe, "done", STEPS[step](request)),
        lambda limit, _: f"it takes more memory than {limit:.3g} GiB: give more with --memory",
    )


def make(request: ExtendRequest) -> object:
    """Make the new file in the scratch folder, and the inputs of calls."""
    from posenc_export.read.extend.calls import shake, write_feeds
    from posenc_export.read.extend.data import orphans
    from posenc_export.read.extend.work import extended

    try:
        result, work = extended(request)
        write_feeds(work)
        shake(work)
    except ValueError as error:
        check_machine(error)
        raise BadInput(first_line(error)) from error
    return [asdict(result), orphans(Path(request.out)) if request.out else []]


def call(request: ExtendRequest) -> object:
    """Call the files before and after."""
    from posenc_export.read.extend.running import differences

    return differences(request)


STEPS = {"make": make, "call": call}


def read_request(text: str) -> ExtendRequest:
    """Return a request out of JSON."""
    fields: Mapping[str, object] = json.loads(text)
    return ExtendRequest(**fields)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], read_request(sys.argv[2]))
