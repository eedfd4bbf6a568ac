"""Modules whose epsilons decide: each divides by, or takes the root or the logarithm of, what may be 0."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Small(nn.Module):
    """A module with an epsilon."""

    def __init__(self, eps: float = 1e-8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(8) + 0.5)


class RootMeanSquare(Small):
    """As Llama's norm, which computes in float32."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class FunctionalRootMeanSquare(Small):
    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (8,), self.weight, self.eps)


class LayerNorm(Small):
    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, (8,), self.weight, None, self.eps)


class OwnLayerNorm(Small):
    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + self.eps) * self.weight


class Normalized(Small):
    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(x, dim=-1, eps=self.eps) * self.weight


class ByAbsolutes(Small):
    def forward(self, x: Tensor) -> Tensor:
        return x / (x.abs().sum(-1, keepdim=True) + self.eps)


class ByNorm(Small):
    def forward(self, x: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / (norms + self.eps)


class ByClampedNorm(Small):
    def forward(self, x: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / norms.clamp_min(self.eps)


class SoftmaxOverMore(Small):
    def forward(self, x: Tensor) -> Tensor:
        shares = torch.exp(x.clamp(max=4.0))
        return shares / (self.eps + shares.sum(-1, keepdim=True))


class MaskedShares(Small):
    def forward(self, x: Tensor) -> Tensor:
        kept = torch.relu(x - 1)
        return kept / (kept.sum(-1, keepdim=True) + self.eps)


class Logarithm(Small):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x.abs() + self.eps) * self.weight


class SquareRoot(Small):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(x.abs() + self.eps) * self.weight


class Cosine(Small):
    def forward(self, x: Tensor) -> Tensor:
        return functional.cosine_similarity(x, self.weight.expand_as(x), -1, self.eps)


class Reciprocal(Small):
    def forward(self, x: Tensor) -> Tensor:
        return torch.reciprocal(x * x + self.eps)


class Distance(Small):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(((x - self.weight) ** 2).sum(-1) + self.eps)


class Standardized(Small):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps)


class Leak(Small):
    """A number that is added alone, and is all that a row of zeros gives."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, x * 0.25) + self.eps


class ByLargest(Small):
    def forward(self, x: Tensor) -> Tensor:
        return x / torch.maximum(x.abs().amax(-1, keepdim=True), torch.full_like(x[..., :1], self.eps))


class Groups(Small):
    def forward(self, x: Tensor) -> Tensor:
        return functional.group_norm(x, 2, self.weight, None, self.eps)


class Entropy(Small):
    def forward(self, x: Tensor) -> Tensor:
        shares = torch.softmax(x.clamp(-30, 30), -1)
        return -(shares * torch.log(shares + self.eps)).sum(-1)


MODULES = (
    RootMeanSquare,
    FunctionalRootMeanSquare,
    LayerNorm,
    OwnLayerNorm,
    Normalized,
    ByAbsolutes,
    ByNorm,
    ByClampedNorm,
    SoftmaxOverMore,
    MaskedShares,
    Logarithm,
    SquareRoot,
    Cosine,
    Reciprocal,
    Distance,
    Standardized,
    Leak,
    ByLargest,
    Groups,
    Entropy,
)
EPSILONS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
