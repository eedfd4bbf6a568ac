"""Learned tables: our rows in the model's own table, and what its forward looks up there."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from posenc.ports import Array, Feeds
from posenc_models.asking.built import Built, built, put_rows
from posenc_models.asking.model import Answer, Call, CannotAsk, OwnModel, Question
from posenc_models.asking.running import (
    answer,
    around,
    array,
    in_order,
    mask_in,
    only,
    output_of,
    positions_in,
    takes,
    x_of,
)
from posenc_models.config.foreign import HfConfig, HfModule

COUNTED = ("xglm",)
"""Model types whose positions of masked tokens are those that `generate` gives; padding's are nobody's."""
Rows = Callable[[Array], Array]
"""A mask (batch, seq) of tokens -> the rows that a model has for them, (1 or batch, seq or more, width)."""


def model_of(question: Question) -> OwnModel:
    """Return a model with our table in it; see `SCHEMES`."""
    made = built(question)
    put_rows(made.model, made.table, in_order(question.tables)[0])
    runner = ModelRunner(made, made.table.rpartition(".")[0])
    return OwnModel(runner.words, made.library, added(question, runner.rows, before=0))


@dataclass
class ModelRunner:
    """A model and the module in it that is called with positions, or with tokens.

    Args:
        made: the model.
        path: the path of the module that holds the table.
        words: the classes that answer.
        entry: the module that is called: the model, or a module in it or around it.
    """

    made: Built
    path: str
    words: str = ""
    entry: nn.Module = field(init=False)

    def __post_init__(self) -> None:
        self.module = self.made.model.get_submodule(self.path)
        refused: CannotAsk | None = None
        for entry in around(self.made.model, self.path):
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


def tokens(entry: HfModule, config: HfConfig, mask: Array) -> dict[str, object]:
    """Return the inputs of a model of text for tokens, some of which are padding."""
    padding = getattr(config, "pad_token_id", None)
    token = next(number for number in (5, 6) if number != padding) if getattr(config, "vocab_size", 9) > 6 else 0
    present = torch.from_numpy(mask)
    # two tokens that differ: one is the padding of the config, if it has some
    ids = torch.where(present != 0, token, token if padding is None else padding)
    # DistilBERT's and OPT's embeddings take a shape in the place of tokens
    shape = {} if takes(entry, "input_ids") else {"input_shape": ids.shape, "input_ids_shape": ids.shape}
    places = (present.cumsum(1) - 1).masked_fill(present == 0, 0)
    counted = {"position_ids": places} if config.model_type in COUNTED else {}
    return {"input_ids": ids, "attention_mask": present, **shape, **counted, **beside(config, *mask.shape)}


def beside(config: HfConfig, batch: int, seq: int) -> dict[str, Tensor]:
    """Return what some models take beside tokens, or for them: boxes, images, states and actions of a time."""
    # what a part reads must differ from token to token: it may move positions, as the cells of TAPAS's tables do
    corner = (torch.arange(seq) % 4)[None, :, None].expand(batch, seq, 4)
    more = {"bbox": corner + torch.tensor([0, 1, 2, 4])}  # LayoutLM
    more |= _kinds(config, batch, seq)
    if hasattr(config, "visual_feat_dim"):  # LXMERT
        more |= {"visual_feats": torch.zeros(batch, 1, config.visual_feat_dim), "visual_pos": torch.zeros(batch, 1, 4)}
    if hasattr(config, "num_mel_bins"):  # Whisper
        frames = 2 * getattr(config, "max_source_positions", seq)
        more |= {"input_features": torch.zeros(batch, config.num_mel_bins, frames)}
    if hasattr(config, "act_dim"):  # Decision Transformer
        widths = {"states": config.state_dim, "actions": config.act_dim, "returns_to_go": 1, "rewards": 1}
        more |= {name: torch.zeros(batch, seq, width) for name, width in widths.items()}
        more |= {"timesteps": torch.arange(seq).expand(batch, seq)}
    return more


def _kinds(config: HfConfig, batch: int, seq: int) -> dict[str, Tensor]:
    """Return kinds of tokens that differ, where a model has some: one number a token, or one for each of its tables."""
    sizes = getattr(config, "type_vocab_sizes", None) or getattr(config, "type_vocab_size", None) or 0
    kinds = torch.arange(seq).expand(batch, seq)
    if isinstance(sizes, int):
        return {"token_type_ids": kinds % sizes} if sizes > 0 else {}
    return {"token_type_ids": torch.stack([kinds % max(int(size), 1) for size in sizes], -1)}


def in_rows(output: Tensor | tuple[Tensor, ...]) -> Array:
    """Return rows as (1 or batch, seq, width), where a module gives them without a batch, or with a scale beside."""
    rows = array(output[0] if isinstance(output, tuple) else output)
    return rows if rows.ndim == 3 else rows[None]


def added(question: Question, rows: Rows, *, before: int) -> Call:
    """Return the function that answers a call: rows of its positions, added to x where ours are.

    A model gives rows of tokens in their order; the rows of given positions are among them.

    Args:
        question: what is asked.
        rows: the function from a mask of tokens to the model's rows.
        before: how many of our positions are before that of the first token.
    """

    def call(feeds: Feeds) -> Answer:
        if not question.inputs:
            return answer(question, rows(np.ones((1, question.outputs[0].axes[0].size or 1), np.int64))[0])
        shape = feeds[question.inputs[0].name].shape[:2]
        positions, mask = positions_in(question, feeds, shape[1]), mask_in(question, feeds)
        if positions is not None:
            values = looked_up(rows, positions - before)
        else:
            values = rows(np.ones((1, shape[1]), np.int64) if mask is None else mask)[:, : shape[1]]
        is_sum = question.inputs[0].name == "x" and question.reading.parameters.get("output", "add") == "add"
        return answer(question, x_of(question, feeds) + values if is_sum else values)

    return call


def looked_up(rows: Rows, positions: Array) -> Array:
    """Return the rows of positions, which a model gives to tokens in their order."""
    if positions.ndim != 2 or positions.min() < 0:
        raise CannotAsk("its tokens have one position each, from that of the first token on")
    return np.asarray(rows(np.ones((1, int(positions.max()) + 1), np.int64))[0][positions])


def positions_before(made: Built) -> int:
    """Return how many positions of ours are before that of the first token, where they are given."""
    before = made.row.before.read(made.part.config, made.part.absent).value
    return 0 if made.row.shifted else int(str(before))
