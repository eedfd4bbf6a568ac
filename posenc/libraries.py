"""Attributes of libraries that are replaced while a module is captured, and put back, where there is no other way.

These are what onnxscript does at every export, how transformers calls attention, and of torch the search for causal
masks, which branches on data, the check of sizes in recurrent networks, and what reads sizes of images while a vision
tower is called. The user's module and weights are never changed. Threads that export wait here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

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


@contextmanager
def replaced_in_files(model: nn.Module, functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Replace functions in the files of a model's modules, by their names there, while the context lasts."""
    files = {type(module).__module__: sys.modules[type(module).__module__] for module in model.modules()}
    with ExitStack() as stack:
        for _, file in sorted(files.items()):
            for name, function in functions.items():
                if hasattr(file, name):
                    stack.enter_context(replaced(file, name, function))
        yield


def library_class(module: nn.Module) -> type[nn.Module]:
    """Return the class that a module has in its library: torch.export puts others around it, anew at every look."""
    kinds = [kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.fx.")]
    own: type[nn.Module] = next(one for one in kinds if getattr(sys.modules[one.__module__], one.__name__, None) is one)
    return own
