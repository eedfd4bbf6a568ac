"""Rows of tokens that a mask leaves out: which they are, and that they are part of no scale and no reference."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers.own_encodings import LEAST, MASKED, X, allowed, described, judged
from posenc_export.bundle.case import Case
from posenc_export.proof.planning.padding import padding_of
from posenc_export.proof.recording.record import record
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.module import own_encoding


class Masked(nn.Module):
    """Causal attention with padding: the masks of both are added, or come by a boolean."""

    def __init__(self, least: float = LEAST, added: bool = True) -> None:
        super().__init__()
        self.least, self.added = least, added

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        n = x.shape[1]
        seen = torch.ones(n, n, dtype=torch.bool).tril() & (mask[:, None, :] != 0)
        scores = x @ x.transpose(1, 2)
        hidden = scores + (1.0 - seen.float()) * self.least if self.added else scores.masked_fill(~seen, self.least)
        return torch.softmax(hidden, -1) @ x


@pytest.mark.parametrize("least", [LEAST, -1e9, -1e30])
@pytest.mark.parametrize("added", [True, False])
def test_masks_are_not_nudged_and_rows_of_padding_do_not_count(least: float, added: bool) -> None:
    own = judged(Masked(least, added), MASKED, 12)
    assert (own.noise, own.places) == ("", ())
    assert allowed(own) < 1e-4


class Garbage(nn.Module):
    """Gives numbers for padding that are noise, and much larger than the others."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[..., None] != 0, x, 100 * torch.sin(x * 1e8))


def test_rows_of_padding_are_part_of_no_scale_and_of_no_reference() -> None:
    own = judged(Garbage(), MASKED, 12)
    assert own.noise == ""
    assert allowed(own) < 1e-4, "the scale is that of tokens"
    padding = own.golden.feeds["mask"] == 0
    assert padding.any()
    assert np.array_equal(own.golden.reference["y"][padding], own.golden.eager["y"][padding]), "nothing else is known"


class MisreadPadding(nn.Module):
    """Noise in rows of tokens, and none in those of padding."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[..., None] == 0, x, torch.sin(x * 1e8))


def test_noise_in_rows_of_tokens_is_seen_beside_padding() -> None:
    assert "outputs move by" in judged(MisreadPadding(), MASKED, 12).noise


def test_which_rows_a_mask_leaves_out() -> None:
    ports = parse_ports((*X, "mask: int64[batch, 1, past+seq] mask"))
    encoding = own_encoding(AddsPast().eval(), ports, 64, 0, AddsPast)
    case = Case("past", {"batch": 2, "seq": 3, "past": 2})
    golden = record(encoding, [case], 0).cases[0]
    mask = np.asarray([[[1, 1, 1, 1, 1]], [[0, 0, 0, 1, 1]]])
    padding = padding_of(encoding.inputs, encoding.outputs, golden, {"mask": mask})
    assert padding["y"].shape == (2, 3, 8)
    assert padding["y"][..., 0].tolist() == [[False] * 3, [True, False, False]]


class AddsPast(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask[:, 0, -x.shape[1] :, None]


class Shapes(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + mask.float().mean()


@pytest.mark.parametrize(
    "mask",
    [
        "mask: float32[batch, seq, seq] additive mask",
        "mask: int64[batch, seq, seq] mask",
        "mask: int64[other, seq] mask",
    ],
)
def test_masks_of_queries_and_keys_and_of_another_batch_leave_no_rows_out(mask: str) -> None:
    encoding = described(Shapes(), (*X, mask))
    golden = record(encoding, [Case("one", {"batch": 2, "seq": 3, "other": 2})], 0).cases[0]
    assert padding_of(encoding.inputs, encoding.outputs, golden, golden.feeds) == {}
