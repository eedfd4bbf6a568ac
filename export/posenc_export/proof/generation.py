"""Greedy generation: tokens that the eager module writes behind prompts, and those that a loaded graph writes there.

Prompts go in alone, and as one batch that is padded on the left; then a token at a time, with keys and values of all
before it. A graph is led along the module's tokens, so that one token that differs does not change all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from posenc.ports import Array, Port
from posenc_export.bundle.manifest import Generation

Call = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""A call of a module or of a graph: arrays by their names to arrays by their names."""
NEAR = 2 * 16 * 2.0**-23
"""How near two logits are, as a share of the largest one, where float32 does not tell which of them is the largest.

Outputs of a user's module may differ by 16 eps of their scale, and here two of them are compared.
"""


def recorded(
    call: Call, inputs: Sequence[Port], prompts: Sequence[Sequence[int]], count: int
) -> tuple[Generation, ...]:
    """Return what a module writes behind each prompt alone, and behind all of them in one padded batch."""
    alone = [_record(call, inputs, [prompt], count) for prompt in prompts]
    return (*alone, _record(call, inputs, prompts, count))


def _record(call: Call, inputs: Sequence[Port], prompts: Sequence[Sequence[int]], count: int) -> Generation:
    rows: list[list[int]] = [[] for _ in prompts]
    for logits in steps(call, inputs, prompts, rows, count):
        for row, token in zip(rows, logits.argmax(-1).tolist(), strict=True):
            row.append(token)
    return Generation(tuple(map(tuple, prompts)), tuple(map(tuple, rows)))


def differences(call: Call, inputs: Sequence[Port], generation: Generation) -> tuple[list[str], list[str]]:
    """Return where a graph writes another token, and where it may since two logits are as good as equal."""
    wrong: list[str] = []
    near: list[str] = []
    rows: list[list[int]] = [[] for _ in generation.prompts]
    alone = len(rows) == 1
    for step, logits in enumerate(steps(call, inputs, generation.prompts, rows, len(generation.tokens[0]))):
        for number, (row, of_row) in enumerate(zip(rows, logits, strict=True)):
            expected, actual = generation.tokens[number][step], int(of_row.argmax())
            if not np.isfinite(of_row).all():
                wrong.append(f"{_place(step, number, alone)} has logits that are no numbers")
            elif actual != expected:
                gap, scale = float(of_row[actual] - of_row[expected]), float(np.abs(of_row).max())
                words = f"{_place(step, number, alone)} is {actual}, expected {expected}"
                (near if gap <= NEAR * scale else wrong).append(f"{words} (logits {gap:.1e} apart)")
            row.append(expected)
    return wrong, near


def _place(step: int, number: int, alone: bool) -> str:
    return f"token {step}" if alone else f"token {step} of prompt {number} in a padded batch"


def steps(
    call: Call, inputs: Sequence[Port], prompts: Sequence[Sequence[int]], rows: Sequence[Sequence[int]], count: int
) -> Iterator[np.ndarray]:
    """Yield the logits of the last token of each prompt, (batch, vocabulary); between, the caller appends to `rows`."""
    longest = max(map(len, prompts))
    ids = np.array([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts], np.int64)
    mask = np.array([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], np.int64)
    feeds = _empty_caches(inputs, len(prompts))
    for step in range(count):
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -ids.shape[1] :]
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        outputs = call({**feeds, **{port.name: given[port.name] for port in inputs if port.name in given}})
        yield np.asarray(outputs["logits"], np.float32)[:, -1]
        feeds = {name: outputs[name.replace("past_key_values", "present")] for name in feeds}
        ids = np.array([[row[step]] for row in rows], np.int64)
        mask = np.concatenate([mask, np.ones_like(ids)], 1)


def _empty_caches(inputs: Sequence[Port], batch: int) -> dict[str, Array]:
    """Return caches of no token, by the names of their inputs."""
    return {
        port.name: np.zeros((batch, port.axes[1].size or 1, 0, port.axes[3].size or 1), port.dtype)
        for port in inputs
        if port.name.startswith("past_key_values.")
    }
