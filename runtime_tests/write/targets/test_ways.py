"""What capturing a user's module says and needs: hints of schemes without a branch, ways, inputs by name."""

import threading
import time

import pytest
import torch
from torch import Tensor, nn

from posenc.libraries import replaced
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc_export.common.arrays import tensors_of
from posenc_export.write.formats.hints import hint
from posenc_export.write.formats.ways import WAYS, without_a_look_for_causal_masks
from posenc_export.write.targets.calling import by_name

X = Port("x", (BATCH, SEQ, fixed(8)), "float32")


def dynamic_frequency_update(position_ids: Tensor) -> None:
    raise RuntimeError("a branch")


def longrope_frequency_update(position_ids: Tensor) -> None:
    raise RuntimeError("a branch")


def xpos_scale(length: int) -> None:
    raise RuntimeError(f"a number {length // 2}")


def anything(x: Tensor) -> None:
    raise RuntimeError("a branch")


@pytest.mark.parametrize(
    ("function", "scheme"),
    [
        (dynamic_frequency_update, "rope -p rope_type=dynamic"),
        (longrope_frequency_update, "rope -p rope_type=longrope"),
        (xpos_scale, "xpos -p center=length"),
        (anything, ""),
    ],
)
def test_a_hint_names_a_scheme_where_the_code_tells_which(function: object, scheme: str) -> None:
    try:
        function(3)  # type: ignore[operator]
    except RuntimeError as error:
        words = hint(error)
    assert (f"`posenc export {scheme}` does it without a branch" in words) if scheme else words == ""


def test_the_usual_way_is_the_first() -> None:
    assert [(way.strict, way.long) for way in WAYS] == [(False, False), (True, False), (False, True), (True, True)]


def test_what_looks_for_causal_masks_is_put_back() -> None:
    from torch.nn.modules import transformer

    real = transformer._detect_is_causal_mask
    with without_a_look_for_causal_masks():
        assert transformer._detect_is_causal_mask(torch.zeros(2, 2)) is False
        assert transformer._detect_is_causal_mask(torch.zeros(2, 2), is_causal=True) is True
    assert transformer._detect_is_causal_mask is real


def test_threads_that_change_a_library_wait_for_each_other() -> None:
    class Library:
        value = "real"

    seen = []

    def change(value: str) -> None:
        for _ in range(50):
            with replaced(Library, "value", value):
                time.sleep(0.0001)
                seen.append(Library.value == value)

    threads = [threading.Thread(target=change, args=(value,)) for value in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(seen), all(seen), Library.value) == (150, True, "real")


def test_none_is_no_output_and_numbers_are_refused() -> None:
    one, two = torch.zeros(1), torch.ones(1)
    assert tensors_of((one, None, {"a": two, "b": None})) == [one, two]
    for wrong in (None, (), (None,), (one, 3), "text"):
        with pytest.raises(TypeError, match="outputs must be tensors, got"):
            tensors_of(wrong)


class Takes(nn.Module):
    def forward(self, x: Tensor, past: Tensor | None = None, *, scale: Tensor | None = None) -> Tensor:
        return x


class TakesMore(nn.Module):
    def forward(self, x: Tensor, *more: Tensor, **named: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("module", "names", "named"),
    [
        (Takes(), ("x",), ()),
        (Takes(), ("x", "past"), ()),
        (Takes(), ("tokens", "cache"), ()),
        (Takes(), ("x", "scale"), ("scale",)),
        (Takes(), ("x", "past", "scale"), ("scale",)),
        (Takes(), ("scale",), ()),
        (TakesMore(), ("x", "y", "z"), ()),
    ],
)
def test_which_inputs_go_in_by_name(module: nn.Module, names: tuple[str, ...], named: tuple[str, ...]) -> None:
    assert by_name(module, names) == named
