"""Graphs with the ports of a bundle of VARIETY that compute something else, and what a class says of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from safetensors.numpy import save_file

from helpers.embedded import write_bundle

FILES = {"onnx": "model.onnx", "torch": "model.pt"}
"""The graph that each backend loads."""


@dataclass(frozen=True)
class Other:
    """The command line of another graph, and the first fact in which it differs."""

    words: str
    difference: str


HALF, BFLOAT = "rope --dtype fp16 -p head_dim=16", "learned --dtype bf16 --positions explicit -p d_model=8"
NUMBERS = "its tensors hold other numbers, as of other weights or of another seed"
OTHERS: Mapping[str, Mapping[str, Other]] = {
    "half": {
        "theta": Other(f"{HALF} --dynamic -p rope_theta=500000", "params.rope_theta is 500000, expected 10000"),
        "layout": Other(f"{HALF} --dynamic -p layout=interleaved", "params.layout is interleaved, expected halves"),
        "type": Other(
            f"{HALF} --dynamic -p rope_type=linear -p factor=4",
            "params.rope_type is linear, expected default",
        ),
        "mode": Other(f"{HALF} --baked", "mode is baked, expected dynamic"),
        "method": Other(f"{HALF} --dynamic --method trig", "method is trig, expected exact"),
        "dtype": Other(f"{HALF} --dynamic --dtype fp32", "dtype is float32, expected float16"),
        "positions": Other(f"{HALF} --dynamic --positions offset", "positions is offset, expected explicit"),
        "scheme": Other("xpos --dynamic --dtype fp16 -p head_dim=16", "scheme is xpos, expected rope"),
    },
    "bfloat": {
        "end": Other(f"{BFLOAT} --max-len 60", "ends.positions is 60, expected 70"),
        "seed": Other(f"{BFLOAT} --seed 1", NUMBERS),
        "weights": Other(f"{BFLOAT} -p weights=WEIGHTS", NUMBERS),
        "scheme": Other(
            "sinusoidal --dtype bf16 --positions explicit -p d_model=8",
            "scheme is sinusoidal, expected learned",
        ),
    },
}
"""By the class that is to refuse them, those with its ports but for `dtype` and `positions`."""
STRIPPED = (
    "does not say which graph it is: it has no posenc.id, as where an optimizer drops metadata; "
    "Options::any_graph loads it all the same"
)


def refused(place: str, other: Other) -> str:
    """Return what a class says of a graph."""
    return f"{place} is another graph than this class was made for: {other.difference}"


def write_others(folder: Path, name: str, kind: str) -> None:
    """Write the bundles that a class is to refuse; of one kind, or all."""
    weights = folder / "table.safetensors"
    save_file({"table": np.random.default_rng(0).standard_normal((70, 8)).astype(np.float32)}, weights)
    for key, other in OTHERS[name].items():
        if kind in ("", key):
            write_bundle(folder / key, other.words.replace("WEIGHTS", str(weights)))


def _strip_onnx(file: Path, to: Path) -> None:
    model = onnx.load(file)
    del model.metadata_props[:]
    onnx.save(model, to)


def _strip_script(file: Path, to: Path) -> None:
    torch.jit.save(torch.jit.load(str(file)), str(to))


STRIP = {"onnx": _strip_onnx, "torch": _strip_script}
"""Write a graph again, without what its file said of it."""
