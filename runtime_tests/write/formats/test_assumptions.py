"""One rule for what torch.export assumes of sizes: what changes no number is a note, what does is a refusal."""

import io
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from posenc.encoding import Encoding, Tolerance, no_tables
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc_export.common.errors import ExportFailed
from posenc_export.write.formats import WriteRequest
from posenc_export.write.formats.capture import findings
from posenc_export.write.formats.exported_program import capture_program

X = Port("x", (BATCH, SEQ, fixed(4)), "float32")
ROWS = 20


class Grows(nn.Module):
    """Adds rows of a table that is made anew where a call is longer, and then is `made` as that says."""

    def __init__(self, made: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.made, self.rows = made, made(ROWS)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > len(self.rows):
            self.rows = self.made(x.shape[1])
        return x + self.rows[: x.shape[1]]


def honest(length: int) -> Tensor:
    return torch.arange(length)[:, None] / 10


def by_its_length(length: int) -> Tensor:
    """Return rows that are others in a longer table: dynamic NTK, and an angle over the length."""
    return torch.arange(length)[:, None] / length


def captured(module: nn.Module) -> torch.export.ExportedProgram:
    def at(sizes: Mapping[str, int]) -> tuple[Tensor, ...]:
        return (torch.randn(X.shape(sizes), generator=torch.Generator().manual_seed(0)),)

    def fresh() -> nn.Module:
        assert isinstance(module, Grows)
        return Grows(module.made)

    zero = Tolerance()
    encoding = Encoding(
        "module", module, (X,), (X,), lambda *_: {}, lambda _: zero, lambda _: zero, no_tables("none"), fresh=fresh
    )
    trace, long = {"batch": 3, "seq": 11}, {"batch": 3, "seq": 64}
    return capture_program(encoding, WriteRequest(at(trace), 64, at=at, other_sizes={"batch": 2, "seq": 7}, long=long))


def test_an_assumption_that_changes_no_number_is_a_note_and_the_program_takes_both_sides() -> None:
    program = captured(Grows(honest))
    assert any(f"torch.export assumed seq >= {ROWS + 1}" in note for note in findings(program).notes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for length in (2, ROWS, ROWS + 1, 63):
        x = torch.randn(3, length, 4)
        assert torch.equal(loaded(x), Grows(honest)(x))


def test_an_assumption_that_selects_another_computation_is_a_refusal() -> None:
    with pytest.raises(ExportFailed, match="the module branches on the length"):
        captured(Grows(by_its_length))
