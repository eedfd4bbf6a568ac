"""A small constant is dropped or changed in a file, or axes are swapped by Reshape: the proof says so."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from onnx import ModelProto
from torch import Tensor, nn

import posenc_export
from helpers.mutants.mutations import Mutant
from helpers.mutants.of_modules import axes_by_reshape, small_constants
from helpers.mutants.outcomes import MODEL, sign
from helpers.shared import one_of_each
from helpers.small_numbers import ByAbsolutes, ByNorm, LayerNorm, MaskedShares, RootMeanSquare, Small, SquareRoot


class Heads(Small):
    """Heads are split and merged by Transpose."""

    def forward(self, x: Tensor) -> Tensor:
        heads = (x * self.weight).view(*x.shape[:2], 2, 4).transpose(1, 2)
        shares = torch.softmax(heads @ heads.transpose(-1, -2), -1)
        return (shares @ heads).transpose(1, 2).reshape(x.shape)


Draw = Callable[[ModelProto], Iterator[Mutant]]
CASES: tuple[tuple[type[nn.Module], Draw, str], ...] = (
    (ByAbsolutes, small_constants, "x: float32[batch, 8]"),
    *((kind, small_constants, "x: float32[batch, 8]") for kind in (RootMeanSquare, LayerNorm, ByNorm)),
    *((kind, small_constants, "x: float32[batch, seq, 8]") for kind in (MaskedShares, SquareRoot)),
    (Heads, axes_by_reshape, "x: float32[batch, seq, 8]"),
)


@pytest.mark.parametrize(("kind", "draw", "port"), one_of_each(CASES, lambda case: case[1].__name__))
def test_the_proof_finds_all(tmp_path: Path, kind: type[nn.Module], draw: Draw, port: str) -> None:
    made = posenc_export.export(
        kind().eval(), to=tmp_path / "whole", inputs=[port], formats=["onnx"], runtimes=["ort-cpu"]
    )
    assert made.passed, made.verdicts
    model = ModelProto.FromString((made.folder / MODEL).read_bytes())
    drawn = list(draw(model))
    assert drawn
    survived = []
    for number, mutant in enumerate(drawn):
        folder = Path(shutil.copytree(made.folder, tmp_path / str(number)))
        sign(folder, mutant.model)
        if posenc_export.validate(folder, runtimes=["ort-cpu"]).passed:
            survived.append(str(mutant.mutation))
    assert survived == []
