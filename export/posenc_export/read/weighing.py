"""How much a stranger's file takes, found in a process with limits before this one reads the file.

python -P -m posenc_export.read.weighing REQUEST
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TypedDict

from posenc.memory import GIB
from posenc_export.common.child import path_text
from posenc_export.common.errors import BadInput, ToolFailed, check_machine, decoded, first_line
from posenc_export.common.limit import check_limits
from posenc_export.common.messages import answer_of, run_within_memory, say

MEMORY = 8.0
"""GiB that reading a file may take by default, with its weights."""
COPIES = 3
"""How often weights lie in memory while a file gets the names of a target: as read, as copied, as written."""


class WeighRequest(TypedDict):
    """What is weighed, and how much it may take.

    Args:
        file: the path.
        memory: bytes.
    """

    file: str
    memory: int


def weigh(path: Path, seconds: float, memory: float) -> None:
    """Raise BadInput, in one line, where reading a file with its weights takes more than it may.

    Args:
        path: an ONNX file that anybody made.
        seconds: how long it may take; 0 for any.
        memory: GiB.
    """
    # not in the process that weighs: beside it lies all that writes ONNX
    from posenc_export.write.formats.onnx.place import check_file

    check_file(path)
    try:
        check_limits(seconds, memory)
    except ValueError as error:
        raise BadInput(f"--{error}") from error
    request, shown = WeighRequest(file=path_text(path), memory=int(memory * GIB)), decoded(str(path))
    program = ["-m", "posenc_export.read.weighing", json.dumps(request)]
    size = answer_of(program, b"weighed", shown=shown, doing="reading", seconds=seconds)
    if not isinstance(size, int):
        raise ToolFailed(f"{shown}: the process that is reading it sent what no such process sends")
    if COPIES * size > memory * GIB:
        need = COPIES * size / GIB
        raise BadInput(f"{shown}: its weights of {size:,} bytes take {need:.3g} GiB here: give more with --memory")


def main(request: WeighRequest) -> None:
    """Weigh a file, and say what it takes; libraries print to stderr."""
    run_within_memory(
        request["memory"],
        lambda pipe: say(pipe, "weighed", _weight(Path(request["file"]))),
        lambda limit, _: f"reading it takes more memory than {limit:.3g} GiB: give more with --memory",
    )


def _weight(path: Path) -> int:
    """Return the bytes of a file, and of what its tensors take of others; raise BadInput where it is none."""
    from posenc_export.read.graph.data import external
    from posenc_export.read.graph.external import Location
    from posenc_export.read.graph.file import load
    from posenc_export.read.graph.functions import check_count
    from posenc_export.read.graph.store import LIMIT
    from posenc_export.read.graph.tensors import stored_bytes

    try:
        model, _ = load(path, LIMIT)
        check_count(model)
        size, files = path.stat().st_size, dict[str, Path]()
        for tensor in external(model):
            taken = stored_bytes(tensor.data_type, tuple(tensor.dims))
            Location.find(tensor, f"tensor {tensor.name!r}", path, files).check(taken)
            size += taken
    except ValueError as error:
        check_machine(error)
        raise BadInput(first_line(error)) from error
    return size


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
