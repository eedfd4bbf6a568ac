"""What one ulp does to a module of somebody's own: noise through floats fails, a choice at an edge is a note."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import posenc_export
from helpers.own_encodings import MASKED, X, allowed, described, judged, recorded
from posenc_export.proof.exporter import ExportResult
from posenc_export.proof.recording.own_module import behaviour
from posenc_export.write.inputs.ports import parse_ports


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


class RootOfSquares(nn.Module):
    """The root of a sum of squares, as norms take it: of rows of zeros it is 0, and a step below 0 it has none."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x * (torch.arange(x.shape[1]) % 2)[None, :, None]
        return x + rows.square().mean(-1, keepdim=True).sqrt()


def test_a_zero_is_zero_everywhere() -> None:
    own = judged(RootOfSquares())
    assert (own.noise, own.places) == ("", ())
    assert 0 < allowed(own) < 1e-4


class GeluTail(nn.Module):
    """GELU of numbers near `middle`, divided by their root mean square: at -5 one digit of its sum is left."""

    def __init__(self, middle: float) -> None:
        super().__init__()
        self.middle = middle

    def forward(self, x: Tensor) -> Tensor:
        tail = nn.functional.gelu(x * 0.05 + self.middle, approximate="tanh")
        return tail / (tail.square().mean(-1, keepdim=True) + 1e-20).sqrt()


def test_what_gelu_rounds_inside_is_rounding() -> None:
    """torch computes 1 + tanh(u) in one operator, a graph in two: both round it, and neither is exact."""
    assert "outputs move by" in judged(GeluTail(-5)).noise
    own = judged(GeluTail(2))
    assert own.noise == ""
    assert allowed(own) < 1e-5


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
    assert notes["padding"] == "rows of masked tokens are compared with eager, not with float64: y by mask"


class BucketedMasked(Bucketed):
    """The same under a mask."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * mask[..., None]
