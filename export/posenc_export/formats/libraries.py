"""What is changed of a library while it captures a module, and put back: where it has no other way in.

Two libraries are changed while they capture: onnxscript's reading of sources, and torch's search for causal masks,
which branches on data. The user's module and weights are never changed. Threads that export wait for one another here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

ONE_AT_A_TIME = threading.RLock()
"""Two threads that change the same thing would each put back what the other had made of it."""


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Have an attribute of a library be another one; threads wait for each other."""
    with ONE_AT_A_TIME:
        real = getattr(owner, name)
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, real)
