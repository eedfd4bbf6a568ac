"""A module of a model, made alone: for models whose whole needs libraries that nobody has installed."""

import inspect
from collections.abc import Iterator

from torch import nn

from posenc_models.asking.built import Built, config_of, modeling, part_of, zeros
from posenc_models.asking.load import library_of
from posenc_models.asking.model import CannotAsk, Question
from posenc_models.config.foreign import HfConfig


def alone(question: Question, classes: str) -> Built:
    """Return the largest module that has one of some classes, and that its part's config alone makes.

    Args:
        question: what is asked.
        classes: a pattern of their names.

    Raises CannotAsk, in one line, where there is none.
    """
    part, row = part_of(question)
    config = config_of(question.content, part)
    for kind in _of_config(config):
        try:
            made = Built(zeros(kind, config), part, row, config, library_of())
        except CannotAsk:
            continue
        if made.paths(classes):
            return made
    raise CannotAsk(f"no module that {type(config).__name__} makes has what is asked about")


def _of_config(config: HfConfig) -> Iterator[type[nn.Module]]:
    """Yield the modules of a config's modeling files that take it and nothing else: those that hold others first."""
    for module in modeling(config):
        for kind in reversed(list(vars(module).values())):
            if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__ == module.__name__:
                taken = list(inspect.signature(kind).parameters.values())
                is_of_config = taken and taken[0].annotation in (type(config), type(config).__name__)
                if is_of_config and all(parameter.default is not parameter.empty for parameter in taken[1:]):
                    yield kind
