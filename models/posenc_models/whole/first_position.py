"""Which position a model gives the first token of a text, where `generate` leaves it to the model to count."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from posenc_models.whole.caches import ROUNDINGS
from posenc_models.whole.loading import quiet_transformers

TRIED = 4
"""Tokens of the text that is tried."""


def first_position(model: Any) -> int:
    """Return what a model adds to positions that are counted from 0, where `generate` gives it none: 0 for most.

    Kosmos-2.5 counts from the number behind that of its token for padding, and takes `position_ids` as they are.
    """
    takes = inspect.signature(model.forward).parameters
    if "position_ids" not in takes or not hasattr(model, "prepare_inputs_for_generation"):
        return 0
    padding = getattr(model.config.get_text_config(), "pad_token_id", None)
    if not isinstance(padding, int) or padding < 0:
        return 0
    ids = torch.arange(padding + 1, padding + 1 + TRIED)[None] % model.get_input_embeddings().num_embeddings
    places = torch.arange(TRIED)[None]
    try:
        with torch.no_grad(), quiet_transformers():
            given = model.prepare_inputs_for_generation(
                ids, attention_mask=torch.ones_like(ids), use_cache=False, is_first_iteration=True
            )
            if given.get("position_ids") is not None:
                return 0
            own = model(input_ids=ids, use_cache=False).logits
            for first in (0, padding + 1):
                found = model(input_ids=ids, position_ids=places + first, use_cache=False).logits
                if (found - own).abs().max() <= ROUNDINGS * torch.finfo(own.dtype).eps * own.abs().max():
                    return first
    except Exception:  # a stranger's code: whether it answers at all is tried elsewhere
        return 0
    return 0
