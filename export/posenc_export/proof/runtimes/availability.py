"""Which runtimes run here, and what the others lack."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_export.proof.runtimes import RUNTIMES, TAKES_LONGER, Missing


@dataclass(frozen=True)
class Availability:
    """A runtime on this machine.

    Args:
        name: Its name, as --runtime takes it.
        format: The format that it runs.
        device: Where it runs: cpu, cuda, webgpu, or none where it runs nothing.
        found: Whether it runs here.
        lacks: What it lacks, and how to get that; or how to have it run, where it takes longer than others.
        summary: What it is.
    """

    name: str
    format: str
    device: str
    found: bool
    lacks: str
    summary: str


def availability() -> list[Availability]:
    """Return every runtime with what it lacks here; nothing is built, and no graph is loaded."""
    rows = []
    for runtime in RUNTIMES.values():
        try:
            runtime.check()
            lacks, found = TAKES_LONGER if runtime.slow else "", True
        except Missing as missing:
            lacks, found = str(missing), False
        rows.append(Availability(runtime.name, runtime.format, runtime.device, found, lacks, runtime.summary))
    return rows
