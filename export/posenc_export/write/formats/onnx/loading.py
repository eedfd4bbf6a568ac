"""Whether the installed ONNX Runtime loads a file: tried in a process of its own, which may crash or hang."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from posenc_export.common.machine import versions

SECONDS = 60
LOAD = """
import sys
import onnxruntime

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
try:
    onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
except Exception as error:
    sys.exit("refused: " + " ".join(str(error).split()))
"""


def installed_release() -> str:
    """Return the release of ONNX Runtime that is installed; "" without one."""
    installed = versions()
    return installed.get("onnxruntime-gpu") or installed.get("onnxruntime", "")


def why_refused(path: Path, seconds: float = SECONDS) -> str:
    """Return why the installed ONNX Runtime does not load a file on the CPU; "" where it does."""
    # -P: the current folder may hold another onnxruntime.py
    command = [sys.executable, "-P", "-c", LOAD, str(path.absolute())]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return f"it was not loaded in {seconds:g} s"
    if done.returncode < 0:
        return f"loading it ends the process ({signal.Signals(-done.returncode).name})"
    refusal = next((line for line in done.stderr.splitlines() if line.startswith("refused: ")), "")
    return refusal.removeprefix("refused: ")
