"""Whole models of transformers at tiny sizes, each behind a wrapper of one line: what goes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, logging

logging.set_verbosity(50)
logging.disable_progress_bar()

VOCABULARY = 50


@dataclass(frozen=True)
class Whole:
    """A model: its name in the table, where it is made, what goes in.

    factory: module:name in this folder; it takes `model`, a key of that file's `CONFIGS`.
    """

    name: str
    factory: str
    model: str
    inputs: tuple[str, ...]
    max_len: int = 70


def built(model_type: str, config: Mapping[str, object]) -> nn.Module:
    """Return a model of a type without its head, weights at random: large, so that positions show in each output."""
    torch.manual_seed(0)
    model: nn.Module = AutoModel.from_config(AutoConfig.for_model(model_type, **config))
    return drawn(model)


def drawn(model: nn.Module) -> nn.Module:
    """Return a model whose biases and tables, which start at zero, are at random: nothing hides behind a zero."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(std=0.2)
    return model.eval()
