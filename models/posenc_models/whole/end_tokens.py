"""Models that read a text at the token that ends it: BART's and T5's heads for sequences, in a form for a graph.

transformers picks the states of all such tokens of a batch at once, and refuses texts with unlike numbers of them: the
size of what it picks depends on the words. Here each text has the state of its last one, which is what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

LENGTHS = (5, 3)
"""Tokens of the texts on which it is tried whether the numbers are those of transformers; the second one is padded."""
END_ROUNDINGS = 64
"""How far two calls may be apart, in eps of the largest logit."""


class LastOfEach(TorchFunctionMode):
    """While it lasts, `states[mask, :]` is one row for each text: that of the last token that the mask has.

    Args:
        met: whether anything was picked so.
    """

    met = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return what a function of torch gives, or the rows."""
        if func is torch.unique_consecutive:  # how many ends each text has, which transformers wants alike
            return args[0].new_zeros(1)
        if func is Tensor.__getitem__ and _is_mask_of_tokens(args[1]):
            self.met = True
            states, mask = args[0], args[1][0]
            last = (mask.to(torch.int64) * torch.arange(mask.shape[1], device=mask.device)).amax(1)
            return states.gather(1, last[:, None, None].expand(-1, 1, states.shape[-1]))[:, 0]
        return func(*args, **(kwargs or {}))


class EndCall(nn.Module):
    """A model that may read each text at its end.

    Args:
        call: calls it with tensors by position, and gives tensors in a row.
    """

    def __init__(self, call: nn.Module) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of a call."""
        with LastOfEach():
            outputs: tuple[Tensor, ...] = self.call(*tensors)
        return outputs


def notes_of_ends(model: Any, module: EndCall, inputs: Sequence[str]) -> list[str]:
    """Return a line on a model that reads texts at their end; nothing for any other.

    Args:
        model: the model of transformers.
        module: it, as it is exported.
        inputs: what it takes by position.

    Raises ValueError, in one line, where two texts that end have other numbers than those of transformers.
    """
    end = getattr(model.config, "eos_token_id", None)
    words = [token for token in range(2 + sum(LENGTHS)) if token != end]
    ids = torch.full((len(LENGTHS), 1 + max(LENGTHS)), words[0], dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(LENGTHS):
        text = [*words[1 + row * LENGTHS[0] :][:length], end if isinstance(end, int) else 0]
        ids[row, : len(text)], mask[row, : len(text)] = torch.tensor(text), 1
    given = {"input_ids": ids, "attention_mask": mask}
    taken = {name: given[name] for name in inputs if name in given}
    with torch.no_grad(), LastOfEach() as met:
        module.call(*taken.values())
    if not met.met:
        return []
    with torch.no_grad():
        (ours, *_), theirs = module(*taken.values()), model(**taken, return_dict=True).logits
    if (ours - theirs).abs().max() > END_ROUNDINGS * torch.finfo(theirs.dtype).eps * theirs.abs().max():
        raise ValueError(f"{type(model).__name__} is not exported: at the end of a text it reads more than its state")
    return [
        f"each text is read at its last token {end}, which ends it; a text without it, which transformers refuses, at "
        "its first token"
    ]


def _is_mask_of_tokens(index: Any) -> bool:
    is_pair = isinstance(index, tuple) and len(index) == 2
    return is_pair and isinstance(index[0], Tensor) and index[0].dtype == torch.bool and index[0].dim() == 2
