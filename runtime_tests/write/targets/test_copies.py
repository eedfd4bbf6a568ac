"""Copies of a user's module: they share its weights, and the one in float64 is made when somebody asks for it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from posenc_export.common.errors import BadInput, NoReference
from posenc_export.write.targets import float64
from posenc_export.write.targets.copies import Copies
from posenc_export.write.targets.float64 import AT_ONCE, call_in_float64


class Tied(nn.Module):
    """Two layers of one weight, and numbers that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("table", torch.ones(2))
        self.register_buffer("count", torch.ones(2, dtype=torch.int64))


def test_a_module_is_widened_once_and_only_where_it_is_asked_for() -> None:
    module = Tied()
    copies = Copies(module, lambda: module)
    assert "double" not in vars(copies)
    fresh: Any = copies.fresh()
    assert fresh.first.weight is module.first.weight
    one: Any = copies.wide()
    other: Any = copies.wide()
    assert one.first.weight is other.first.weight is one.second.weight
    assert {str(tensor.dtype) for tensor in one.state_dict().values()} == {"torch.float64", "torch.int64"}
    assert torch.equal(one.first.weight, module.first.weight.double())
    assert {str(tensor.dtype) for tensor in module.state_dict().values()} == {"torch.float32", "torch.int64"}


def test_what_a_copy_remembers_is_its_own() -> None:
    """Tables that are empty in the module, too; a table that two parts share is one in a copy."""
    module: Any = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module.seen = module[0].seen = {}
    fresh: Any = Copies(module, lambda: module).fresh()
    fresh[0].register_forward_hook(lambda *_: None)
    fresh.seen["x"] = 1
    fresh[1].register_buffer("own", torch.ones(1))
    assert fresh[0].seen is fresh.seen
    assert not module[0]._forward_hooks
    assert not module.seen
    assert not module[1]._buffers


class Words(nn.Module):
    """An embedding that is the head, too, with a norm between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.norm, self.head = nn.Embedding(7, 5), nn.LayerNorm(5), nn.Linear(5, 7)
        self.head.weight = self.words.weight
        self.register_buffer("scale", torch.rand(5))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.norm(self.words(ids) * self.scale))
        return logits.to(self.head.weight.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_that_are_widened_one_by_one_give_the_bits_of_a_copy(dtype: torch.dtype) -> None:
    module = Words().to(dtype)
    ids = np.array([[1, 6, 0], [3, 3, 2]])
    at_once, by_weight = (Copies(module, lambda: module, by_weight) for by_weight in (False, True))
    (expected,) = call_in_float64(at_once.wide(), [ids])
    one: Any = by_weight.wide()
    (actual,) = call_in_float64(one, [ids], by_weight=True)
    assert (str(actual.dtype), actual.tobytes()) == ("float64", expected.tobytes())
    assert one.words.weight is module.words.weight, "no copy of the weights is held"
    assert "double" not in vars(by_weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("size", [AT_ONCE // 8, AT_ONCE // 8 + 3])
def test_a_large_layer_is_multiplied_by_some_rows_at_a_time(dtype: torch.dtype, size: int) -> None:
    """A part of 8 * AT_ONCE numbers, of which the last may be smaller, gives what the whole weight gives."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(5, 24), nn.Linear(24, size), nn.GELU(), nn.Linear(size, 24, bias=False)).to(
        dtype
    )
    ids = np.array([[1, 4, 0], [3, 3, 2]])
    (expected,) = call_in_float64(Copies(module, lambda: module).wide(), [ids])
    (actual,) = call_in_float64(Copies(module, lambda: module, by_weight=True).wide(), [ids], by_weight=True)
    assert (str(actual.dtype), actual.shape) == ("float64", (2, 3, 24))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_no_weight_of_a_large_layer_or_embedding_is_widened_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    widened: list[int] = []
    real = float64._wide_weight

    def counted(value: object) -> object:
        widened.extend([value.numel()] if isinstance(value, nn.Parameter) else [])
        return real(value)

    monkeypatch.setattr(float64, "_wide_weight", counted)
    module = nn.Sequential(nn.Embedding(AT_ONCE // 8, 24), nn.LayerNorm(24), nn.Linear(24, AT_ONCE // 8))
    call_in_float64(module, [np.array([[1, 2]])], by_weight=True)
    assert widened, "the norm's are"
    assert max(widened) == 24


class Scaled(nn.Module):
    """A weight that each call writes into."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(2)
        return x * self.weight


def test_a_weight_that_a_call_writes_into_is_not_widened_by_itself() -> None:
    module = Scaled()
    with pytest.raises(NoReference, match="mul_ writes into a weight"):
        call_in_float64(module, [np.ones(3)], by_weight=True)


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo: object) -> nn.Module:
        raise RuntimeError("it holds a file")


def test_a_module_that_cannot_be_copied_is_made_again() -> None:
    copies = Copies(Uncopied(2, 2), lambda: Uncopied(2, 2))
    assert isinstance(copies.fresh(), Uncopied)
    assert copies.wide().weight.dtype == torch.float64
    module = Uncopied(2, 2)
    with pytest.raises(BadInput, match=r"cannot be copied \(RuntimeError: it holds a file"):
        Copies(module, lambda: module)
