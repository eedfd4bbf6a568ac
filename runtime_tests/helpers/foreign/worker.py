"""A process in an environment of its own: makes a model, calls it at many lengths, and exports it.

python -m helpers.foreign.worker MODEL FOLDER EXPORTER...   with runtime_tests on PYTHONPATH
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from helpers.foreign.built import TRACED, Made, make
from helpers.foreign.exporters import EXPORTERS, without_traces
from helpers.foreign.packaged import PACKAGED
from helpers.foreign.towers import TINY

# all short lengths, and both sides of each end and switch that a model has
LENGTHS = (*range(1, 81), 95, 96, 97, 127, 255, 256, 257, 300)
SIDES = (*range(2, 10), 11, 13)
"""Lengths at which a model is called; sides, where a length is one of a picture."""
PACKAGES = ("torch", "transformers", "diffusers", "onnx", "onnxscript", "onnxruntime", "onnxruntime-gpu")
MORE = ("onnxslim", "optimum", "optimum-onnx", "onnxruntime-genai", "mobius-onnx", "onnx-ir")


def versions() -> dict[str, str]:
    """Return the versions of what may have to do with a file."""
    there = {}
    for name in (*PACKAGES, *MORE):
        try:
            there[name] = version(name)
        except PackageNotFoundError:
            continue
    return there


def lengths(made: Made) -> tuple[int, ...]:
    """Return the lengths at which a model is called."""
    if not made.kind.unit:
        return (TRACED,)
    return SIDES if made.kind.unit in ("patches", "places") else LENGTHS


def eager(made: Made) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return what the model gives at each length at which it runs: "length/out", and "length/input NAME"."""
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    for length in lengths(made):
        feeds = made.kind.feeds(length)
        arrays |= {f"{length}/input {name}": value.numpy() for name, value in feeds.items()}
        try:
            with torch.no_grad():
                arrays[f"{length}/out"] = made.alone(*feeds.values()).numpy()
        except (IndexError, RuntimeError, ValueError):
            continue  # beyond the model's own end
    return arrays


def main() -> None:
    """Make the files of one model."""
    warnings.filterwarnings("ignore")
    model, folder, exporters = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    tiny = TINY[model]
    if "onnxruntime-genai" in exporters:
        # its builder takes any layer as wide as the vocabulary for the head, and 64 is the width of queries
        tiny = replace(tiny, config={**tiny.config, "vocab_size": 96})
    np.savez(folder / "eager.npz", **eager(make(tiny)))  # type: ignore[arg-type]
    (folder / "versions.json").write_text(json.dumps(versions()), encoding="utf-8")
    for name in exporters:
        slug = name.replace(" ", "-")
        try:
            written = {**EXPORTERS, **PACKAGED}[name](make(tiny), folder)
            without_traces(written, folder / f"{model}.{slug}.onnx")
        except Exception as error:  # whatever an exporter raises is its answer
            lines = [line for line in str(error).splitlines() if line.strip()] or [""]
            why = f"{type(error).__name__}: {lines[0][:200]}"
            (folder / f"{slug}.failed").write_text(why, encoding="utf-8")
            print(f"{model} {name}: {why}", flush=True)


if __name__ == "__main__":
    main()
