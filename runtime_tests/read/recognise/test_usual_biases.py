"""Biases as usual code computes them, in a small attention that PyTorch exports: they are read with their numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import posenc_export
from helpers.graph_files import exported

HEADS, HIDDEN, WIDTH = 8, 32, 16
"""So many heads that a matrix of a network is a weight like others."""


class Fire(nn.Module):
    """FIRE as its authors write it: c and L are parameters, and a small number keeps a logarithm from 0."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(1, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HEADS))
        self.c = nn.Parameter(torch.tensor(0.3))
        self.init_L = nn.Parameter(torch.tensor(8.0), requires_grad=False)
        self.L_multiplier = nn.Parameter(torch.tensor(1.25))

    def forward(self, seq: int) -> Tensor:
        at = torch.arange(seq, dtype=torch.float)
        distance = at[:, None] - at[None, :]
        reach = torch.max(at, torch.abs(self.L_multiplier * self.init_L))[:, None]
        share = torch.log(torch.abs(self.c * distance) + 1) / (torch.log(torch.abs(self.c * reach) + 1) + 1e-6)
        bias: Tensor = self.mlp(share[..., None])
        return bias.permute(2, 0, 1)


class Kerple(nn.Module):
    """KERPLE as its authors write it: keys after a query are as far as itself, and numbers are kept above 0."""

    def __init__(self, kernel: str) -> None:
        super().__init__()
        self.kernel = kernel
        self.bias_p = nn.Parameter(torch.linspace(0.05, 1.7, HEADS).view(HEADS, 1, 1))
        self.bias_a = nn.Parameter(torch.linspace(1.5, 0.02, HEADS).view(HEADS, 1, 1))

    def forward(self, seq: int) -> Tensor:
        distance = torch.tril(torch.arange(seq).view(seq, 1) - torch.arange(seq)).float()
        p, a = self.bias_p.clamp(min=1e-2), self.bias_a.clamp(min=1e-2)
        if self.kernel == "log":
            return -p * torch.log(1 + a * distance)
        return -a * distance.pow(p.clamp(max=2.0))


class Attention(nn.Module):
    """An attention of later x-transformers and PaLM code: one product for queries, keys and values, then the bias."""

    def __init__(self, bias: nn.Module) -> None:
        super().__init__()
        self.words, self.bias = nn.Embedding(32, WIDTH), bias
        self.fused = nn.Linear(WIDTH, 3 * WIDTH, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.fused(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + self.bias(ids.shape[1])
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        attended: Tensor = scores.masked_fill(later, -1e9).softmax(-1) @ v
        return attended.transpose(1, 2).flatten(2)


def exported_by(bias: nn.Module, folder: Path, dynamo: bool) -> Path:
    """Export an attention by PyTorch, with a dynamic length."""
    ids = torch.arange(14).view(2, 7)
    return exported(folder, Attention(bias).eval(), [("ids", ids, ("batch", "seq"))], dynamo)


@pytest.mark.parametrize("dynamo", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_fire_is_read_with_its_network_and_both_numbers(dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    (found,) = posenc_export.inspect(exported_by(Fire(), tmp_path, dynamo)).encodings
    assert found.scheme == f"fire -p heads={HEADS} -p hidden={HIDDEN} -p c=0.3 -p threshold=10"
    assert len(found.nodes) == 1


def test_a_fire_of_another_function_is_not_read_as_fire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    bias = Fire()
    bias.mlp[1] = nn.GELU()
    path = exported_by(bias, tmp_path, True)
    made = posenc_export.inspect(path)
    assert [entry.family for entry in made.encodings] == ["not recognised"]
    (told,) = made.explained
    # it says how near it came, with the right numbers
    (fit,) = (fit for seen in told.observed for fit in seen.fits if fit.scheme == "fire")
    assert fit.parameters["c"] == "0.3"
    assert fit.off is not None
    assert fit.allowed is not None
    assert not fit.agrees
    assert fit.allowed < fit.off < 1


@pytest.mark.parametrize("dynamo", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kernel", ["log", pytest.param("power", marks=pytest.mark.exhaustive)])
def test_kerple_is_read_with_the_numbers_of_each_head(kernel: str, dynamo: bool, tmp_path: Path) -> None:
    bias = Kerple(kernel)
    (found,) = posenc_export.inspect(exported_by(bias, tmp_path, dynamo)).encodings
    assert found.scheme.startswith(f"kerple -p kernel={kernel} -p r1=")
    r1, r2 = (bias.bias_p, bias.bias_a) if kernel == "log" else (bias.bias_a, bias.bias_p)
    for name, numbers in (("r1", r1), ("r2", r2)):
        np.testing.assert_allclose(np.asarray(found.parameters[name]), numbers.detach().numpy().ravel(), rtol=1e-4)
