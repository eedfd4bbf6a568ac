"""The files before and after, run in ONNX Runtime with the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from posenc_export.common.errors import BadInput, first_line
from posenc_export.read.extend.calls import SHAKEN
from posenc_export.read.extend.held import Array
from posenc_export.read.extend.request import ExtendRequest
from posenc_export.read.extend.result import CommonRun
from posenc_export.read.graph.data import external, location_of

SHARE = 4
"""How many times as far outputs may move as they do where tables are shaken at random by what they were moved by."""
ROUNDOFF = 32
"""The same in steps of the outputs' dtype, where sums are added up in another order."""
EPS = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
DATA_FOLDER = "session.model_external_initializers_file_folder_path"
"""The option of ONNX Runtime that says where the data of a model lie that is given as bytes."""
Outputs = Sequence[Array]


def differences(request: ExtendRequest) -> dict[str, object]:
    """Return how far outputs are from those of before, at each common length, and why what does not run does not."""
    scratch = Path(request.scratch)
    common = sorted(scratch.glob("feeds-*.npz"), key=lambda place: int(place.stem.partition("-")[2]))
    try:
        before = [_outputs(_session(request.file), place) for place in common]
    except Exception as error:  # ONNX Runtime has several of its own
        return {"runs": [], "why": f"the file that was read does not run here: {first_line(error)}", "beyond": ""}
    try:
        after = [_outputs(_new_session(request), place) for place in common]
    except Exception as error:
        raise BadInput(f"the new file does not run, and is not kept: {first_line(error)}") from error
    shaken = [_outputs(_new_session(request, SHAKEN), place) for place in common]
    sizes = [f"{place.stem.partition('-')[2]} positions" for place in common]
    runs = [asdict(_compared(*outputs)) for outputs in zip(sizes, before, after, shaken, strict=True)]
    return {"runs": runs, "why": "", "beyond": _beyond(request)}


def _beyond(request: ExtendRequest) -> str:
    """Return why the new file refuses the first length beyond the old end; nothing where it runs, or was not asked."""
    scratch = Path(request.scratch)
    for place in scratch.glob("beyond-*.npz"):
        try:
            outputs = _outputs(_new_session(request), place)
        except Exception as error:
            return first_line(error)
        if not all(np.isfinite(array).all() for array in outputs if array.dtype.kind == "f"):
            return "outputs are not finite"
    return ""


def _session(model: str | bytes, options: Any = None) -> Any:
    """Load a model, or the file at a path."""
    import onnxruntime

    options = options or onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a refusal is an exception: the log would repeat it
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _new_session(request: ExtendRequest, suffix: str = "") -> Any:
    """Load the new file, which is not yet in its place; data that it shares with the old one lie beside that."""
    import onnx
    import onnxruntime

    made = Path(request.made + suffix)
    if request.weights:
        return _session(str(made))
    model, options = onnx.load(str(made), load_external_data=False), onnxruntime.SessionOptions()
    # ONNX Runtime looks for data in one folder: large new tables, which lie in another, are given as arrays
    tables = [t for t in external(model) if location_of(t) == request.tables + suffix]
    arrays = [onnx.numpy_helper.to_array(tensor, str(made.parent)) for tensor in tables]
    if tables:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
        options.add_external_initializers([tensor.name for tensor in tables], values)
    options.add_session_config_entry(DATA_FOLDER, str(Path(request.file).parent))
    return _session(made.read_bytes(), options)


def _outputs(session: Any, place: Path) -> Outputs:
    """Return the outputs of a session, called with stored inputs; one at a time lies in memory."""
    feeds: Mapping[str, Array] = dict(np.load(place).items())
    return [np.asarray(array) for array in session.run(None, feeds)]


def _compared(sizes: str, before: Outputs, after: Outputs, shaken: Outputs) -> CommonRun:
    """Return the largest difference of the files' outputs, with what shaken tables make of it."""
    worst = CommonRun(sizes, 0.0, 0.0, "the same bits")
    for old, new, moved in zip(before, after, shaken, strict=True):
        if np.array_equal(old, new, equal_nan=old.dtype.kind == "f") or not old.size:
            continue
        wide = [array.astype(np.float64) for array in (old, new, moved)]
        eps = EPS.get(old.dtype.name, 0.0)
        sensitivity = float(np.abs(wide[2] - wide[1]).max())
        allowed = SHARE * sensitivity + ROUNDOFF * eps * float(np.abs(wide[0]).max())
        run = CommonRun(sizes, float(np.abs(wide[1] - wide[0]).max()), allowed, f"{SHARE} x what the old error does")
        # what is closest to its bound is told
        if worst.allowed == 0 or run.difference / run.allowed > worst.difference / worst.allowed:
            worst = run
    return worst
