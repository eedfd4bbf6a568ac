"""Rows of distances, as relative attention has them: XLNet's, and those of Conformers."""

import torch
from torch import Tensor

from posenc.encoding import eps
from posenc.ports import Array, Feeds
from posenc_models.asking.built import built
from posenc_models.asking.model import Answer, CannotAsk, OwnModel, Question
from posenc_models.asking.running import answer, array, run_, takes, values_of
from posenc_models.asking.standing import setting
from posenc_models.config.foreign import HfModule

ANGLE = 4
"""Roundings of float32, of its distance, that an angle may be off by."""
CONFORMER = "RelPosition|RelativePositionEmbedding"


def model_of(question: Question) -> OwnModel:
    """Return a model's rows of distances."""
    if question.reading.parameters.get("output", "rows") != "rows":
        raise CannotAsk("its shift of scores is not asked about: its rows are")
    return _xlnet(question) if question.reading.scheme == "transformer_xl" else _conformer(question)


def _xlnet(question: Question) -> OwnModel:
    made = built(question, lambda made: hasattr(made.model, "relative_positional_encoding"))
    model: HfModule = made.model
    names = [port.name for port in question.inputs]

    def call(feeds: Feeds) -> Answer:
        seq, seq_k = feeds[names[0]].shape[1], feeds[names[-1]].shape[1]
        rows = values_of(lambda: model.relative_positional_encoding(qlen=seq, klen=seq_k, bsz=1))
        return answer(question, rows.transpose(1, 0, 2))  # (distances, 1, features) -> (1, distances, features)

    return OwnModel("XLNetModel.relative_positional_encoding", made.library, call, amplitude=1.0)


def _conformer(question: Question) -> OwnModel:
    made = built(question, lambda made: bool(made.paths(CONFORMER)))
    module = made.model.get_submodule(made.paths(CONFORMER)[0])

    def call(feeds: Feeds) -> Answer:
        frames = feeds[question.inputs[0].name].shape[1] if question.inputs else 1
        return answer(question, of_frames(module, frames))

    farthest = max(int(str(question.reading.parameters.get(name, 0))) for name in ("past", "future"))
    atol = 0.0 if question.inputs else ANGLE * eps("float32") * farthest
    return OwnModel(type(module).__name__, made.library, call, amplitude=1.0, atol=atol)


def of_frames(module: HfModule, frames: int) -> Array:
    """Return the rows that a module gives for so many frames, or for a chunk: (1, rows, features)."""
    if takes(module, "queries"):
        return of_chunk(module)
    outputs = run_(lambda: module(torch.zeros(1, frames, 1)))
    rows = array(outputs[1] if isinstance(outputs, tuple) else outputs)
    return rows if rows.ndim == 3 else rows[None]


def of_chunk(module: HfModule) -> Array:
    """Return Gemma 3n's rows before its forward projects them, for the distances that it counts itself."""
    windows: list[Array] = []
    signal = module._get_timing_signal_1d_pos

    def noted(position: object, dtype: object) -> Tensor:
        rows: Tensor = signal(position, dtype)
        windows.append(array(rows))
        return rows

    # (batch, blocks, places, heads, head_dim): a block of one query, and all keys that it may see
    queries, keys = (
        torch.zeros(1, 1, places, module.num_heads, module.head_dim)
        for places in (1, module.max_backward + module.max_forward + 1)
    )
    with setting(module, "_get_timing_signal_1d_pos", noted):
        run_(lambda: module(queries, keys))
    return windows[0]
