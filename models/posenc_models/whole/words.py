"""What a model that sees or hears makes of ids of tokens, before its decoder reads them: as a rule, rows of a table.

Some put other vectors there for ids that name pictures or sounds, also in a text that they write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posenc.libraries import library_class, replaced
from posenc_models.whole.tasks import EMBEDDINGS

FEW = 3
"""Ids that are tried from the beginning of a vocabulary, and as many from its end."""


class Words(nn.Module):
    """Ids of tokens to their embeddings: (batch, seq) to (batch, seq, hidden)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.table = model.get_input_embeddings()

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the embeddings of ids."""
        embeddings: Tensor = self.table(input_ids)
        return embeddings


class OwnWords(nn.Module):
    """The same by the model's own `forward`: what it gives to its decoder, which is not called."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the embeddings of ids."""
        from transformers.modeling_outputs import BaseModelOutputWithPast

        def given_back(_: Any, *__: Any, **given: Any) -> Any:
            return BaseModelOutputWithPast(last_hidden_state=given[EMBEDDINGS])

        with replaced(library_class(self.model.get_decoder()), "forward", given_back):
            mask = torch.ones_like(input_ids)
            output = self.model.base_model(input_ids=input_ids, attention_mask=mask, use_cache=False, return_dict=True)
        embeddings: Tensor = output.last_hidden_state
        return embeddings


def words_of(model: Any) -> Words | OwnWords:
    """Return what makes embeddings of ids: the table alone, unless the model's own code gives others for some."""
    table, own = Words(model), OwnWords(model)
    if getattr(model.config, "is_encoder_decoder", False):  # what its decoder reads is no prompt
        return table
    ids = torch.tensor([_tried(model.config.to_dict(), table.table.num_embeddings)])
    with torch.no_grad():
        try:
            expected = own(ids)
        except Exception:  # a stranger's code, in a call that nobody makes
            return table
        return table if torch.equal(table(ids), expected) else own


def _tried(said: Mapping[str, Any], count: int) -> list[int]:
    """Return ids of a vocabulary: those that a config has a name for, the first and the last."""
    named = (said[key] for key in said if key.endswith(("_token_id", "_token_index")))
    numbers = {one for one in named if isinstance(one, int) and 0 <= one < count}
    return sorted({*numbers, *range(min(FEW, count)), *range(max(count - FEW, 0), count)})
