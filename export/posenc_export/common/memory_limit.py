"""Limits of a process that looks into files of strangers: its memory, bounded by the system."""

from __future__ import annotations

import os

from posenc.memory import GIB, bound_addresses, free_memory
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
    if uses_cuda and has_nvidia_driver():
        return 0.0
    share = min(int(SHARE * free_memory()), at_most)
    try:
        # not for good: a browser, which reserves addresses without end, is bounded otherwise
        bound_addresses(share + THREAD * (os.cpu_count() or 1))
    except (ImportError, OSError, ValueError):
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
