"""The logits of a causal language model before and after its rotary modules are swapped.

Three ways to read the same tokens are compared: at once, the first text padded on the left, and in two calls, behind
caches of two lengths. What may differ is measured: the model is run with the swapped cosines and sines moved at random
by what float32 angles may be off.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import eps
from posenc_models.replacing.compare import ROUNDINGS
from posenc_models.replacing.modules import KeepDtype

TEXTS, TOKENS, PADDING = 2, 24, 7
"""What is read, and how many tokens of padding the first text has on its left."""
CACHED = (1, 13)
"""Tokens in the cache of a second call."""
SHARE = 4
"""How many times as far logits may move as they do where cosines and sines are moved at random: no sign cancels."""
STEPS = 32
"""Steps of the dtype that the largest logit may be off, where sums are added up in another order."""
SEEN = 10
"""How many times the allowed difference logits must move at least where positions are doubled."""
OURS = 3e-7
"""The error of our cosines and sines."""


class ModelInputs(NamedTuple):
    """What a model reads: tokens, positions and a mask that is 0 at padding, (texts, tokens) each."""

    ids: Tensor
    positions: Tensor
    mask: Tensor


def text_for(model: nn.Module) -> ModelInputs:
    """Return what a model reads; raise ValueError, in one line, where it is no causal language model."""
    config: Any = getattr(model, "config", None)
    head = getattr(model, "get_output_embeddings", lambda: None)()
    if config is None or head is None or getattr(config, "is_encoder_decoder", False):
        raise ValueError(f"logits=True is for causal language models, and {type(model).__name__} is none: leave it out")
    text = config.get_text_config()
    count = min(TOKENS, getattr(text, "max_position_embeddings", TOKENS))
    drawn = torch.randint(0, text.vocab_size, (TEXTS, count), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(drawn)
    mask[0, : min(PADDING, count // 2)] = 0
    device = next(model.parameters()).device
    return ModelInputs(*(part.to(device) for part in (drawn, (mask.cumsum(-1) - 1).clamp(min=0), mask)))


def logits_of(model: nn.Module, read: ModelInputs) -> list[Tensor]:
    """Return the logits of all tokens but padding, (tokens, vocabulary): of one call, and behind each cache."""
    with _still(model):
        whole = _call(model, read, slice(None)).logits
        parts = [whole[read.mask.bool()]]
        for past in (count for count in CACHED if count < read.ids.shape[1]):
            before = _call(model, read, slice(0, past))
            after = _call(model, read, slice(past, None), before.past_key_values)
            parts.append(after.logits[read.mask[:, past:].bool()])
    return [part.to("cpu", torch.float64) for part in parts]


def compared(model: nn.Module, read: ModelInputs, theirs: list[Tensor], elsewhere: list[Tensor]) -> str:
    """Return in words how far logits are from those of before; raise ValueError, in one line, where it is too far.

    Args:
        model: with our modules.
        read: what it reads.
        theirs: its logits with the modules of its own.
        elsewhere: the same at twice the positions.
    """
    ours = logits_of(model, read)
    off, allowed = _largest(ours, theirs), _allowed(model, read, ours)
    if not off <= allowed:
        raise ValueError(f"its logits are off by {off:.2g} with rotary modules of ours, where {allowed:.2g} is allowed")
    if not _largest(elsewhere, theirs) > SEEN * allowed:
        raise ValueError(
            "its logits hardly depend on positions, so that they prove nothing: load trained weights, in float32, "
            "or leave logits=True out"
        )
    lengths = " and ".join(map(str, CACHED))
    return f"off by {off:.2g}, {allowed:.2g} allowed: padded on the left, and behind {lengths} tokens in a cache"


def doubled(read: ModelInputs) -> ModelInputs:
    """Return the same tokens at twice their positions."""
    return read._replace(positions=read.positions * 2)


def _call(model: Any, read: ModelInputs, part: slice, cache: Any = None) -> Any:
    tokens = {"input_ids": read.ids[:, part], "attention_mask": read.mask[:, : part.stop]}
    try:
        with torch.no_grad():
            return model(**tokens, position_ids=read.positions[:, part], past_key_values=cache, use_cache=True)
    except Exception as error:  # whatever a model raises
        first = (str(error).splitlines() or [""])[0]
        words = f"called with tokens, positions, a mask and a cache it raised {type(error).__name__}: {first}"
        raise ValueError(f"{words}; leave logits=True out") from error


def _largest(some: list[Tensor], others: list[Tensor]) -> float:
    """Return the largest difference; infinity where a number is none."""
    largest = max(float((a - b).abs().max()) for a, b in zip(some, others, strict=True))
    return largest if np.isfinite(largest) else np.inf


def _allowed(model: nn.Module, read: ModelInputs, ours: list[Tensor]) -> float:
    """Return how far logits may be from those of before."""
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    peak = max(float(part.abs().max()) for part in ours)
    # a rotated number is |a| + |b| of a pair off
    shift = 2 * (ROUNDINGS * eps("float32") * read.ids.shape[1] + OURS)
    with _moved(model, shift):
        moved = _largest(logits_of(model, read), ours)
    return SHARE * moved + STEPS * eps(dtype) * peak


@contextmanager
def _moved(model: nn.Module, shift: float) -> Iterator[None]:
    """Have our modules return numbers that are moved at random by a share of their largest one."""
    generator = torch.Generator().manual_seed(0)

    def move(_module: nn.Module, _args: object, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        signs = [torch.randint(0, 2, out.shape, generator=generator).to(out.device) * 2 - 1 for out in outputs]
        return tuple(out + shift * sign * out.abs().max() for out, sign in zip(outputs, signs, strict=True))

    hooks = [module.register_forward_hook(move) for module in model.modules() if isinstance(module, KeepDtype)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _still(model: nn.Module) -> Iterator[None]:
    """Have a model compute as it does after training, without dropout, for a while."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
