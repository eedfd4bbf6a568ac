"""A number of a module that its file has nowhere is a note; one that was folded, or does nothing, is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import posenc_export
from helpers.small_numbers import ByAbsolutes
from posenc_export.write.formats.onnx.arithmetic import lost_numbers


class Shares(nn.Module):
    """Numbers that are kept, that do nothing, that meet constants alone, and that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        _unread = x * 0.123
        scaled = self.table * 0.75 + 1e-9
        return (x + 0.0) * 1.0 / (x.abs() + 1e-8) + scaled


class Norm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, (4,))


class Quotient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 0.3


def lost(module: nn.Module, *numbers: float, dtype: type = np.float32) -> list[str]:
    """Return the numbers of a module that are said to be lost from a graph with these alone."""
    program = torch.export.export(module, (torch.ones(2, 4),))
    constants = [ir.node("Constant", [], {"value": ir.tensor(np.asarray(number, dtype))}) for number in numbers]
    graph = ir.Graph([], [], nodes=constants, opset_imports={"": 18})
    return [line.split(" of ")[0] for line in lost_numbers(program, ir.Model(graph, ir_version=10))]


def test_of_numbers_those_that_meet_inputs_and_do_something_are_looked_for() -> None:
    assert lost(Shares()) == ["1e-08"]
    assert lost(Shares(), 1e-8) == []
    assert lost(Shares(), 1.1e-8) == ["1e-08"]


def test_an_epsilon_that_nobody_gave_is_one_too() -> None:
    assert lost(Norm()) == ["1e-05"]
    assert lost(Norm(), 1e-5) == []


@pytest.mark.parametrize("number", [0.3, -0.3, 1 / 0.3])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_number_may_be_there_in_any_type_with_another_sign_or_as_its_inverse(number: float, dtype: type) -> None:
    assert lost(Quotient(), number, dtype=dtype) == []


def test_the_line_names_the_operator_and_the_line_of_code() -> None:
    program = torch.export.export(Quotient(), (torch.ones(2, 4),))
    (line,) = lost_numbers(program, ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 18}), ir_version=10))
    assert line.startswith("0.3 of div (test_arithmetic.py, line ")
    assert "is nowhere in the ONNX file" in line


@pytest.mark.parametrize("exact", [True, False])
def test_what_an_optimizer_drops_is_a_note_of_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    @contextmanager
    def rules_as_they_are() -> Iterator[bool]:
        yield True

    if not exact:
        monkeypatch.setattr("posenc_export.write.formats.onnx.exact_rules", rules_as_they_are)
    ports = ("x: float32[batch, seq, 8]",)
    result = posenc_export.export(
        ByAbsolutes, inputs=ports, to=tmp_path / "out", formats="onnx", max_len=4, validate=False
    )
    notes = [note for note in result.manifest.notes if "is nowhere in the ONNX file" in note]
    assert [note.split(" (")[0] for note in notes] == ([] if exact else ["1e-08 of add"])
