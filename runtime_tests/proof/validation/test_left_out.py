"""Rows of tokens that a mask leaves out: which they are, and that they are part of no scale and no reference."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from helpers.bundles import replace_array, sign
from helpers.own_encodings import LEAST, MASKED, Garbage, X, allowed, described, judged, recorded
from helpers.shared import Cli, Once
from posenc_export.bundle.case import Case
from posenc_export.cli import main
from posenc_export.proof.planning.padding import padding_of
from posenc_export.proof.recording.nudges import Nudges
from posenc_export.proof.recording.record import record
from posenc_export.proof.recording.rounding import DRAWS, moves, ulp_sensitivity
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


def test_rows_of_padding_are_part_of_no_scale_and_of_no_reference() -> None:
    own = judged(Garbage(), MASKED, 12)
    assert own.noise == ""
    assert allowed(own) < 1e-4, "the scale is that of tokens"
    padding = own.golden.feeds["mask"] == 0
    assert padding.any()
    assert np.array_equal(own.golden.reference["y"][padding], own.golden.eager["y"][padding]), "nothing else is known"


def test_rows_of_padding_have_a_tolerance_of_their_own() -> None:
    own = judged(Garbage(), MASKED, 12).golden
    assert own.case.masked_atol > 100, "they move by their own scale"
    assert np.array_equal(own.masked["y"], np.broadcast_to(own.feeds["mask"][..., None] == 0, own.eager["y"].shape))
    steady = judged(Masked(), MASKED, 12).golden
    assert steady.case.masked_atol < 1e-4


@pytest.fixture
def garbage(once: Once, tmp_path: Path) -> Path:
    """A bundle whose rows of padding are noise."""

    def write(folder: Path) -> None:
        inputs = [word for port in MASKED for word in ("-i", port)]
        words = ["export", "helpers.own_encodings:Garbage", *inputs, "--dynamic", "-f", "onnx", "--no-validate", "-q"]
        result = CliRunner().invoke(main, [*words, "-o", str(folder)], catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return Path(shutil.copytree(once("garbage", write), tmp_path / "garbage"))


def moved(bundle: Path, by: float, *, masked: bool) -> None:
    """Move eager's numbers, and the reference's, of one element of a token, or of a masked one."""
    with np.load(bundle / "golden.npz") as golden:
        arrays = dict(golden)
    key = next(key.removesuffix(".masked") for key in arrays if key.endswith("/y.masked"))
    at = np.unravel_index(np.argmax(arrays[f"{key}.masked"] == masked), arrays[key].shape)
    for name in (key, f"{key}.reference"):
        arrays[name][at] += by
    np.savez(bundle / "golden.npz", **arrays)
    sign(bundle, "golden.npz")


@pytest.mark.parametrize(("masked", "more", "status"), [(True, (), 0), (False, (), 1), (True, ("--atol", "1e-3"), 1)])
def test_masked_tokens_may_be_farther_off_and_others_not(
    cli: Cli, garbage: Path, masked: bool, more: tuple[str, ...], status: int
) -> None:
    moved(garbage, 1.0, masked=masked)
    result = cli("validate", str(garbage), "--runtime", "ort-cpu", *more)
    assert result.exit_code == status, result.output
    line = "rows of masked tokens pass if they are off by 4 times the largest value (manifest)"
    assert (line in result.output) == (not more)


@pytest.mark.parametrize("damage", [np.float32, lambda masked: masked[..., :1]])
def test_flags_of_masked_tokens_have_the_shape_of_the_output(cli: Cli, garbage: Path, damage: Any) -> None:
    replace_array(garbage, "/y.masked", damage)
    result = cli("validate", str(garbage), "--runtime", "ort-cpu")
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert "y.masked is" in result.output


def test_tolerances_cover_several_draws_of_directions() -> None:
    """The largest move of a single draw depends on its luck: a file may be where another draw goes."""
    encoding = described(Masked(), MASKED)
    golden = recorded(encoding, 12)[0]
    padding = padding_of(encoding.inputs, encoding.outputs, golden, golden.feeds)
    draws = [moves(encoding, golden, padding, Nudges(seed), 0).of_tokens for seed in range(DRAWS)]
    # element by element: how far the farthest goes may be the same in all draws, on a CPU that rounds otherwise
    assert len({draw.tobytes() for draw in draws}) == DRAWS
    drawn = ulp_sensitivity(encoding, golden, padding, np.inf, 0).through_floats.of_tokens
    np.testing.assert_array_equal(drawn, np.concatenate(draws))


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
