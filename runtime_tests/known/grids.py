"""Encodings of images and of continuous numbers: timesteps, coordinates, grids of patches. Rewritten small."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known


class Timestep(nn.Module):
    """OpenAI's improved-diffusion: cosines, then sines, of continuous timesteps."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.dim = dim
        self.network = nn.Sequential(nn.Linear(dim, 8), nn.SiLU(), nn.Linear(8, 8))

    def forward(self, t: Tensor) -> Tensor:
        half = self.dim // 2
        frequencies = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angles = t[:, None].float() * frequencies[None]
        y: Tensor = self.network(torch.cat([angles.cos(), angles.sin()], -1))
        return y


class Detr(nn.Module):
    """DETR: places counted by a mask of pixels, scaled to one turn; the features give their device alone."""

    def __init__(self, features: int = 8) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        shown = ~mask
        axes = [shown.cumsum(axis, dtype=torch.float32) for axis in (1, 2)]
        ends = (axes[0][:, -1:, :], axes[1][:, :, -1:])
        period = torch.arange(self.features, dtype=torch.float32, device=x.device)
        period = 10000 ** (2 * torch.div(period, 2, rounding_mode="floor") / self.features)
        parts = []
        for places, end in zip(axes, ends, strict=True):
            angles = (places / (end + 1e-6) * 2 * math.pi)[..., None] / period
            parts.append(torch.stack([angles[..., 0::2].sin(), angles[..., 1::2].cos()], 4).flatten(3))
        return torch.cat(parts, 3).permute(0, 3, 1, 2)


class Sincos2d(nn.Module):
    """ViT and MAE: sines and cosines of rows and columns, for the grid of an image's patches."""

    def __init__(self, dim: int = 16, patch: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.register_buffer("omega", 1.0 / 10000 ** (torch.arange(dim // 4) / (dim / 4.0)))

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image)
        rows, columns = torch.meshgrid(torch.arange(x.shape[2]), torch.arange(x.shape[3]), indexing="ij")
        angles = [axis.flatten()[:, None].float() * self.get_buffer("omega") for axis in (columns, rows)]
        encoding = torch.cat([f(a) for a in angles for f in (torch.sin, torch.cos)], 1)
        return x.flatten(2).transpose(1, 2) + encoding


class Mae(nn.Module):
    """MAE with the grid that it was made for: one size, and a class token."""

    def __init__(self, dim: int = 16, tokens: int = 9) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(1, tokens + 1, dim), requires_grad=False)
        self.first = nn.Parameter(torch.randn(1, 1, dim))

    def forward(self, x: Tensor) -> Tensor:
        first = (self.first + self.rows[:, :1]).expand(x.shape[0], -1, -1)
        return torch.cat([first, x + self.rows[:, 1:]], 1)


class Interpolated(nn.Module):
    """DINOv2 and SigLIP: learned rows of one grid, interpolated to that of the image."""

    def __init__(self, dim: int = 16, side: int = 7, patch: int = 14, first: bool = True) -> None:
        super().__init__()
        self.side, self.first = side, first
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.rows = nn.Parameter(torch.randn(1, side * side + first, dim))

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image)
        height, width = x.shape[-2:]
        grid = self.rows[:, int(self.first) :].reshape(1, self.side, self.side, -1).permute(0, 3, 1, 2)
        grid = functional.interpolate(grid, size=(height, width), mode="bilinear", align_corners=False)
        return x.flatten(2).transpose(1, 2) + grid.flatten(2).transpose(1, 2)


def siglip() -> nn.Module:
    return Interpolated(first=False)


class BranchingDino(Interpolated):
    """DINOv2: interpolates unless the image is square and has as many patches as it was made for."""

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        if x.shape[1] == self.side**2 and image.shape[-1] == image.shape[-2]:
            return x + self.rows[:, 1:]
        return super().forward(image)


class SamRandom(nn.Module):
    """Segment Anything: places of a grid in -1..1, times a random matrix of a buffer."""

    def __init__(self, features: int = 8) -> None:
        super().__init__()
        self.register_buffer("gaussian", torch.randn(2, features))

    def forward(self, image: Tensor) -> Tensor:
        ones = torch.ones(image.shape[-2:])
        rows, columns = (ones.cumsum(0) - 0.5) / image.shape[-2], (ones.cumsum(1) - 0.5) / image.shape[-1]
        angles = 2 * math.pi * ((2 * torch.stack([columns, rows], -1) - 1) @ self.get_buffer("gaussian"))
        return torch.cat([angles.sin(), angles.cos()], -1).permute(2, 0, 1)


class PerceiverFourier(nn.Module):
    """Perceiver: bands of frequencies up to half the largest, of a grid in -1..1, beside the image itself."""

    def __init__(self, bands: int = 4, most: float = 10.0) -> None:
        super().__init__()
        self.bands, self.most = bands, most

    def forward(self, image: Tensor) -> Tensor:
        axes = [torch.linspace(-1.0, 1.0, steps=size) for size in image.shape[1:3]]
        grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)[..., None]
        scaled = grid * torch.linspace(1.0, self.most / 2, self.bands) * math.pi
        encoded = torch.cat([scaled.sin(), scaled.cos(), grid], -1).flatten(2)
        return torch.cat([image, encoded[None].expand(image.shape[0], -1, -1, -1)], -1)


