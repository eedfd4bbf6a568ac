"""Modules whose inputs or outputs have an unusual form: None, dicts, dataclasses, *args, keywords, masks to add."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.utils.generic import ModelOutput

from known import Known


class WithNone(nn.Module):
    """Gives what it has not as None, as attention does that keeps no weights."""

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return x * 2 + torch.arange(x.shape[1])[:, None], None


class TakesAny(nn.Module):
    """Takes any number of tensors, as wrappers do."""

    def forward(self, *args: Tensor) -> Tensor:
        x, y = args
        return x + y.flip(1)


class FirstAndAny(nn.Module):
    """Takes one by its name, and then any number."""

    def forward(self, x: Tensor, *more: Tensor) -> Tensor:
        return x + more[0].flip(1)


class Keyword(nn.Module):
    """Takes one input by its name alone."""

    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        return x * scale[..., None] + torch.arange(x.shape[1])[:, None]


class Keywords(nn.Module):
    """Takes whatever it is called with, by name."""

    def forward(self, x: Tensor, **more: Tensor) -> Tensor:
        return x * more["scale"][..., None]


class Optional(nn.Module):
    """Has optional inputs before the one that is given by its name, as models of transformers do."""

    def forward(self, x: Tensor, past: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        y = x if past is None else x + past
        return y if mask is None else y * mask[..., None]


class Dictionary(nn.Module):
    """Gives a dict."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"hidden": x + 1, "angles": torch.arange(x.shape[1])[:, None] * x}


class Nested(nn.Module):
    """Gives a tuple of tuples."""

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
        return x + 1, ((x, x * 2), (x * 3, x * 4))


@dataclass
class Outputs(ModelOutput):
    """What models of transformers give: fields that may be None."""

    logits: Tensor | None = None
    loss: Tensor | None = None
    hidden: Tensor | None = None


class GivesModelOutput(nn.Module):
    """Gives an output of transformers."""

    def forward(self, x: Tensor) -> Outputs:
        return Outputs(logits=x * 2, hidden=x + torch.arange(x.shape[1])[:, None])


@dataclass
class Rows:
    """A dataclass of its own."""

    rows: Tensor
    length: Tensor | None = None


class GivesDataclass(nn.Module):
    """Gives a dataclass that nobody has registered anywhere."""

    def forward(self, x: Tensor) -> Rows:
        return Rows(x + torch.arange(x.shape[1])[:, None])


class GivesNumber(nn.Module):
    """Gives a number beside a tensor, which no graph holds."""

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        return x * 2, 3


class Encoder(nn.Module):
    """PyTorch's own encoder under a mask of scores."""

    def __init__(self, dim: int = 16, layers: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(dim, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)

    def forward(self, x: Tensor, src_mask: Tensor) -> Tensor:
        y: Tensor = self.encoder(x, mask=src_mask)
        return y


class Attention(nn.Module):
    """PyTorch's own attention under a mask of scores; its weights are None."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)

    def forward(self, x: Tensor, attn_mask: Tensor) -> tuple[Tensor, None]:
        return self.attention(x, x, x, attn_mask=attn_mask, need_weights=False)


class Scores(nn.Module):
    """Attention as models write it, with a mask per sequence that is added to scores."""

    def forward(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / 4 + mask, -1) @ k


class Sdpa(nn.Module):
    """The same by the operator."""

    def forward(self, q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)


X = ("x: float32[batch, seq, 8]",)
SCALE = (*X, "scale: float32[batch, seq]")
MASKED = ("q: float32[batch, 4, n, 16]", "k: float32[batch, 4, m, 16]", "mask: float32[batch, 1, n, m] additive mask")
ROWS = (
    Known("shapes:WithNone", X, "None is no output", max_len=20),
    Known("shapes:TakesAny", (*X, "y: float32[batch, seq, 8]"), "*args alone", max_len=20),
    Known("shapes:FirstAndAny", (*X, "y: float32[batch, seq, 8]"), "*args after a name"),
    Known("shapes:Keyword", SCALE, "given by its name", max_len=20),
    Known("shapes:Keywords", SCALE, "**kwargs"),
    Known("shapes:Optional", (*X, "mask: float32[batch, seq] values"), "given by its name, past an optional one"),
    Known("shapes:Dictionary", X, "a dict"),
    Known("shapes:Nested", X, "nested tuples"),
    Known("shapes:GivesModelOutput", X, "an output of transformers"),
    Known("shapes:GivesDataclass", X, "a dataclass", max_len=20),
    Known("shapes:GivesNumber", X, "no tensor", refused="outputs must be tensors, got int"),
    Known(
        "shapes:Encoder",
        ("x: float32[batch, seq, 16]", "src_mask: float32[seq, seq] additive mask"),
        "0 and minus infinity, causal and padded",
    ),
    Known(
        "shapes:Attention",
        ("x: float32[batch, seq, 16]", "attn_mask: float32[seq, seq] additive mask"),
        "weights are None",
        max_len=12,
    ),
    Known("shapes:Scores", MASKED, "a mask per sequence"),
    Known("shapes:Sdpa", MASKED, "the operator's own mask"),
)
