"""What each layer of a model remembers, asked of the cache that a call of two tokens gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_models.whole.loading import quiet_transformers
from posenc_models.whole.memories import Memory, memories_of
from posenc_models.whole.port_texts import config_values
from posenc_models.whole.trials import failure_line

CACHES = ("past_key_values", "cache_params")
"""What models call the cache that they take, and give."""


def memories_of_model(model: Any, *, behind_encoder: bool) -> tuple[tuple[tuple[Memory, ...], ...], str]:
    """Return what each layer remembers of two tokens, and the name of the cache; raise ValueError where it is unknown.

    Of a decoder behind an encoder, the layers of two states of the encoder follow, by turns.
    """
    import torch

    from posenc_models.whole.modules import cache_of, layers_of, states_of_encoder

    def call(**named: object) -> tuple[list[Any], str]:
        """Return the layers of the cache of a call, and the cache's name."""
        try:
            with torch.no_grad(), quiet_transformers():
                output = model(**named, use_cache=True)
        except Exception as error:  # a model of a stranger's config raises what comes
            raise ValueError(failure_line(model, error, [*named], cached=True)) from error
        found = ((layers_of(getattr(output, name, None)), name) for name in CACHES)
        return next(((layers, name) for layers, name in found if layers), ([], ""))

    ids = torch.zeros((1, 2), dtype=torch.int64)
    if behind_encoder:
        states = torch.zeros(1, 2, config_values(model)["encoder_width"], dtype=model.dtype)
        layers, cache = call(decoder_input_ids=ids, encoder_outputs=states_of_encoder(states))
    else:
        layers, cache = call(input_ids=ids)
    if not layers:
        encodes = ", as is_decoder is false in its config" * (getattr(model.config, "is_decoder", None) is False)
        raise ValueError(
            f"{type(model).__name__} caches no keys and values{encodes}: --model takes models whose layers have a "
            "cache of transformers"
        )
    known = _memories(model, layers)
    if behind_encoder or any(not memory.grows for memories in known for memory in memories):
        return known, cache
    # the graph gives each layer its keys and values in a plain cache, which knows nothing of windows
    layers, cache = call(input_ids=ids, past_key_values=cache_of(()))
    return _memories(model, layers), cache


def _memories(model: Any, layers: Sequence[Any]) -> tuple[tuple[Memory, ...], ...]:
    """Return what each layer of the cache of a call of two tokens remembers."""
    found = []
    for number, layer in enumerate(layers):
        try:
            found.append(memories_of(layer, 2))
        except ValueError as error:
            raise ValueError(
                f"{type(model).__name__}: layer {number} caches {error}: --model takes models whose layers cache keys "
                "and values of each token, states of convolutions and recurrences, and nothing else"
            ) from error
    return tuple(found)
