"""What a model's attention adds to scores: with queries and keys of zeros, its scores themselves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from posenc.hf.asking.model import Arguments, CannotAsk, Function, Instead, Keywords
from posenc.hf.asking.running import Reached, array, run_
from posenc.ports import Array

if TYPE_CHECKING:
    from torch import nn

SOFTMAX = "softmax"


def of_attention(attention: nn.Module, *inputs: object, **more: object) -> Array:
    """Return the scores that an attention takes the softmax of, or the mask that it gives torch's own attention.

    Raises CannotAsk where it computes neither.
    """

    def reached(function: Function, args: Arguments, kwargs: Mapping[str, object]) -> object:
        if function.__name__ == SOFTMAX:
            raise Reached(args[0] if args else kwargs["input"])
        raise Reached(kwargs.get("attn_mask", args[3] if len(args) > 3 else None))

    try:
        with intercepted(reached):
            run_(lambda: attention(*inputs, **more))
    except Reached as stop:
        if stop.value is not None:
            return array(stop.value)
    raise CannotAsk(f"{type(attention).__name__} adds nothing to scores")


def with_probabilities(attention: nn.Module, probabilities: Array, *inputs: object) -> Array:
    """Return what an attention gives whose softmax gives these: (batch * heads, seq, seq_k)."""
    import torch

    def replaced(function: Function, args: Arguments, kwargs: Mapping[str, object]) -> object:
        return torch.from_numpy(probabilities)

    with intercepted(replaced):
        output = run_(lambda: attention(*inputs))
    return array(output[0] if isinstance(output, tuple) else output)


def constant(values: object) -> nn.Module:
    """Return a module that gives the same, whatever goes in."""
    import torch

    class Constant(torch.nn.Module):
        def forward(self, hidden: object) -> Any:
            return values

    return Constant()


def intercepted(instead: Instead) -> AbstractContextManager[object]:
    """Have something else run where torch's softmax, or its own attention, is called."""
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Function, types: object, args: Arguments = (), kwargs: Keywords = None
        ) -> object:
            if getattr(function, "__name__", "") in (SOFTMAX, "scaled_dot_product_attention"):
                return instead(function, args, kwargs or {})
            return function(*args, **(kwargs or {}))

    return Mode()
