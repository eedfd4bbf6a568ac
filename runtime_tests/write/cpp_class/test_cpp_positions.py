"""Positions that the C++ class makes, and what is said where CUDA is missing."""

import itertools
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.cpp_tools import STRICT, compiled, compiler
from helpers.embedded import CPP, run
from helpers.shared import need
from posenc_export.proof.runtimes import Missing, onnx_runtime
from posenc_export.proof.runtimes.cpp import ORT
from posenc_export.proof.runtimes.runner_build import SESSION


def test_why_there_is_no_cuda_is_said_in_words() -> None:
    need("ort-cpp")
    done = ORT.version_output()
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("CUDA: "))
    reasons = r"lib[\w.]+ is not found|CUDA execution provider is not enabled in this build\.?"
    assert re.fullmatch(f"CUDA: (yes|no CUDA: ({reasons}))", line), "no path, and nothing that a loader says"


def test_python_names_the_library_of_cuda_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_runtime, "check_driver", lambda: None)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnx_runtime, "_unresolved", lambda library: "libcublasLt.so.13")
    with pytest.raises(
        Missing, match=r"^no CUDA: libcublasLt.so.13 is not found: pip install 'onnxruntime-gpu\[cuda,cudnn\]"
    ):
        onnx_runtime.ort_cuda_missing()


@pytest.mark.parametrize("standard", ["c++17", pytest.param("c++20", marks=pytest.mark.exhaustive)])
def test_positions_of_padded_batches_and_of_what_follows_a_cache(tmp_path: Path, standard: str) -> None:
    flags = [flag for flag in STRICT if not flag.startswith("-std")]
    include = ["-I", SESSION / "include", "-Wshadow", "-fno-exceptions", f"-std={standard}"]
    made = compiled([compiler("gcc"), *flags, *include, CPP / "positions.cpp", "-o", tmp_path / "positions"])
    assert (made.returncode, made.stderr) == (0, "")
    lines = iter(run(tmp_path / "positions").stdout.splitlines())
    for left, past in itertools.product((False, True), (False, True)):
        expected = batch([3, 5, 0], [4, 0, 9] if past else [0, 0, 0], 5, left=left)
        assert np.fromstring(next(lines), dtype=np.int64, sep=" ").tolist() == expected.ravel().tolist()
    assert list(lines) == [
        "4 5 6 0 1 2",
        "row 1: 5 tokens behind 508 are out of range: expected the last position to be at most 511",
        "7 7 7 7 7 7 7 7 7 7",
        "row 0 has length 6: expected 0 to 5",
        "row 0 has length -1: expected 0 to 5",
        "row 1 has past -1: expected 0 or more",
        "there are 9 ids: expected 2 rows of 5",
        "past has 1 rows, lengths has 2",
        "510",
        "row 0: 3 tokens behind 510 are out of range: expected the last position to be at most 511",
        "row 0: 1 tokens behind 9223372036854775807 are out of range: expected the last position to be at most 511",
    ]


def batch(lengths: list[int], past: list[int], width: int, *, left: bool) -> np.ndarray:
    """Positions of a padded batch, in the obvious way."""
    ids = np.zeros((len(lengths), width), np.int64)
    for row, (length, first) in enumerate(zip(lengths, past, strict=True)):
        at = width - length if left else 0
        ids[row, at : at + length] = first + np.arange(length)
    return ids
