"""Limits of a process that looks into files of strangers: its memory, bounded by the system."""

from __future__ import annotations

import os
from pathlib import Path

from posenc.memory import GIB, free_memory
from posenc_export.common.machine import has_nvidia_driver

SHARE = 0.75
"""The share of the free memory that an untrusted graph may take."""
THREAD = 2**28
"""Addresses that a thread of a library reserves for its stack and heap; memory it takes only where it writes."""


def limit_memory(at_most: int = 2**63, *, uses_cuda: bool = True) -> float:
    """Bound this process to a share of the free memory, and return the GiB; 0 where it cannot be bounded.

    With CUDA it is not bounded: its libraries reserve addresses for all memory of the machine.

    Args:
        at_most: bytes, where the bound shall be smaller than that share.
        uses_cuda: whether libraries of CUDA may be loaded.
    """
    try:
        import resource

        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        # the limit is on addresses: those that are taken already count
        size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize:"))
        if uses_cuda and has_nvidia_driver():
            return 0.0
        share = min(int(SHARE * free_memory()), at_most)
        addresses = size + share + THREAD * (os.cpu_count() or 1)
        # the soft limit alone: a browser, which reserves addresses without end, is bounded otherwise
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (addresses, hard))
    except (ImportError, OSError, ValueError, StopIteration):
        return 0.0
    return share / GIB


def bound_data_instead() -> None:
    """Where the addresses of this process are bounded, bound what it and each child write: a share of the free memory.

    A browser reserves hundreds of GiB of addresses, and writes to few of them.
    """
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == hard:
            return
        _, hard_data = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (int(SHARE * free_memory()), hard_data))
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    except (ImportError, OSError, ValueError):
        return
