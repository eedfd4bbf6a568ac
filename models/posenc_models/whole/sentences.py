"""Encoders of sentences: a transformer, or a table of vectors, and what sentence-transformers computes behind it.

Each class computes what the class of its name in sentence-transformers 6 computes, from the same weights; tests hold
the vectors against that package's own. A text is a row of `attention_mask`: tokens where it is 1, padding where it is
0, on either side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.weight_files import READERS
from posenc_models.whole.modules import forget_lengths
from posenc_models.whole.pipeline import LAYERS, SENTENCE, TOKENS, SentenceEncoder
from posenc_models.whole.sentence_steps import (
    DenseStep,
    LayerMixStep,
    LayerNormStep,
    NormalizeStep,
    PoolingStep,
    SpladeStep,
    Step,
    Weighted,
    check_stored,
)

MASK = "attention_mask"
SMALLEST_SUM = 1e-9
"""What a sum of weights is at least: the mean of a text without a token is 0."""
Features = dict[str, Tensor]
"""What modules hand on, by the library's names: TOKENS (batch, seq, width), SENTENCE (batch, width), MASK."""


class SentenceCall(nn.Module):
    """A transformer and the modules behind it.

    Args:
        model: a model of transformers.
        inputs: the names of its arguments, in the order in which tensors come; the mask is one of them.
        encoder: what follows.
        steps: modules that it is made of, in their order.
    """

    def __init__(
        self, model: nn.Module, inputs: Sequence[str], encoder: SentenceEncoder, steps: Sequence[nn.Module]
    ) -> None:
        super().__init__()
        self.model, self.inputs, self.answer = model, tuple(inputs), encoder.answer
        self.pipeline = Chain(steps, encoder)
        mixes = any(isinstance(step, LayerMix) for step in steps)
        self.asking: dict[str, bool] = {"output_hidden_states": True} if mixes else {}

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return vectors of tokens (batch, seq, width), and of sentences (batch, width)."""
        forget_lengths(self.model)
        named = dict(zip(self.inputs, tensors, strict=True))
        output = self.model(**named, return_dict=True, **self.asking)
        features = {TOKENS: getattr(output, self.answer), MASK: named[MASK]}
        if self.asking:
            features[LAYERS] = torch.stack(tuple(output.hidden_states))  # (layers, batch, seq, width)
        outputs: tuple[Tensor, ...] = self.pipeline(features)
        return outputs


class StaticCall(nn.Module):
    """The mean of the rows of a table that the tokens of a text have, and the modules behind it.

    sentence-transformers gives the tokens of all texts in a row; here each text is a row of ids with its mask.

    Args:
        rows: (tokens, width).
        encoder: what follows.
        steps: modules that it is made of, in their order.
    """

    def __init__(self, rows: Tensor, encoder: SentenceEncoder, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(rows)
        self.pipeline = Chain(steps, encoder)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Return vectors of sentences: (batch, width)."""
        rows = self.embedding(ids)
        weights = mask[..., None].to(rows.dtype)
        mean = (rows * weights).sum(1) / weights.sum(1).clamp(min=1)
        outputs: tuple[Tensor, ...] = self.pipeline({SENTENCE: mean, MASK: mask})
        return outputs


class Chain(nn.Module):
    """Modules of a pipeline, one after the other."""

    def __init__(self, steps: Sequence[nn.Module], encoder: SentenceEncoder) -> None:
        super().__init__()
        self.steps, self.outputs, self.truncated = nn.ModuleList(steps), encoder.outputs, encoder.truncated

    def forward(self, features: Features) -> tuple[Tensor, ...]:
        """Return the outputs, of which vectors of sentences end where the library cuts them."""
        for step in self.steps:
            features = {**features, **step(features)}
        if self.truncated is not None:
            features = {**features, SENTENCE: features[SENTENCE][:, : self.truncated]}
        return tuple(features[name] for name in self.outputs)


