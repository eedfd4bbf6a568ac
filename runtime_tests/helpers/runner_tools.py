"""Runners of C++ run by hand: which they are, a case of a bundle, what a run prints."""

import os
import subprocess
from pathlib import Path

import numpy as np

from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes.cpp import ORT, TORCH

PROGRAMS = {"ort_runner": (ORT, "ort-cpp", "model.onnx"), "torch_runner": (TORCH, "libtorch-cpp", "model.pt")}
SANITIZED = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
"""Leaks of the libraries, which are not instrumented, are not ours to judge."""


def a_case(bundle: Path) -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    manifest = Bundle.open(bundle).manifest
    name = next(case.name for case in manifest.cases if not case.refused and case.sizes["batch"] == 3)
    with np.load(bundle / "golden.npz") as golden:
        return name, {p.name: golden[f"{name}/{p.name}"] for p in manifest.inputs}, golden[f"{name}/y"]


def run(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **SANITIZED}
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False, env=env)


def save(folder: Path, feeds: dict[str, np.ndarray]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def is_one_clear_line(process: subprocess.CompletedProcess[str], text: str) -> None:
    assert process.returncode == 1, process
    assert process.stdout == ""
    assert process.stderr.startswith("error: ")
    assert process.stderr.count("\n") == 1, process.stderr
    assert text in process.stderr
