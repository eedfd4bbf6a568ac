"""Rows of distances, as relative attention has them: XLNet's, and those of Conformers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.encoding import eps
from posenc.hf.asking.built import Built, built
from posenc.hf.asking.model import CannotAsk, HfModule, Model, Question
from posenc.hf.asking.running import array, output_name, run_, takes
from posenc.ports import Array, Feeds

if TYPE_CHECKING:
    from torch import nn

ANGLE = 4
"""Roundings of float32, of its distance, that an angle may be off by."""
CONFORMER = re.compile("RelPosition|RelativePositionEmbedding")


def model_of(question: Question) -> Model:
    """Return a model's rows of distances."""
    if question.reading.parameters.get("output", "rows") != "rows":
        raise CannotAsk("its shift of scores is not asked about: its rows are")
    return _xlnet(question) if question.reading.scheme == "transformer_xl" else _conformer(question)


def _xlnet(question: Question) -> Model:
    made = built(question, lambda made: hasattr(made.model, "relative_positional_encoding"))
    model: HfModule = made.model
    names = [port.name for port in question.inputs]

    def call(feeds: Feeds) -> dict[str, Array]:
        seq, seq_k = feeds[names[0]].shape[1], feeds[names[-1]].shape[1]
        rows = run_(lambda: model.relative_positional_encoding(qlen=seq, klen=seq_k, bsz=1))
        return {output_name(question): array(rows).transpose(1, 0, 2)}

    return Model("XLNetModel.relative_positional_encoding", made.library, call, amplitude=1.0)


def _conformer(question: Question) -> Model:
    made = built(question, lambda made: bool(_paths(made)))
    module = made.model.get_submodule(_paths(made)[0])

    def call(feeds: Feeds) -> dict[str, Array]:
        frames = feeds[question.inputs[0].name].shape[1] if question.inputs else 1
        return {output_name(question): of_frames(module, frames)}

    farthest = max(int(str(question.reading.parameters.get(name, 0))) for name in ("past", "future"))
    atol = 0.0 if question.inputs else ANGLE * eps("float32") * farthest
    return Model(type(module).__name__, made.library, call, amplitude=1.0, atol=atol)


def _paths(made: Built) -> list[str]:
    return [name for name, module in made.model.named_modules() if CONFORMER.search(type(module).__name__)]


def of_frames(module: nn.Module, frames: int) -> Array:
    """Return the rows that a module gives for so many frames, or for a chunk: (1, rows, features)."""
    import torch

    if takes(module, "queries"):
        return of_chunk(module)
    outputs = run_(lambda: module(torch.zeros(1, frames, 1)))
    rows = array(outputs[1] if isinstance(outputs, tuple) else outputs)
    return rows if rows.ndim == 3 else rows[None]


def of_chunk(module: Any) -> Array:
    """Return Gemma 3n's rows, which its forward projects: before that, for the distances that it counts itself."""
    import torch

    windows: list[Array] = []
    signal = module._get_timing_signal_1d_pos

    def noted(position: object, dtype: object) -> Any:
        rows = signal(position, dtype)
        windows.append(array(rows))
        return rows

    blocks, chunk, context = (1, 1), 1, module.max_backward + module.max_forward + 1
    queries = torch.zeros(*blocks, chunk, module.num_heads, module.head_dim)
    keys = torch.zeros(*blocks, context, module.num_heads, module.head_dim)
    module._get_timing_signal_1d_pos = noted
    try:
        run_(lambda: module(queries, keys))
    finally:
        module._get_timing_signal_1d_pos = signal
    return np.asarray(windows[0])
