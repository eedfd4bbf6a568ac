"""The free memory: checked before a large array is made.

An allocator fails only after minutes of swapping, or never, since pages are given out when they are first written.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np

GIB = 2**30
MEMINFO = Path("/proc/meminfo")
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


def free_memory() -> int:
    """Return how many bytes are free, or can be freed; 2^63 where the system does not say."""
    try:
        lines = MEMINFO.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**63


def bound_addresses(nbytes: int, *, for_good: bool = False) -> None:
    """Bound what this process takes from now on, in bytes; raise ImportError, OSError or ValueError where that fails.

    The system counts addresses, of which libraries take more than memory: those that are taken already come on top.

    Args:
        nbytes: the bytes.
        for_good: whether nobody may raise the bound again.
    """
    import resource

    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    size = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize:")), None)
    if size is None:
        raise OSError("the system does not say how many addresses a process has")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + nbytes, size + nbytes if for_good else hard))


@contextmanager
def at_most(nbytes: int) -> Iterator[None]:
    """Allow no array of more than `nbytes` while this lasts, however much memory is free: for untrusted files."""
    token = _allowed.set(nbytes)
    try:
        yield
    finally:
        _allowed.reset(token)


def check_room(label: str, shape: tuple[int, ...], dtype: str) -> None:
    """Raise ValueError, in one line, where an array is larger than the free memory, or than `at_most` allows.

    Args:
        label: what the message calls the array.
        shape: its shape.
        dtype: its dtype, as torch and numpy name it.
    """
    itemsize = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
    allowed = _allowed.get()
    needed, free = itemsize, free_memory() if allowed is None else min(allowed, free_memory())
    for size in shape:
        needed *= size  # Python's integers do not overflow
    if needed > free:
        sizes = " x ".join(map(str, shape))
        words = "allowed" if free == allowed else "free"
        raise ValueError(f"{label} of {sizes} takes {_gib(needed)} GiB; {_gib(free)} GiB are {words}")


def _gib(count: int) -> str:
    return f"{count / GIB:,.3g}" if count < 1000 * GIB else f"{count // GIB:,}"
