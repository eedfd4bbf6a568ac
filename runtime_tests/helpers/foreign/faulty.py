"""The truth about faulty files: made, run, and compared with what the right model gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import onnx

from helpers.foreign.faults import FAULTS, write
from helpers.foreign.files import digest_of
from helpers.foreign.fused_faults import FUSED, HELD, write_fused, write_three_inputs
from helpers.foreign.generated import head_dim, versions_of
from helpers.foreign.judged import Eager, end_of
from helpers.foreign.towers import TINY
from helpers.foreign.truth import Held, Truth
from helpers.foreign.worker import versions


def record(
    path: Path, model: str, optimizer: str, held: tuple[Held, ...], fault: tuple[str, tuple[Held, ...]]
) -> Truth:
    """Return the truth about a file: what is wrong with it, and what it holds instead."""
    content = path.read_bytes()
    folder = path.parent
    (folder / "versions.json").write_text(json.dumps(versions()), encoding="utf-8")
    return Truth(
        file=path.name,
        model=model,
        model_type=TINY[model].model_type if model in TINY else "",
        exporter="" if "three-inputs" in path.name else "plain old",
        optimizer=optimizer,
        versions=versions_of(folder, "plain old", optimizer),
        sha256=digest_of(content),
        size=len(content),
        inputs=tuple(port.name for port in onnx.load_from_string(content).graph.input),
        held=held,
        dtype="float32",
        end=end_of(path, Eager(folder / "eager.npz", head_dim(held)), "float32", "tokens"),
        must_find=fault[0],
        held_in_file=fault[1],
    )


def faulty(folder: Path) -> Iterator[Truth]:
    """Make every faulty file, and yield the truth about each; beside them the right file of two thetas."""
    for name, fault in FAULTS.items():
        written = write(name, folder / name)
        yield record(written, fault.model, "", TINY[fault.model].held, (fault.must_find, fault.held_in_file))
    model = "two-thetas"
    yield record(write_fused(folder / "right", "plain-old", False, False), model, "", HELD, ("", HELD))
    for name, fault_of in FUSED.items():
        if name == "fault-three-inputs":
            yield record(write_three_inputs(folder / name), model, "", fault_of[1], fault_of)
            continue
        written = write_fused(folder / name, name, name == "fault-ids-of-batch-1", True)
        yield record(written, model, "FusionRotaryEmbeddings", HELD, fault_of)
