"""A few lines of a book, a byte a token, and models that read them."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

TEXT = Path(__file__).parents[1] / "data" / "alice.txt"
BATCH = 8


def train(
    model: nn.Module, steps: int, length: int, inputs: Callable[[Tensor], Mapping[str, Tensor]], clip: float = math.inf
) -> float:
    """Train a model of transformers on passages of the book; return the loss of the last step.

    Args:
        model: Its vocabulary are the bytes.
        steps: Batches of eight passages that it reads.
        length: Bytes of a passage.
        inputs: What the model is called with, labels among them, of passages: (batch, length).
        clip: The largest norm of a gradient.
    """
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    last = math.nan
    for _ in range(steps):
        starts = torch.randint(len(text) - length, (BATCH,))
        passages = torch.stack([text[start : start + length] for start in starts.tolist()])
        loss: Tensor = model(**inputs(passages)).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        last = loss.item()
    return last
