"""Files for PyTorch of a user's module: short calls of a program of torch.export, and traces of what has no script."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import posenc_export
from posenc_export.common.errors import ExportFailed

INPUTS = ("x: float32[batch, seq, 8]", "cached: float32[batch, past, 8]", "mask: int64[batch, past+seq] mask")


class Cached(nn.Module):
    """Sums tokens and those of a cache under a mask; nothing of it can be scripted, since it takes `*tensors`."""

    def forward(self, *tensors: Tensor) -> Tensor:
        x, cached, mask = tensors
        every = torch.cat([cached, x], 1) * mask[..., None]
        return x + every.cumsum(1)[:, -x.shape[1] :]


class OtherWhenShort(Cached):
    """Gives something else for three tokens and fewer."""

    def forward(self, *tensors: Tensor) -> Tensor:
        y = super().forward(*tensors)
        return y if tensors[2].shape[1] >= 4 else 2 * y


def sizes_of(batch: int, seq: int, past: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(batch, size, 8, generator=generator) for size in (seq, past)]
    return (*drawn, torch.ones(batch, past + seq, dtype=torch.int64))


def written(module: Callable[[], nn.Module], to: Path, format_: str) -> Path:
    result = posenc_export.export(module, inputs=INPUTS, to=to, formats=[format_], validate=False, max_len=12)
    return result.folder


CALLS = [(1, 1, 1), (1, 1, 0), (2, 1, 5), (3, 4, 0), (2, 9, 2)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("format_", "file"), [("pt2", "model.pt2"), ("torchscript", "model.pt")])
def test_one_token_behind_an_empty_cache_is_taken(
    once: Callable[..., Path], format_: str, file: str, call: tuple[int, int, int]
) -> None:
    """torch.export assumes two of everything, so that a loaded program would refuse the first token of a text."""
    folder = once(f"cached-{format_}", lambda place: written(Cached, place / "bundle", format_)) / "bundle"
    program = torch.export.load(folder / file).module() if format_ == "pt2" else torch.jit.load(str(folder / file))
    inputs = sizes_of(*call)
    actual = program(*inputs)
    torch.testing.assert_close(actual[0] if isinstance(actual, tuple) else actual, Cached()(*inputs))


def test_a_short_call_that_the_program_gets_wrong_stays_refused(tmp_path: Path) -> None:
    folder = written(OtherWhenShort, tmp_path / "bundle", "pt2")
    program = torch.export.load(folder / "model.pt2").module()
    inputs = sizes_of(2, 4, 3)
    torch.testing.assert_close(program(*inputs), OtherWhenShort()(*inputs))
    with pytest.raises(AssertionError, match="Guard failed"):
        program(*sizes_of(1, 1, 1))


class Refuses(Cached):
    """Refuses numbers of which it says so itself."""

    def forward(self, *tensors: Tensor) -> Tensor:
        torch._assert_async((tensors[0] < 100).all(), "too large")
        return super().forward(*tensors)


def test_what_a_module_asserts_of_its_numbers_stays_in_the_program(tmp_path: Path) -> None:
    """Assertions about sizes are taken out for short calls; this one is none."""
    folder = written(Refuses, tmp_path / "bundle", "pt2")
    program = torch.export.load(folder / "model.pt2").module()
    inputs = sizes_of(1, 1, 0)
    torch.testing.assert_close(program(*inputs), Refuses()(*inputs))
    with pytest.raises(RuntimeError, match="too large"):
        program(inputs[0] + 1000, *inputs[1:])


class KeepsALength(Cached):
    """Makes a plain number of a length."""

    def forward(self, *tensors: Tensor) -> Tensor:
        return super().forward(*tensors) / int(tensors[0].shape[1])


class OtherWhenLong(Cached):
    """Has a branch for long calls, which torch.export captures at such lengths alone."""

    def forward(self, *tensors: Tensor) -> Tensor:
        seq = tensors[0].shape[1]
        y = super().forward(*tensors)
        return y * torch.tensor(seq / 8).clamp(min=1) if seq > 8 else y


class AsksANumber(Cached):
    """Does something else where the first number is positive."""

    def forward(self, *tensors: Tensor) -> Tensor:
        y = super().forward(*tensors)
        return y if bool(tensors[0][0, 0, 0] > 0) else -y


class Doubling(torch.autograd.Function):
    """A function of Python, which no file holds."""

    @staticmethod
    def forward(context: object, *tensors: Tensor) -> Tensor:
        return 2 * tensors[0]


class CallsPython(Cached):
    """Calls it, as BLOOM does."""

    def forward(self, *tensors: Tensor) -> Tensor:
        doubled: Tensor = Doubling.apply(super().forward(*tensors))  # type: ignore[no-untyped-call]
        return doubled


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (CallsPython, "torch.jit.save failed: Could not export Python function call 'Doubling'"),
        (KeepsALength, "torch.jit.trace cannot see what the module does by a number"),
        (OtherWhenLong, "torch.jit.trace cannot see what the module does by the numbers of a tensor"),
        (AsksANumber, "torch.jit.trace cannot see what the module does by the numbers of a tensor"),
    ],
)
def test_a_trace_that_may_not_be_all_is_refused(tmp_path: Path, module: type[nn.Module], words: str) -> None:
    with pytest.raises(ExportFailed, match=words):
        written(module, tmp_path / "bundle", "torchscript")


def test_a_trace_says_why_it_is_one_and_is_certified(tmp_path: Path) -> None:
    """The same words in every run, and the same bytes: no addresses are in them."""
    result = posenc_export.export(
        Cached, inputs=INPUTS, to=tmp_path / "bundle", formats=["torchscript"], runtimes=["torchscript-cpu"], max_len=12
    )
    assert result.passed, str(result)
    (note,) = [
        line for line in result.manifest.notes if line.startswith("written by torch.jit.trace: torch.jit.script")
    ]
    assert "0x" not in note
