"""What a model's attention adds to scores: with queries and keys of zeros, its scores themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc.hf.asking.model import CannotAsk
from posenc.hf.asking.running import Reached, array, run_
from posenc.ports import Array

if TYPE_CHECKING:
    from torch import nn


def of_attention(attention: nn.Module, *inputs: Any, **more: Any) -> Array:
    """Return the scores that an attention takes the softmax of, or the mask that it gives torch's own attention.

    Raises CannotAsk where it computes neither.
    """
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            if function in (functional.softmax, torch.softmax, torch.Tensor.softmax):
                raise Reached(args[0] if args else given["input"])
            if function is functional.scaled_dot_product_attention:
                raise Reached(given.get("attn_mask", args[3] if len(args) > 3 else None))
            return function(*args, **given)

    try:
        with Mode():
            run_(lambda: attention(*inputs, **more))
    except Reached as found:
        if found.value is not None:
            return array(found.value)
    raise CannotAsk(f"{type(attention).__name__} adds nothing to scores")
