"""Learned tables: our rows in the model's own table, and what its forward looks up there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.hf.asking.built import Built, built, put_rows
from posenc.hf.asking.model import CannotAsk, HfConfig, Model, Question
from posenc.hf.asking.running import (
    around,
    array,
    in_order,
    mask_in,
    only,
    output_name,
    output_of,
    positions_in,
    takes,
    x_of,
)
from posenc.ports import Array, Feeds

if TYPE_CHECKING:
    from torch import Tensor, nn

COUNTED = ("xglm",)
"""Model types whose positions of masked tokens are those that `generate` gives; padding's are nobody's."""
Rows = Callable[[Array], Array]
"""A mask (batch, seq) of tokens -> the rows that a model has for them, (1 or batch, seq or more, width)."""


def model_of(question: Question) -> Model:
    """Return a model whose table is ours; see `SCHEMES`."""
    made = built(question)
    tables = in_order(question.tables)
    names = made.holding(made.row.tables[0])
    put_rows(made.model, names[0], tables[0])
    path = names[0].rpartition(".")[0]
    runner = Runner(made, path)
    return Model(runner.words, made.library, added(question, runner.rows, before=0))


@dataclass
class Runner:
    """A model and the module in it that is called with positions, or with tokens.

    words: what answered.
    """

    made: Built
    path: str
    words: str = ""
    entry: nn.Module = field(init=False)

    def __post_init__(self) -> None:
        self.module = self.made.model.get_submodule(self.path)
        refused: CannotAsk | None = None
        for _, entry in around(self.made.model, self.path):
            self.entry = entry
            self.words = f"{type(entry).__name__}, {type(self.module).__name__}"
            try:
                self.rows(np.ones((1, 3), np.int64))
            except CannotAsk as error:
                refused = refused or error
                continue
            return
        raise refused or CannotAsk("nothing calls it")

    def rows(self, mask: Array) -> Array:
        """Return what the table's module gives for tokens, some of which are padding."""
        inputs = only(self.entry, **tokens(self.entry, self.made.config, mask))
        return in_rows(output_of(self.module, lambda: self.entry(**inputs)))


def tokens(entry: nn.Module, config: HfConfig, mask: Array) -> dict[str, Any]:
    """Return what a model of text takes for tokens, some of which are padding."""
    import torch

    padding = getattr(config, "pad_token_id", None)
    token = next(number for number in (5, 6) if number != padding) if getattr(config, "vocab_size", 9) > 6 else 0
    present = torch.from_numpy(mask)
    ids = torch.where(present != 0, token, token if padding is None else padding)
    shape = {"input_shape": ids.shape, "input_ids_shape": ids.shape} if not takes(entry, "input_ids") else {}
    places = (present.cumsum(1) - 1).masked_fill(present == 0, 0)
    counted = {"position_ids": places} if config.model_type in COUNTED else {}
    return {"input_ids": ids, "attention_mask": present, **shape, **counted, **beside(config, *mask.shape)}


def beside(config: HfConfig, batch: int, seq: int) -> dict[str, Tensor]:
    """Return what some models take beside tokens, or for them: boxes, images, states and actions of one time each."""
    import torch

    more = {"bbox": torch.zeros(batch, seq, 4, dtype=torch.int64)}
    if hasattr(config, "visual_feat_dim"):
        more |= {"visual_feats": torch.zeros(batch, 1, config.visual_feat_dim), "visual_pos": torch.zeros(batch, 1, 4)}
    if hasattr(config, "num_mel_bins"):
        frames = 2 * getattr(config, "max_source_positions", seq)
        more |= {"input_features": torch.zeros(batch, config.num_mel_bins, frames)}
    if hasattr(config, "act_dim"):
        more |= {
            "states": torch.zeros(batch, seq, config.state_dim),
            "actions": torch.zeros(batch, seq, config.act_dim),
        }
        more |= {"returns_to_go": torch.zeros(batch, seq, 1), "rewards": torch.zeros(batch, seq, 1)}
        more |= {"timesteps": torch.arange(seq).expand(batch, seq)}
    return more


def in_rows(output: Any) -> Array:
    """Return rows as (1 or batch, seq, width), where a module gives them without a batch, or with a scale beside."""
    rows = array(output[0] if isinstance(output, tuple) else output)
    return rows if rows.ndim == 3 else rows[None]


def added(question: Question, rows: Rows, *, before: int) -> Callable[[Feeds], dict[str, Array]]:
    """Return what answers a call: rows of its positions, added to x where ours are.

    A model gives rows of tokens in their order; those of given positions are among these.
    before: positions of ours before that of the first token.
    """

    def call(feeds: Feeds) -> dict[str, Array]:
        name = output_name(question)
        if not question.inputs:
            return {name: rows(np.ones((1, question.outputs[0].axes[0].size or 1), np.int64))[0]}
        shape = length_of(question, feeds)
        positions, mask = positions_in(question, feeds, shape[1]), mask_in(question, feeds)
        values = looked_up(rows, positions - before, shape) if positions is not None else None
        if values is None:
            values = rows(np.ones((1, shape[1]), np.int64) if mask is None else mask)[:, : shape[1]]
        return {name: x_of(question, feeds) + values if question.inputs[0].name == "x" and adds(question) else values}

    return call


def adds(question: Question) -> bool:
    """Whether rows are added to x, or returned."""
    return bool(question.reading.parameters.get("output", "add") == "add")


def length_of(question: Question, feeds: Feeds) -> tuple[int, int]:
    """Return batch and length of a call."""
    first = feeds[question.inputs[0].name]
    return (first.shape[0], first.shape[1])


def looked_up(rows: Rows, positions: Array, shape: tuple[int, int]) -> Array:
    """Return the rows of positions, which a model gives tokens of in their order."""
    if positions.ndim != 2 or positions.min() < 0:
        raise CannotAsk("its tokens have one position each, from that of the first token on")
    return np.asarray(rows(np.ones((1, int(positions.max()) + 1), np.int64))[0][positions])


def positions_before(made: Built) -> int:
    """Return how many positions of ours are before that of the first token, where they are given."""
    before = made.row.before.read(made.part.config, made.part.absent).value
    return 0 if made.row.shifted else int(str(before))
