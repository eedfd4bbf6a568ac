"""A mask of floats by its name alone: what the module gives says how it is read, and the report says that it did."""

import pytest
import torch
from torch import Tensor, nn

from posenc.ports import Mask, Port
from posenc.spec import Spec
from posenc_export.common.errors import BadInput
from posenc_export.write.cpp import example
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets import Target
from posenc_export.write.targets.module import module_target

X, MASK = "x: float32[batch, seq, 8]", "mask: float32[batch, seq]"


class Multiplies(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * mask[..., None]


class Averages(nn.Module):
    """The mean of all tokens: minus infinity leaves no number of it."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class AddsLogarithm(nn.Module):
    """Adds what is no logarithm of minus infinity."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x.sum(-1) + torch.log(mask), -1)


class Adds(nn.Module):
    """Takes 0 and minus infinity, and would take 1 and 0 without a word."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x.sum(-1) + mask, -1)


class Divides(nn.Module):
    """Takes what divides by a mask: only what is added to 0 is no infinity."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.abs() / mask[..., None]


class Exponentials(nn.Module):
    """Needs what is at most 0: the exponential of 1000 is infinite."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x * torch.exp(1000 * mask)[..., None]


def target(module: nn.Module, mask: str = MASK) -> Target:
    return module_target(module, parse_ports((X, mask)), Spec(max_len=64), {}, 0)


def carried(result: Target) -> Mask:
    port: Port = result.encoding.inputs[1]
    assert isinstance(port.carries, Mask)
    return port.carries


@pytest.mark.parametrize(
    ("module", "additive"), [(Multiplies, False), (Averages, False), (AddsLogarithm, False), (Exponentials, True)]
)
def test_the_one_reading_that_gives_numbers_is_taken_and_said(module: type[nn.Module], additive: bool) -> None:
    result = target(module())
    assert carried(result) == Mask(additive=additive)
    taken, other = ("0 and minus infinity", "1 and 0") if additive else ("1 and 0", "0 and minus infinity")
    assert result.notes == (f"mask: carries a mask of {taken}, by its name: one of {other} makes outputs infinite",)


@pytest.mark.parametrize(("module", "gives"), [(Adds, "both give numbers"), (Divides, "neither gives numbers")])
def test_where_not_exactly_one_does_the_user_is_asked(module: type[nn.Module], gives: str) -> None:
    with pytest.raises(BadInput, match=gives) as error:
        target(module())
    assert "write 'mask' or 'additive mask' behind its axes" in error.value.message


@pytest.mark.parametrize(("word", "additive"), [("mask", False), ("additive mask", True)])
def test_a_word_is_taken_at_its_word(word: str, additive: bool) -> None:
    result = target(Adds(), f"{MASK} {word}")
    assert carried(result) == Mask(additive=additive)
    assert result.notes == ()


def test_a_mask_of_queries_and_keys_is_causal_where_it_is_added() -> None:
    class Scores(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return torch.softmax(x @ x.transpose(1, 2) + 1000 * mask.clamp(max=0) * 1e38 + torch.exp(mask * 1000), -1)

    assert carried(target(Scores(), "mask: float32[seq, seq]")) == Mask(additive=True, causal=True)


@pytest.mark.parametrize(("dtype", "filling"), [("float16", "posenc::Half{0x3c00}"), ("float32", "1"), ("int64", "1")])
def test_the_example_in_cpp_fills_a_mask_with_ones_of_its_dtype(dtype: str, filling: str) -> None:
    (port,) = parse_ports((f"mask: {dtype}[batch, seq] mask",))
    assert f", {filling})" in example._vector(port, {})
