"""Modules of ours that stand where a transformers model had rotary modules: called alike, and stateless."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from torch import Tensor, nn

CosSin = tuple[Tensor, Tensor]


class Kept(nn.Module):
    """A module whose tables keep their dtype when the model is cast: angles in half precision are noise."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Tensor) -> Any:
        """Return what the module does."""
        return self.module(*args)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        moved: Self = super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-untyped-call]
        return moved


class TextTurns(nn.Module):
    """Cosines and sines as a language model asks for them; `axes` is how many positions a token has, if several."""

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


class LayerTurns(nn.Module):
    """Cosines and sines of a model whose layers turn by frequencies of their type."""

    def __init__(self, turns: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.turns = nn.ModuleDict(turns)

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str) -> CosSin:
        """Return cos and sin in the dtype of x: (batch, seq) -> twice (batch, seq, dim)."""
        cos, sin = self.turns[layer_type](x, position_ids)
        return cos, sin


class PatchTurns(nn.Module):
    """Cosines and sines as a vision tower asks for them: in float32, whatever x is in."""

    def __init__(self, cosines: nn.Module) -> None:
        super().__init__()
        self.cosines = cosines

    def forward(self, x: Tensor, position_ids: Tensor) -> CosSin:
        """Return cos and sin at rows and columns: (patches, 2) -> twice (patches, dim)."""
        cos, sin = self.cosines(position_ids.t().unsqueeze(1))
        return cos[0].float(), sin[0].float()


class TurningAttention(nn.Module):
    """GPT-J's attention with the projections of `old`: its table of positions is gone."""

    def __init__(self, old: Any, rotate: nn.Module) -> None:
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = old.k_proj, old.v_proj, old.q_proj, old.out_proj
        self.attn_dropout, self.resid_dropout = old.attn_dropout, old.resid_dropout
        self.layer_idx, self.head_dim, self.scale_attn = old.layer_idx, old.head_dim, old.scale_attn
        self.rotate = rotate

    def forward(
        self,
        hidden_states: Tensor,
        layer_past: Any = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> CosSin:
        """Return the output and the weights: (batch, seq, dim) -> that, (batch, head, seq, past + seq)."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (p(hidden_states).unflatten(-1, (-1, self.head_dim)) for p in projections)
        query, key = (x.transpose(1, 2) for x in self.rotate(query, key, position_ids))
        value = value.transpose(1, 2)
        if layer_past is not None:
            key, value = layer_past.update(key, value, self.layer_idx)
        scores = query.float() @ key.float().transpose(-1, -2) / self.scale_attn
        if attention_mask is not None:
            scores = scores + attention_mask
        weights = self.attn_dropout(scores.softmax(-1).to(value.dtype))
        merged = (weights @ value).transpose(1, 2).flatten(-2)
        return self.resid_dropout(self.out_proj(merged)), weights
