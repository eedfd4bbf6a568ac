"""Rotations by complex numbers: what torch.onnx does not write of them is written in pairs of reals."""

from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from helpers.shared import Cli
from posenc.ports import Array
from posenc_export.write.formats.onnx.complex_numbers import without_complex_operators

OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "unsqueeze": lambda x: x[:, :, None] + x[..., None],
    "unsqueeze from behind": lambda x: x.unsqueeze(-2),
    "select": lambda x: x[:, 1] * x.select(-1, 2)[:, :1],
    "index": lambda x: x[torch.tensor([1, 0, 1])],
    "index behind": lambda x: x[:, :, torch.tensor([[2, 0], [1, 3]])],
    "index apart": lambda x: x[torch.tensor([1, 0]), :, torch.tensor([2, 3])],
    "index_select": lambda x: torch.index_select(x, -1, torch.tensor([3, 1])),
    "embedding": lambda x: nn.functional.embedding(torch.tensor([[1, 0]]), x[0]),
    "expand": lambda x: x[:, None].expand(-1, 3, -1, -1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "split": lambda x: torch.cat(x.split(3, -1)[::-1], -1),
    "split in sizes": lambda x: torch.cat(x.split([1, 2, 1], -1)[::-1], -1),
    "pad_sequence": lambda x: nn.utils.rnn.pad_sequence([x[0], x[1, :2]], batch_first=True),
    "exp": torch.exp,
    "exp of an angle": lambda x: torch.exp(1j * x.real),
    "times a number": lambda x: x * (0.5 - 2j) * 3,
    "conj": lambda x: x.conj() * x[:, :1],
    "real": lambda x: torch.complex(x.imag, x.real),
}


class Applies(nn.Module):
    """Applies every operator to numbers of its own."""

    def forward(self, *numbers: Tensor) -> list[Tensor]:
        applied = zip(OPERATORS.values(), map(torch.view_as_complex, numbers), strict=True)
        return [torch.view_as_real(operator(x)) for operator, x in applied]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Array, Tensor]]:
    """What one file gives, and what the module does, by operator."""
    draw = torch.Generator().manual_seed(0)
    numbers = tuple(torch.randn(2, 3, 4, 2, generator=draw) for _ in OPERATORS)
    program = without_complex_operators(torch.export.export(Applies(), numbers))
    names = [f"x{place}" for place in range(len(numbers))]
    path = tmp_path_factory.mktemp("complex") / "model.onnx"
    written = torch.onnx.export(program, dynamo=True, verbose=False, optimize=False, input_names=names)
    assert written is not None
    written.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {name: x.numpy() for name, x in zip(names, numbers, strict=True)}
    pairs = zip(map(np.asarray, session.run(None, feeds)), Applies()(*numbers), strict=True)
    return dict(zip(OPERATORS, pairs, strict=True))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_what_they_give_in_pytorch(outputs: Mapping[str, tuple[Array, Tensor]], name: str) -> None:
    actual, expected = outputs[name]
    np.testing.assert_allclose(actual, expected.numpy(), 1e-6, 1e-6)


def test_a_program_of_real_numbers_is_left_as_it_is() -> None:
    program = torch.export.export(nn.Linear(4, 4), (torch.ones(2, 4),))
    assert without_complex_operators(program) is program


def test_a_rotation_by_a_table_of_complex_numbers_is_proved(cli: Cli) -> None:
    """As users write it: rows of `freqs_cis` at positions, an axis for heads, a product."""
    ports = ("-i", "x: float32[batch, seq, 2, 8]", "-i", "positions: int64[batch, seq] < 64")
    result = cli("export", "helpers.idioms:ComplexAtPositions", *ports, "-f", "onnx", "--max-len", "64", "-o", "b")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("passed: ")