class Nerf(nn.Module):
    """NeRF: sines and cosines of powers of two times coordinates."""

    def __init__(self, octaves: int = 6) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.linspace(0.0, octaves - 1, octaves))

    def forward(self, points: Tensor) -> Tensor:
        parts = [points]
        for band in self.get_buffer("bands"):
            parts += [torch.sin(points * band), torch.cos(points * band)]
        return torch.cat(parts, -1)


class RandomFourier(nn.Module):
    """Random Fourier features (Tancik et al.): a matrix that is drawn once."""

    def __init__(self, features: int = 8, scale: float = 3.0) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.randn(2, features) * scale)

    def forward(self, points: Tensor) -> Tensor:
        angles = 2 * math.pi * points @ self.get_buffer("matrix")
        return torch.cat([angles.sin(), angles.cos()], -1)


class Time2Vec(nn.Module):
    """Time2Vec: one linear number of a time, and sines of others."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.linear, self.periodic = nn.Linear(1, 1), nn.Linear(1, dim - 1)

    def forward(self, t: Tensor) -> Tensor:
        return torch.cat([self.linear(t), torch.sin(self.periodic(t))], -1)


POINTS = "points: float32[batch, n, {}] in -1..1"
IMAGE = ("image: float32[batch, 3, height % 14, width % 14]",)
ROWS = (
    Known("grids:Timestep", ("t: float32[batch] in 0..1000",), "continuous timesteps"),
    Known(
        "grids:Detr",
        ("x: float32[batch, 8, height, width]", "mask: bool[batch, height, width] values"),
        "x gives its device alone",
        note="x is read for its shape, dtype or device alone",
    ),
    Known("grids:Sincos2d", ("image: float32[batch, 3, height % 4, width % 4]",), "multiples of a patch"),
    Known(
        "grids:Sincos2d",
        ("image: float32[batch, 3, height, width]",),
        "smaller than one patch",
        refused="say which in -i, as 'height % 14'",
    ),
    Known("grids:Mae", ("x: float32[batch, 9, 16]",), "one grid"),
    Known("grids:Interpolated", IMAGE, "interpolated rows", max_len=140),
    Known("grids:siglip", IMAGE, "without a first token", max_len=140),
    Known("grids:BranchingDino", IMAGE, "a branch that changes no number", note="torch.export assumed", max_len=140),
    Known("grids:SamRandom", ("image: float32[batch, 3, height, width]",), "a random matrix"),
    Known(
        "grids:PerceiverFourier",
        ("image: float32[batch, height >= 2, width >= 2, 3]",),
        "linspace",
    ),
    Known("grids:Nerf", (POINTS.format(3),), "powers of two"),
    Known("grids:RandomFourier", (POINTS.format(2),), "a matrix that is drawn once"),
    Known("grids:Time2Vec", ("t: float32[batch, seq, 1] in 0..100",), "sines of times"),
)