class Pooling(nn.Module):
    """A vector for each text out of those of its tokens; several ways are joined.

    Args:
        modes: cls (the first token's), lasttoken, max, mean, mean_sqrt_len_tokens (the sum over the square root of the
            number of tokens), weightedmean (the first token counts once, the next twice, and so on).
    """

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        self.modes = tuple(modes)

    def forward(self, features: Features) -> Features:
        """Return the vectors of sentences: (batch, width for each mode)."""
        tokens, mask = features[TOKENS], features[MASK]
        return {SENTENCE: torch.cat([self._pooled(mode, tokens, mask) for mode in self.modes], -1)}

    @staticmethod
    def _pooled(mode: str, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return one vector for each text: (batch, width)."""
        present = mask[..., None].to(tokens.dtype)  # (batch, seq, 1)
        place = torch.arange(mask.shape[1], device=mask.device)
        if mode == "cls":
            return _at(tokens, mask.to(torch.int32).argmax(1))
        if mode == "lasttoken":
            return _at(tokens * present, (mask * place).amax(1))
        if mode == "max":
            return tokens.masked_fill(present == 0, float("-inf")).amax(1)
        # sums in half precision would lose the later tokens of a long text
        wide = torch.float32 if tokens.dtype in (torch.float16, torch.bfloat16) else tokens.dtype
        if mode == "weightedmean":
            first = mask.to(torch.int32).argmax(1)
            weights = mask[..., None].to(wide) * (place + 1 - first[:, None])[..., None].to(wide)
            sums, counts = (tokens * weights).sum(1), weights.sum(1)
        else:
            sums, counts = (tokens * present).sum(1, dtype=wide), present.sum(1, dtype=wide)
        counts = counts.clamp(min=SMALLEST_SUM)
        return (sums / (counts.sqrt() if mode == "mean_sqrt_len_tokens" else counts)).to(tokens.dtype)


def _at(tokens: Tensor, places: Tensor) -> Tensor:
    """Return the vector of one token of each text: (batch, seq, width), (batch) -> (batch, width)."""
    index = places.to(torch.int64)[:, None, None].expand(-1, 1, tokens.shape[-1])
    return tokens.gather(1, index).squeeze(1)


class SpladePooling(nn.Module):
    """A number for each word: the largest of its tokens' logits, or their sum, with negative ones as 0, in logarithms.

    Args:
        strategy: max or sum.
        twice: whether the logarithm is taken twice.
    """

    def __init__(self, strategy: str, twice: bool) -> None:
        super().__init__()
        self.strategy, self.twice = strategy, twice

    def forward(self, features: Features) -> Features:
        """Return the vectors of sentences: (batch, words)."""
        logits = features[TOKENS]
        weights = (logits * features[MASK][..., None].to(logits.dtype)).relu().log1p()
        weights = weights.log1p() if self.twice else weights
        return {SENTENCE: weights.amax(1) if self.strategy == "max" else weights.sum(1)}


class Dense(nn.Module):
    """A linear layer, its activation, and where asked for what went in, added."""

    def __init__(self, step: DenseStep, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.takes, self.gives, self.adds = step.takes, step.gives, step.residual
        self.linear = _linear(state["linear.weight"], state.get("linear.bias"))
        self.residual = _linear(state["residual.weight"], None) if "residual.weight" in state else nn.Identity()
        self.activation = getattr(nn, step.activation)()

    def forward(self, features: Features) -> Features:
        """Return other vectors: (..., in) -> (..., out)."""
        x = features[self.takes]
        out = self.activation(self.linear(x))
        return {self.gives: out + self.residual(x) if self.adds else out}


class Normalize(nn.Module):
    """Vectors of length 1; a vector of zeros stays one."""

    def __init__(self, takes: str, gives: str) -> None:
        super().__init__()
        self.takes, self.gives = takes, gives

    def forward(self, features: Features) -> Features:
        """Return the vectors over their lengths: (..., width)."""
        return {self.gives: functional.normalize(features[self.takes], p=2.0, dim=-1)}


class SentenceNorm(nn.Module):
    """A layer norm of vectors of sentences."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(len(state["norm.weight"]))
        self.norm.load_state_dict({name: state[f"norm.{name}"] for name in ("weight", "bias")}, assign=True)

    def forward(self, features: Features) -> Features:
        """Return other vectors of sentences: (batch, width)."""
        return {SENTENCE: self.norm(features[SENTENCE])}


class LayerMix(nn.Module):
    """For each token a weighted mean of what the last layers give."""

    def __init__(self, first: int, state: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.first, self.layer_weights = first, nn.Parameter(state["layer_weights"], requires_grad=False)

    def forward(self, features: Features) -> Features:
        """Return the vectors of tokens: (layers, batch, seq, width) -> (batch, seq, width)."""
        layers, weights = features[LAYERS][self.first :], self.layer_weights
        return {TOKENS: (weights[:, None, None, None] * layers).sum(0) / weights.sum()}


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    state = {"weight": weight, **({} if bias is None else {"bias": bias})}
    layer.load_state_dict(state, assign=True)
    return layer


def modules_of(encoder: SentenceEncoder, dtype: torch.dtype) -> list[nn.Module]:
    """Return the modules behind a model, with their weights in a dtype.

    Raises ValueError, in one line, where a file of weights cannot be read, or is not that of its config.
    """
    return [_module_of(step, dtype) for step in encoder.steps]


def _module_of(step: Step, dtype: torch.dtype) -> nn.Module:
    match step:
        case PoolingStep():
            return Pooling(step.modes)
        case SpladeStep():
            return SpladePooling(step.strategy, step.twice)
        case NormalizeStep():
            return Normalize(step.takes, step.gives)
        case DenseStep():
            return Dense(step, _state(step, dtype))
        case LayerNormStep():
            return SentenceNorm(_state(step, dtype))
        case LayerMixStep():
            return LayerMix(step.first, _state(step, dtype))


def _state(step: Weighted, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the weights of a step by name."""
    state = tensors_of(step.weights)
    check_stored(step, {name: tuple(tensor.shape) for name, tensor in state.items()})
    return {name: tensor.to(dtype) for name, tensor in state.items()}


def tensors_of(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, which runs no code; raise ValueError, in one line, for any other file."""
    try:
        content: Any = READERS[path.suffix](path)
    except ImportError:
        raise
    except Exception as error:  # a stranger's file: its readers raise what comes
        raise ValueError(f"{path} cannot be read: expected tensors alone, as a state_dict has them") from error
    if not isinstance(content, Mapping) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise ValueError(f"{path} holds other things than tensors: expected a state_dict")
    return dict(content)


def static_rows(path: Path, dtype: torch.dtype) -> Tensor:
    """Return a row for each token: (tokens, width); of model2vec's tables, rows are shared and weighted."""
    tensors = tensors_of(path)
    if "embedding.weight" in tensors:
        return tensors["embedding.weight"].to(dtype)
    rows = tensors["embeddings"]
    if "mapping" in tensors:
        shared = tensors["mapping"].to(torch.int64)
        if len(shared) and not 0 <= int(shared.min()) <= int(shared.max()) < len(rows):
            raise ValueError(f"{path}: mapping names rows {shared.min()}..{shared.max()} of {len(rows)}")
        rows = rows[shared]
    if "weights" in tensors:
        # as sentence-transformers does: in float32 at least, and not rounded to half in between
        wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
        rows = (wide * tensors["weights"][:, None]).to(wide.dtype)
    return rows.to(dtype).contiguous()
