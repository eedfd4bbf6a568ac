"""What one ulp does to a module of somebody's own: noise through floats fails, a choice at an edge is a note."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import posenc_export
from posenc.encoding import Encoding
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.cli.ports import parse_ports
from posenc_export.exporter import ExportResult
from posenc_export.targets.module import own_encoding
from posenc_export.validation.left_out import padding_of
from posenc_export.validation.own_module import OwnCase, behaviour, own_case
from posenc_export.validation.record import record

X = ("x: float32[batch, seq, 8]",)
MASKED = (*X, "mask: int64[batch, seq] mask")
LEAST = torch.finfo(torch.float32).min


def described(module: nn.Module, inputs: tuple[str, ...]) -> Encoding:
    return own_encoding(module.eval(), parse_ports(inputs), 64, 0, lambda: module)


def recorded(encoding: Encoding, *lengths: int) -> list[GoldenCase]:
    cases = [Case(f"seq{n}", {"batch": 3, "seq": n}) for n in lengths]
    return list(record(encoding, cases, 0).cases)


def judged(module: nn.Module, inputs: tuple[str, ...] = X, length: int = 33) -> OwnCase:
    encoding = described(module, inputs)
    return own_case(encoding, recorded(encoding, length)[0], 0)


def allowed(own: OwnCase) -> float:
    return own.golden.case.eager_tolerance.atol


class Bucketed(nn.Module):
    """T5's buckets: distances whose logarithm is a whole number lie at an edge, and softmax spreads their bias."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bias = nn.Embedding(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        distance = (places[:, None] - places).clamp(min=1)
        bucket = (torch.log(distance.float()) / math.log(2.0)).to(torch.int64)
        scores = x @ x.transpose(1, 2) + 3 * self.bias(bucket)[..., 0]
        return torch.softmax(scores, -1) @ x


class Rounds(nn.Module):
    """Quantised positions: each lies in the middle between two rows, and floats choose."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = nn.Embedding(1024, 8)

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1]) * 0.1 + 0.05
        rows: Tensor = self.rows(torch.round(positions * 10).long())
        return x + rows


class Floored(nn.Module):
    """The same by floor, whose result stays a float."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.floor(torch.arange(x.shape[1]) * 0.1 * 10)[:, None]


class Wrapped(nn.Module):
    """Positions modulo a period: at the end of one they begin anew."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.remainder(torch.arange(x.shape[1]) * 0.1, 1.0)[:, None]


class FirstOfAlike(nn.Module):
    """Takes the first of the highest scores, and of the lowest, where all are alike."""

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.full((x.shape[1],), 0.3) / 0.7
        return x + x[:, scores.argmax(), None] + x[:, scores.sort().indices[0], None]


@pytest.mark.parametrize("module", [Bucketed, Rounds, Floored, Wrapped, FirstOfAlike])
def test_a_choice_at_an_edge_is_named_and_is_no_noise(module: Callable[[], nn.Module]) -> None:
    own = judged(module())
    assert own.noise == ""
    assert own.places
    assert all(place.startswith("test_own_rounding.py:") for place in own.places)
    assert own.share > 1e-3
    assert allowed(own) < 1e-4, "a choice widens no tolerance"


class HalfAngles(nn.Module):
    """Makes its angles in float16, twice over: each rounding is one of positions."""

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1]).half()[:, None] * torch.rsqrt(torch.arange(1, 9).half())
        return x + torch.sin((angles * 1.7).float())


class NoisyFloor(nn.Module):
    """Noise that passes through a floor is noise all the same."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(torch.floor(x * 1e8))


class NoisyComparison(nn.Module):
    """So is noise that passes through a comparison, or an index."""

    def forward(self, x: Tensor) -> Tensor:
        return x + (torch.sin(x * 1e8) > 0).float()


class NoisyOrder(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.take_along_dim(x, torch.sin(x * 1e8).argsort(1), 1)


class BranchesOnNoise(nn.Module):
    """Chooses otherwise in another order of operators: nothing can be held."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x * 1e8) if float(torch.sin(x.sum() * 1e8)) > 0 else (torch.sin(x * 1e8) > 0).float()


@pytest.mark.parametrize("module", [HalfAngles, NoisyFloor, NoisyComparison, NoisyOrder, BranchesOnNoise])
def test_noise_through_floats_stays_a_failure(module: Callable[[], nn.Module]) -> None:
    assert "outputs move by" in judged(module()).noise


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


class Shapes(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + mask.float().mean()


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand(1)


class Dropped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=True)


@pytest.mark.parametrize("module", [Random, Dropped])
def test_what_is_random_is_seen_by_two_copies(module: Callable[[], nn.Module]) -> None:
    encoding = described(module(), X)
    shown = behaviour(encoding, encoding.uncalled(), recorded(encoding, 3, 7), 0)
    assert "two copies of the module give other outputs" in shown.random


class BucketsMoved(Bucketed):
    """Once it is exported, distances at an edge lie in the next bucket: what a note on choices must not let pass."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_exporting():
            return super().forward(x)
        places = torch.arange(x.shape[1])
        distance = (places[:, None] - places).clamp(min=1)
        bucket = (torch.log(distance.float()) / math.log(2.0) - 1e-4).to(torch.int64)
        return torch.softmax(x @ x.transpose(1, 2) + 3 * self.bias(bucket)[..., 0], -1) @ x


class PaddingMoved(nn.Module):
    """Once it is exported, rows of padding are others: nobody reads them, and they are compared all the same."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        other = 0.01 if torch.compiler.is_exporting() else 0.0
        return torch.where(mask[..., None] != 0, x + 1, x + other)


@pytest.mark.parametrize(
    ("module", "inputs"),
    [pytest.param(BucketsMoved, X, marks=pytest.mark.exhaustive), (PaddingMoved, MASKED)],
)
def test_a_graph_that_chooses_otherwise_or_has_other_padding_is_refused(
    module: type[nn.Module], inputs: tuple[str, ...], tmp_path: Path
) -> None:
    result = exported(module, inputs, tmp_path)
    wrong = [f"{verdict.check}: {verdict.detail}" for verdict in result.verdicts if verdict.status == "fail"]
    assert any(line.startswith("agrees: y against eager") for line in wrong), wrong


def exported(module: type[nn.Module], inputs: tuple[str, ...], folder: Path) -> ExportResult:
    return posenc_export.export(
        module,
        to=folder / "bundle",
        inputs=parse_ports(inputs),
        formats=["onnx"],
        runtimes=["ort-cpu"],
        max_len=33,
    )


@pytest.mark.exhaustive
def test_a_choice_and_rows_of_padding_are_notes_of_the_report(tmp_path: Path) -> None:
    result = exported(BucketedMasked, MASKED, tmp_path)
    assert result.passed, result.verdicts
    notes = {verdict.check: verdict.note for verdict in result.verdicts if verdict.note}
    assert notes["choices"].startswith("the last digit of a float chooses at test_own_rounding.py:")
    assert notes["padding"] == "rows of tokens that a mask leaves out are compared with eager alone: y by mask"


class BucketedMasked(Bucketed):
    """The same under a mask."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * mask[..., None]
