"""Files that are extended in tests, by the process that runs the test, and a small graph for that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from helpers.foreign.files import foreign_files
from helpers.graph_files import written
from posenc_export.read.extend.request import ExtendRequest
from posenc_export.read.extend.work import Work, extended
from posenc_export.read.values import Array

ROWS, WIDTH = 48, 16
BUFFERED = """
embedded (int64[batch, sequence] input_ids) => (float[batch, sequence, 16] hidden) {
    zero = Constant <value_ints = [0]> ()
    first = Constant <value_ints = [1]> ()
    length = Shape <start = 1, end = 2> (input_ids)
    x = Gather (words, input_ids)
    places = Slice (position_ids, zero, length, first)
    rows = Gather (table, places)
    kinds = Slice (token_type_ids, zero, length, first)
    types = Gather (type_rows, kinds)
    y = Add (x, rows)
    hidden = Add (y, types)
}
"""
"""An embedding whose table of sinusoids ends, and behind it stored ids of positions, and of types of tokens."""


@contextmanager
def foreign_file(name: str) -> Iterator[Path]:
    """Yield the path of a checked-in file while it is there."""
    for path, truth in foreign_files(models=[name.partition(".")[0]]):
        if truth.file == name:
            yield path
            return
    raise ValueError(f"{name} is not among the checked-in files")


def sinusoids(rows: int, width: int) -> NDArray[np.float64]:
    """Return sines and cosines side by side, by the formula of the paper in float64."""
    angles = np.arange(rows)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(rows, width)


def buffered(folder: Path, **changed: Array) -> Path:
    """Write the embedding with stored ids; other tables by name."""
    draw = np.random.default_rng(0)
    tables: dict[str, Array] = {
        "words": draw.standard_normal((97, WIDTH)).astype(np.float32),
        "table": sinusoids(ROWS, WIDTH).astype(np.float32),
        "position_ids": np.arange(ROWS)[None],
        "token_type_ids": np.zeros((1, ROWS), np.int64),
        "type_rows": draw.standard_normal((2, WIDTH)).astype(np.float32),
    }
    return written(folder, BUFFERED, {**tables, **changed})


def longer(path: Path, max_len: int = 0, *, exact: bool = False, keep_rows: bool = False, encoding: str = "") -> Work:
    """Extend a file in this process, into a folder beside it, and return the work that was done."""
    folder = Path(tempfile.mkdtemp(dir=path.parent))
    made = str(folder / "longer.onnx")
    request = ExtendRequest(str(path), path.name, str(folder), made, "tables", max_len=max_len, exact=exact)
    return extended(replace(request, keep_rows=keep_rows, encoding=encoding))[1]


def session(path: Path) -> onnxruntime.InferenceSession:
    """Load a file into ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
