"""Attributes of libraries that are replaced while a module is captured, and put back, where there is no other way.

These are what onnxscript does at every export, how transformers calls attention, and of torch the search for causal
masks, which branches on data, the check of sizes in recurrent networks, and what reads sizes of images while a vision
tower is called. The user's module and weights are never changed. Threads that export wait here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

ONE_AT_A_TIME = threading.RLock()
"""If two threads replaced one attribute at once, the second would put back what the first had put there."""


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a library while the context lasts; threads wait for each other."""
    with ONE_AT_A_TIME:
        real = getattr(owner, name)
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, real)
