"""Modules that take whole patches alone: the size of those is found, said and gone on with."""

import pytest
from torch import Tensor, nn

from posenc.ports import Axis, Port, fixed
from posenc.spec import Spec
from posenc_export.common.errors import BadInput
from posenc_export.write.targets import Target
from posenc_export.write.targets.module import module_target

HEIGHT, WIDTH = Axis("height", "grid"), Axis("width", "grid")


def target(module: nn.Module, *axes: Axis, max_len: int = 512) -> Target:
    image = Port("image", (Axis("batch", "batch"), fixed(3), *axes), "float32")
    return module_target(module, (image,), Spec("dynamic", max_len=max_len), {}, 0)


class Patches(nn.Module):
    """Patches of an image, which must be whole ones."""

    def __init__(self, side: int, least: int = 0) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, side, stride=side)
        self.side, self.least = side, least

    def forward(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        if height % self.side or width % self.side or min(height, width) < self.least:
            raise ValueError(f"an image of {height} by {width} has no whole patches")
        patches: Tensor = self.patches(image)
        return patches.flatten(2).mT


class Windows(nn.Module):
    """Windows of 6 by 6, by a view: no convolution says so."""

    def forward(self, image: Tensor) -> Tensor:
        batch, channels, height, width = image.shape
        windows = image.view(batch, channels, height // 6, 6, width // 6, 6)
        return windows.mean((3, 5))


@pytest.mark.parametrize(("module", "side"), [(Patches(14), 14), (Patches(4), 4), (Windows(), 6)])
def test_the_side_of_a_patch_is_found_and_said(module: nn.Module, side: int) -> None:
    made = target(module, HEIGHT, WIDTH)
    assert [axis.multiple for axis in made.encoding.inputs[0].axes] == [1, 1, side, side]
    (note,) = made.notes
    assert note.startswith(f"'height % {side}', 'width % {side}', as -i says it: ")


class AtLeast(nn.Module):
    """Takes any image of 28 by 28 and more."""

    def forward(self, image: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(image, 28, stride=1)


class Never(nn.Module):
    """Takes nothing."""

    def forward(self, image: Tensor) -> Tensor:
        raise RuntimeError("never")


@pytest.mark.parametrize("module", [AtLeast(), Never(), Patches(300)])
def test_where_no_number_is_what_it_takes_the_line_stays(module: nn.Module) -> None:
    with pytest.raises(BadInput, match="the module itself fails on image"):
        target(module, HEIGHT, WIDTH)


def test_what_is_said_in_the_text_is_not_said_again() -> None:
    with pytest.raises(BadInput, match="the module itself fails on image"):
        target(Patches(14), Axis("height", "grid", multiple=4), Axis("width", "grid", multiple=4))
    assert target(Patches(14), *(Axis(name, "grid", multiple=14) for name in ("height", "width"))).notes == ()


def test_a_module_that_takes_every_size_is_left_alone() -> None:
    made = target(nn.Conv2d(3, 8, 3, stride=2, padding=1), HEIGHT, WIDTH)
    assert [axis.multiple for axis in made.encoding.inputs[0].axes] == [1, 1, 1, 1]


class Floors(nn.Module):
    """Patches of 14 by a convolution that leaves a rest out: any image of one patch or more is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 14, stride=14)

    def forward(self, image: Tensor) -> Tensor:
        patches: Tensor = self.patches(image)
        return patches.flatten(2).mT


class Windowed(nn.Module):
    """Windows of 3 by 3 patches of 16 by 16, as a configuration says."""

    def __init__(self) -> None:
        super().__init__()
        self.config = type("Config", (), {"patch_size": 16, "window_size": (3, 3)})()

    def forward(self, image: Tensor) -> Tensor:
        batch, channels, height, width = image.shape
        return image.view(batch, channels, height // 48, 48, width // 48, 48).mean((3, 5))


def test_a_least_size_is_found_from_the_modules_own_numbers() -> None:
    made = target(Floors(), HEIGHT, WIDTH)
    assert [axis.least for axis in made.encoding.inputs[0].axes[2:]] == [14, 14]
    assert made.notes[0].startswith("'height >= 14', 'width >= 14', as -i says it: ")


def test_patches_and_windows_of_a_configuration_are_tried_first() -> None:
    made = target(Windowed(), HEIGHT, WIDTH)
    assert [axis.multiple for axis in made.encoding.inputs[0].axes[2:]] == [48, 48]
