"""What a model's attention adds to scores: with queries and keys of zeros, its scores themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from posenc.ports import Array
from posenc_models.asking.intercepting import intercepted
from posenc_models.asking.model import CannotAsk, Function
from posenc_models.asking.running import Reached, array, run_
from posenc_models.config.foreign import HfModule

SOFTMAX = "softmax"


def of_attention(attention: HfModule, *inputs: object, **more: object) -> Array:
    """Return the scores that an attention takes the softmax of, or the mask that it gives torch's own attention.

    Raises CannotAsk where it computes neither.
    """

    def reached(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        name = getattr(function, "__name__", "")
        if name == SOFTMAX:
            raise Reached(args[0] if args else kwargs["input"])
        if name == "scaled_dot_product_attention":  # (query, key, value, attn_mask)
            raise Reached(kwargs.get("attn_mask", args[3] if len(args) > 3 else None))
        return function(*args, **kwargs)

    try:
        with intercepted(reached):
            run_(lambda: attention(*inputs, **more))
    except Reached as stop:
        if stop.value is not None:
            return array(stop.value)
    raise CannotAsk(f"{type(attention).__name__} adds nothing to scores")


def with_probabilities(attention: HfModule, probabilities: Array, *inputs: object) -> Array:
    """Return the output of an attention whose softmax gives these probabilities: (batch * heads, seq, seq_k)."""

    def replaced(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        is_softmax = getattr(function, "__name__", "") in (SOFTMAX, "scaled_dot_product_attention")
        return torch.from_numpy(probabilities) if is_softmax else function(*args, **kwargs)

    with intercepted(replaced):
        output = run_(lambda: attention(*inputs))
    return array(output[0] if isinstance(output, tuple) else output)


def constant(values: object) -> nn.Module:
    """Return a module that gives the same values for every input."""

    class ConstantScores(nn.Module):
        def forward(self, hidden: object) -> Any:
            return values

    return ConstantScores()
