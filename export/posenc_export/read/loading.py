"""Whether ONNX Runtime loads a file: tried in a process with limits, beside the one that reads it.

python -P -m posenc_export.read.loading REQUEST

Loading checks types and operators, which a reading of positions need not meet. Nothing is run, and nothing is
optimized, so that it takes no longer than it must.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TypedDict

from posenc.memory import GIB
from posenc_export.common.child import Child, Ended, Hung, path_text
from posenc_export.common.errors import PosencError, one_line
from posenc_export.common.messages import run_within_memory, say

SHARE = 0.25
"""Of the memory that is allowed: the limit does not count what ONNX Runtime maps and keeps beside it."""
COPIES = 3
"""How often a file and its weights lie in memory while ONNX Runtime loads them."""
SECONDS = 20.0
"""How long loading may take: more says nothing of the file."""
BOUND = 300
"""Characters of the words of ONNX Runtime."""
OF_GRAPHS = ("INVALID_GRAPH", "INVALID_PROTOBUF", "FAIL", "INVALID_ARGUMENT")
"""Words for a file that no call can be made of, wherever it is to run; a kernel that the CPU lacks is none."""
ELSEWHERE = re.compile(
    r"(?<![\w.])(?!(?:ai\.onnx|com\.microsoft):)[\w.-]+:\w+\(-?\d+\) is not a registered function/op"
    r"|No opset import for domain|official released onnx opset|Unsupported model IR"
    r"|[Ee]xternal data|[Ff]ile doesn't exist|cannot open"
)
"""What other libraries of operators, a newer ONNX Runtime, or weights that are not here may make good."""
STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : (\w+) : (.*)$", re.DOTALL)


class LoadRequest(TypedDict):
    """What is loaded.

    Args:
        file: the path.
        memory: bytes that it may take.
    """

    file: str
    memory: int


class Loading:
    """A process that tries whether ONNX Runtime loads a file.

    Args:
        path: the file.
        memory: GiB that it may take; larger files are not loaded.
    """

    def __init__(self, path: Path, memory: float) -> None:
        """Start it, unless the file is too large."""
        self._child: Child | None = None
        room = int(memory * GIB * SHARE)
        request = LoadRequest(file=path_text(path), memory=room)
        if COPIES * _size(path) <= room:
            self._child = Child(["-m", "posenc_export.read.loading", json.dumps(request)])

    def refusal(self, seconds: float = 0) -> str:
        """Return why ONNX Runtime refuses the file; nothing where it does not, or where nobody knows.

        Args:
            seconds: how long is waited for it, at most; 0 for the usual time.
        """
        if self._child is None:
            return ""
        try:
            kind, _, content = self._child.line(min(seconds or SECONDS, SECONDS)).partition(b" ")
            words = json.loads(content) if kind == b"loaded" else ""
        except (Hung, Ended, ValueError):
            # a limit ran out, or ONNX Runtime ended its process: that is no refusal
            return ""
        finally:
            self.end()
        return one_line(words)[:BOUND] if isinstance(words, str) else ""

    def end(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()


def _size(path: Path) -> int:
    """Return the bytes of a file, and of those beside it that begin with its name, as weights do."""
    try:
        with os.scandir(path.parent) as entries:
            beside = [entry.stat().st_size for entry in entries if entry.name.startswith(path.stem) and entry.is_file()]
        return max(sum(beside), path.stat().st_size)
    except OSError:
        return 0


def main(request: LoadRequest) -> None:
    """Load a file, and say what ONNX Runtime says of it; libraries print to stderr."""
    run_within_memory(
        request["memory"],
        lambda pipe: say(pipe, "loaded", _refusal(request["file"])),
        lambda limit, _: f"loading takes more memory than {limit:.3g} GiB",
    )


def _refusal(path: str) -> str:
    """Return in words why the file is refused; nothing where it is loaded, or where the reason is not its own."""
    try:
        import onnxruntime
    except ImportError:
        return ""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except (MemoryError, PosencError):
        raise
    except Exception as error:
        found = STATUS.match(str(error).strip())
        if found is None or found[1] not in OF_GRAPHS or ELSEWHERE.search(found[2]):
            return ""
        said = re.sub(r"Load model from .*? failed:", "", found[2].replace(path, "the file"))
        return f"ONNX Runtime {onnxruntime.__version__} refuses to load it: {' '.join(said.split())}"
    return ""


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
