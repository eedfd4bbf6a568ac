"""What a command takes of time and memory, measured from outside."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = """
import json, os, resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024], file)
"""
"""A process begins with the memory of the one that starts it, as far as the system counts: a small one starts it."""


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Args:
        status: its exit status.
        lines: what it said.
        wall: seconds until its end.
        cpu: seconds of processors, of all its processes.
        peak: MiB of the largest of its processes, what it maps of files with it.
    """

    status: int
    lines: tuple[str, ...]
    wall: float
    cpu: float
    peak: float


def cost_of_inspecting(path: Path, options: Sequence[str] = ()) -> Cost:
    """Run `posenc inspect` on a file, in its folder."""
    words = [sys.executable, "-m", "posenc_export", "inspect", str(path), *options]
    measured = path.with_suffix(".cost")
    begin = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", LAUNCHER, str(measured), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=path.parent,
    ) as process:
        assert process.stdout is not None
        lines = process.stdout.readlines()
    wall = time.monotonic() - begin
    status, cpu, peak = json.loads(measured.read_text(encoding="utf-8"))
    measured.unlink()
    return Cost(status, tuple(line.rstrip("\n") for line in lines), wall, cpu, peak)
