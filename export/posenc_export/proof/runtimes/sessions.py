"""Sessions of ONNX Runtime: how they find CUDA, and how they tell where their nodes run."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

from posenc_export.common.install import install_line

CUDA = "CUDAExecutionProvider"
CPU_BUILD = f"this onnxruntime is a CPU build: pip uninstall onnxruntime, then {install_line('cuda')}"
"""Why no session uses CUDA, where the provider is not there."""


def cuda_provider() -> Path:
    """Return the place of ONNX Runtime's CUDA provider on Linux, where a build for the CPU has none."""
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "capi" / "libonnxruntime_providers_cuda.so"


@functools.cache
def find_cuda() -> None:
    """Find CUDA and cuDNN where pip or torch put them."""
    import onnxruntime

    if importlib.util.find_spec("torch") is not None:
        # torch has loaded CUDA and cuDNN: onnxruntime then finds them
        import torch  # noqa: F401
    if hasattr(onnxruntime, "preload_dlls"):
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()


def quiet_options() -> Any:
    """Return options of a session that logs nothing, and then says which provider runs each node."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a refusal is an exception: the log would repeat it
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def save_optimized(options: Any, folder: Path) -> Path:
    """Have a session write the graph that it runs, with copies between devices, into a folder; return the file.

    Weights go into a file beside it, as a graph alone must fit 2 GiB.
    """
    file = folder / "placed.onnx"
    options.optimized_model_filepath = str(file)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "placed.data")
    return file


def placement(session: Any) -> tuple[tuple[str, str, str], ...]:
    """Return (provider, node name, op type) of every node of a session; none where it does not say it."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return ()
    parts = session.get_provider_graph_assignment_info()
    return tuple((part.ep_name, node.name, node.op_type) for part in parts for node in part.get_nodes())
