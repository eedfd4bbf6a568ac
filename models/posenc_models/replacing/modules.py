"""Modules of ours that stand where a transformers model had rotary modules: called alike, and stateless."""

from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor, nn

from posenc_models.config.foreign import HfModule

CosSin = tuple[Tensor, Tensor]


class KeepsDtype(nn.Module):
    """A module whose tables keep their dtype when the model is cast: angles in half precision are noise."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # the device changes, the dtype does not
        itself: Self = super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-untyped-call]
        return itself


class KeepDtype(KeepsDtype):
    """A module of ours in one that keeps the dtype of its tables."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Tensor) -> tuple[Tensor, Tensor]:
        """Return the module's outputs: cosines and sines, or queries and keys."""
        first, second = self.module(*args)
        return first, second


class TextCosSin(nn.Module):
    """Cosines and sines as a language model calls for them.

    Args:
        cosines: our module.
        axes: how many positions a token has, where it has several.
    """

    def __init__(self, cosines: nn.Module, axes: int | None) -> None:
        super().__init__()
        self.cosines = cosines
        self.axes = axes

    def forward(self, x: Tensor, position_ids: Tensor) -> CosSin:
        """Return cos and sin in the dtype of x: (batch, seq) or (axes, batch, seq) -> twice (batch, seq, dim)."""
        if self.axes is not None:
            position_ids = position_ids.expand(self.axes, -1, -1)
        cos, sin = self.cosines(position_ids)
        return cos.to(x.dtype), sin.to(x.dtype)


class LayerCosSin(nn.Module):
    """Cosines and sines of a model whose layers have frequencies of their type."""

    def __init__(self, by_type: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.by_type = nn.ModuleDict(by_type)

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str) -> CosSin:
        """Return cos and sin in the dtype of x: (batch, seq) -> twice (batch, seq, dim)."""
        cos, sin = self.by_type[layer_type](x, position_ids)
        return cos, sin


class PatchCosSin(nn.Module):
    """Cosines and sines as a vision tower calls for them: in float32, whatever x is in."""

    def __init__(self, cosines: nn.Module) -> None:
        super().__init__()
        self.cosines = cosines

    def forward(self, x: Tensor, position_ids: Tensor) -> CosSin:
        """Return cos and sin at rows and columns: (patches, 2) -> twice (patches, dim)."""
        _check_rows_and_columns(position_ids)
        cos, sin = self.cosines(position_ids.t().unsqueeze(1))  # (2, batch = 1, patches)
        return cos[0].float(), sin[0].float()


class Ordered(nn.Module):
    """Cosines and sines of which every column takes an axis of the positions and a frequency of its own.

    Args:
        cosines: our module, of one position a token, a column a frequency.
        order: of each column that is returned, the axis times the number of frequencies, plus the frequency.
    """

    order: Tensor

    def __init__(self, cosines: nn.Module, order: Tensor) -> None:
        super().__init__()
        self.cosines = cosines
        self.register_buffer("order", order, persistent=False)

    def forward(self, positions: Tensor) -> CosSin:
        """Return cos and sin: (axes, batch, seq) -> twice (batch, seq, dim)."""
        axes = positions.shape[0]
        cos, sin = (
            part.unflatten(0, (axes, -1)).permute(1, 2, 0, 3).flatten(2).index_select(-1, self.order)
            for part in self.cosines(positions.flatten(0, 1))
        )
        return cos, sin


class OrderedText(nn.Module):
    """Ordered cosines and sines as a language model calls for them, in the dtype of x."""

    def __init__(self, ordered: Ordered, axes: int) -> None:
        super().__init__()
        self.ordered = ordered
        self.axes = axes

    def forward(self, x: Tensor, position_ids: Tensor) -> CosSin:
        """Return cos and sin: (batch, seq) or (axes, batch, seq) -> twice (batch, seq, dim)."""
        cos, sin = self.ordered(position_ids.expand(self.axes, -1, -1))
        return cos.to(x.dtype), sin.to(x.dtype)


class OrderedPatches(nn.Module):
    """Ordered cosines and sines as a vision tower calls for them.

    Args:
        ordered: our module.
        batched: whether what is returned has a batch even where the positions have none.
        cast: whether it is in the dtype of x; otherwise it is in float32.
    """

    def __init__(self, ordered: Ordered, batched: bool, cast: bool) -> None:
        super().__init__()
        self.ordered = ordered
        self.batched = batched
        self.cast = cast

    def forward(self, x: Tensor, position_ids: Tensor) -> CosSin:
        """Return cos and sin: (patches, 2) -> twice (patches, dim) or (1, patches, dim); (batch, patches, 2) alike."""
        _check_rows_and_columns(position_ids)
        alone = position_ids.dim() == 2
        positions = position_ids.unsqueeze(0) if alone else position_ids
        cos, sin = self.ordered(positions.movedim(-1, 0))
        if alone and not self.batched:
            cos, sin = cos[0], sin[0]
        dtype = x.dtype if self.cast else torch.float32
        return cos.to(dtype), sin.to(dtype)


def _check_rows_and_columns(position_ids: Tensor) -> None:
    """Raise ValueError where patches have other positions than a row and a column: others would be read as these."""
    if position_ids.shape[-1] != 2:
        raise ValueError(
            f"expected a row and a column for each patch, (patches, 2), got {tuple(position_ids.shape)}: keep the "
            "module that this one took the place of"
        )


class ComplexCosSin(nn.Module):
    """Cosines and sines as the complex numbers that a model multiplies its pairs by: always in complex64."""

    def __init__(self, cosines: nn.Module) -> None:
        super().__init__()
        self.cosines = cosines

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """Return cos + i sin: (batch, seq) -> (batch, seq, pairs)."""
        cos, sin = self.cosines(x.float(), position_ids)
        return torch.complex(cos.float(), sin.float())


class RotaryAttention(nn.Module):
    """GPT-J's attention with the projections of `old`: its table of positions is gone."""

    def __init__(self, old: HfModule, rotate: nn.Module) -> None:
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = old.k_proj, old.v_proj, old.q_proj, old.out_proj
        self.attn_dropout, self.resid_dropout = old.attn_dropout, old.resid_dropout
        self.layer_idx, self.head_dim, self.scale_attn = old.layer_idx, old.head_dim, old.scale_attn
        self.rotate = rotate

    def forward(
        self,
        hidden_states: Tensor,
        layer_past: HfModule | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        **kwargs: object,
    ) -> tuple[Tensor, Tensor]:
        """Return the output, (batch, seq, dim), and the weights, (batch, head, seq, past + seq)."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        # (batch, seq, heads, head_dim) each
        query, key, value = (p(hidden_states).unflatten(-1, (-1, self.head_dim)) for p in projections)
        query, key = (x.transpose(1, 2) for x in self.rotate(query, key, position_ids))
        value = value.transpose(1, 2)
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_idx)
        # float32, as GPT-J's own attention: (batch, heads, seq, past + seq)
        scores = query.float() @ key.float().transpose(-1, -2) / self.scale_attn
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = self.attn_dropout(scores.softmax(-1).to(value.dtype))
        # (batch, heads, seq, head_dim) -> (batch, seq, heads * head_dim)
        merged = (weights @ value).transpose(1, 2).flatten(-2)
        return self.resid_dropout(self.out_proj(merged)), weights
