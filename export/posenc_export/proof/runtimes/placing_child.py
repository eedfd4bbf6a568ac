"""The process in which a CUDA session says where it would run each node: a line with a file in, a line of JSON out.

With the stubs in LD_LIBRARY_PATH there is no GPU in it, and no kernel may run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from posenc_export.common.child import pipe_of_messages
from posenc_export.proof.runtimes.in_child import answer_lines
from posenc_export.proof.runtimes.sessions import CUDA, find_cuda, placement, quiet_options, save_optimized


def placed(file: str, weights: str, folder: str) -> dict[str, object]:
    """Load a graph for CUDA and the CPU; return the session's providers, where its nodes go, and the file it wrote.

    Args:
        file: the graph.
        weights: the folder of its weights, where they do not lie beside it.
        folder: where ONNX Runtime writes the graph as it would run it.
    """
    import onnxruntime

    options = quiet_options()
    options.log_severity_level = 3  # why a session falls back to the CPU is an error in its log
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", weights)
    optimized = save_optimized(options, Path(folder))
    providers = [(CUDA, {"use_tf32": "0"}), "CPUExecutionProvider"]
    graph = Path(file).read_bytes() if weights else file  # of a path, the folder of the weights is that of the file
    session = onnxruntime.InferenceSession(graph, options, providers=providers)
    return {"providers": session.get_providers(), "nodes": placement(session), "optimized": str(optimized)}


def main(*, has_driver: bool) -> None:
    """Place a file a line until the input ends."""
    pipe = pipe_of_messages()
    if has_driver:
        find_cuda()
    answer_lines(pipe, lambda line: json.dumps(placed(*json.loads(line))))


if __name__ == "__main__":
    main(has_driver=sys.argv[1] == "driver")
