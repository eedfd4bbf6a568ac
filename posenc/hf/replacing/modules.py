"""Modules of ours that stand where a transformers model had rotary modules: called alike, and stateless."""

from collections.abc import Callable, Mapping
from typing import Self

from torch import Tensor, nn

from posenc.hf.foreign import HfModule

CosSin = tuple[Tensor, Tensor]


class KeepDtype(nn.Module):
    """A module whose tables keep their dtype when the model is cast: angles in half precision are noise."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Tensor) -> tuple[Tensor, Tensor]:
        """Return the module's outputs: cosines and sines, or queries and keys."""
        first, second = self.module(*args)
        return first, second

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # the device changes, the dtype does not
        itself: Self = super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-untyped-call]
        return itself


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
        cos, sin = self.cosines(position_ids.t().unsqueeze(1))  # (2, batch = 1, patches)
        return cos[0].float(), sin[0].float()


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
