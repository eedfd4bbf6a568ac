"""Where a table of somebody's module ends before max_len, the number is said that max_len must be."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import posenc_export
from posenc.ports import Axis, Port, Values
from posenc_export.common.errors import BadInput, ExportFailed
from posenc_export.write.targets.ending import advised, max_length

BATCH, SEQ = Axis("batch", "batch"), Axis("seq", "length")
X = Port("x", (BATCH, SEQ, Axis("", "features", 8)), "float32", Values())


class Looks(nn.Module):
    """A trained table: a row that is not there is an error."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.pe = nn.Embedding(rows, 8)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.pe(torch.arange(x.shape[1]))
        return x + rows


class Slices(nn.Module):
    """A stored table: what is cut off it is too short to be added."""

    pe: Tensor

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("pe", torch.ones(rows, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.shape[1]]


class Blocks(nn.Module):
    """Lengths that are a multiple of 4 alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1, 4, 8).flatten(1, 2)


@pytest.mark.parametrize("rows", [3, 4, 10, 100, 2047])
def test_the_end_of_a_table_is_found(rows: int) -> None:
    assert max_length(lambda: Looks(rows), (X,), 2048, 0) == rows


@pytest.mark.parametrize("make", [lambda: Looks(2048), lambda: Looks(2), Blocks, nn.Identity, lambda: nn.Linear(4, 4)])
def test_where_no_table_ends_nothing_is_found(make: Callable[[], nn.Module]) -> None:
    assert max_length(make, (X,), 2048, 0) is None


def test_no_length_of_a_grid_a_sum_or_a_multiple_is_found() -> None:
    for axis in (Axis("h", "grid"), Axis("seq", "length", multiple=2), Axis("past+seq", "length")):
        port = Port("x", (BATCH, axis, Axis("", "features", 8)), "float32", Values())
        assert max_length(lambda: Looks(10), (port,), 2048, 0) is None
    assert max_length(lambda: Looks(10), (Port("x", (BATCH,), "float32", Values()),), 2048, 0) is None


def test_other_errors_stay_as_they_are() -> None:
    for error in (BadInput("no such file"), ExportFailed("torch.onnx has no operator"), ValueError("x")):
        with pytest.raises(type(error)) as caught, advised(lambda: Looks(10), (X,), 2048, 0):
            raise error
        assert caught.value is error


SMALL: dict[str, Any] = {"inputs": [X], "formats": ["onnx"], "runtimes": ["ort-cpu"]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Looks(10),
        lambda: Slices(10),
        pytest.param(lambda: Looks(100), marks=pytest.mark.exhaustive),
        pytest.param(lambda: Slices(100), marks=pytest.mark.exhaustive),
    ],
)
def test_the_advice_is_the_number_and_following_it_is_enough(make: Callable[[], nn.Module], tmp_path: Any) -> None:
    rows = next(iter(make().state_dict().values())).shape[0]
    with pytest.raises(BadInput, match=f"it takes calls of up to {rows}: give max_len={rows}$"):
        posenc_export.export(make(), to=tmp_path / "b", **SMALL)


@pytest.mark.exhaustive
def test_with_the_number_it_is_certified(tmp_path: Any) -> None:
    assert posenc_export.export(Looks(10), to=tmp_path / "b", max_len=10, **SMALL).passed
