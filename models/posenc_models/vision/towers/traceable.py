"""Vision towers of transformers while they are traced: functions that read sizes of images are replaced."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from posenc.libraries import replaced, replaced_in_files
from posenc_models.vision.towers.grid_functions import GridFunctions
from posenc_models.vision.towers.parts import methods_of
from posenc_models.vision.towers.whole_rows import rows_together

FEATURES = ("get_image_features", "get_video_features")
"""Methods of models of transformers that call a vision tower."""


@contextmanager
def traceable_towers() -> Iterator[None]:
    """Have the methods of models of transformers that call a vision tower keep sizes of images in tensors.

    Then an exporter captures them for images of any size and number, and they give the same numbers as ever. Rows of
    all images come as the only one of `pooler_output`. Models must be loaded before.
    """
    with ExitStack() as stack:
        for owner, name in _methods():
            stack.enter_context(replaced(owner, name, _traceable(getattr(owner, name))))
        yield


def _methods() -> list[tuple[type, str]]:
    """Return the classes of loaded models that have a method of their own that calls a vision tower, and its name."""
    found: dict[tuple[type, str], None] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers.models.") and ".modeling_" in name:
            classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == name]
            found.update({(one, method): None for one in classes for method in FEATURES if method in vars(one)})
    return list(found)


def _traceable(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that calls a vision tower, with what it calls replaced; one that calls it in turn is not."""

    @functools.wraps(method)
    def called(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if _Running.now:
            return method(self, *args, **kwargs)
        pixels = [*args, *(value for name, value in kwargs.items() if name.startswith("pixel_values"))][0]
        with _replaced_in(self, GridFunctions(pixels.shape[0], "video" in method.__name__)):
            # asked for again: it may have been replaced
            return getattr(self, method.__name__)(*args, **kwargs)

    return called


class _Running:
    """Whether a tower is being called, by the method of a model that another method may have called."""

    now = False


@contextmanager
def _replaced_in(model: nn.Module, functions: GridFunctions) -> Iterator[None]:
    """Replace what the parts of a model call."""
    with ExitStack() as stack:
        stack.enter_context(replaced(_Running, "now", True))
        stack.enter_context(replaced_in_files(model, functions.by_name()))
        for kind, name, method in methods_of(model, functions):
            stack.enter_context(replaced(kind, name, method))
        stack.enter_context(rows_together())
        yield
