"""Places of images and of the text around them: Qwen-Image, whose rows and columns are centred, and what follows it."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc_models.config.foreign import HfModule
from posenc_models.replacing.diffusion.columns import Places
from posenc_models.replacing.diffusion.sizes import CPU
from posenc_models.replacing.diffusion.where import Call, Where

Size = tuple[int, int, int]
"""Frames, rows and columns of an image."""
SIZES: tuple[list[Size], ...] = (
    [(1, 1, 1)],
    [(1, 5, 9)],
    [(3, 8, 6), (1, 7, 11)],
    [(1, 32, 3), (1, 2, 2), (1, 3, 40)],
    [(1, 600, 2)],
)
"""Images of the calls that are tried."""


class Images(Where):
    """Images one behind the other, then text behind the largest: every image begins a frame later.

    Attributes:
        kind: the first result has the rows of all images, the second those of the text.
    """

    names: ClassVar[tuple[str, ...]] = ("video_fhw", "device", "max_txt_seq_len")
    kind = "images"
    has = ("scale_rope",)

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.centred = bool(module.scale_rope)

    def forward(
        self,
        video_fhw: Sequence[Size] | Sequence[Sequence[Size]],
        device: torch.device | None = None,
        max_txt_seq_len: int | Tensor = 0,
    ) -> Places:
        """Return the places of all images, then of the text: (n,) each."""
        sizes = images_of(video_fhw)
        images = [self.image(first, size, device) for first, size in zip(self.firsts(sizes), sizes, strict=True)]
        text = torch.arange(int(max_txt_seq_len), device=device) + self.behind(sizes)
        return [torch.cat([*axis, text]) for axis in zip(*images, strict=True)]

    def finish(self, returned: Any, *args: object, **kwargs: object) -> object:
        """Return the rows of images, and those of the text."""
        arguments = {**dict(zip(self.names, args, strict=False)), **kwargs}
        text = int(arguments["max_txt_seq_len"])  # type: ignore[call-overload]
        return returned.split([returned.shape[0] - text, text])

    def firsts(self, sizes: Sequence[Size]) -> list[int]:
        """Return the first frame of each image."""
        return list(range(len(sizes)))

    def behind(self, sizes: Sequence[Size]) -> int:
        """Return where text begins: behind the largest place of all images."""
        return max(self.extent(size) for size in sizes)

    def extent(self, size: Size) -> int:
        """Return the number of rows or columns of an image, or half of it where the middle is 0."""
        _, height, width = size
        return max(height // 2, width // 2) if self.centred else max(height, width)

    def image(self, first: int, size: Size, device: torch.device | None) -> Places:
        """Return the places of an image: (n,) each."""
        frames, *sides = size
        axes = [torch.arange(frames, device=device) + first]
        for side in sides:
            # of an odd number of rows, the middle is the first one behind it
            axes.append(torch.arange(side, device=device) - ((side - side // 2) if self.centred else 0))
        return [place.flatten() for place in torch.meshgrid(*axes, indexing="ij")]

    def probe(self) -> Call:
        """Return a call of a small image."""
        return self.sized([(2, 3, 5)], 4)

    def tried(self) -> list[Call]:
        """Return calls of several images, and of texts of several lengths."""
        return [self.sized(sizes, length) for sizes, length in zip(SIZES, (1, 7, 20, 300, 64), strict=True)]

    def sized(self, sizes: list[Size], length: int) -> Call:
        """Return a call of some images and a text."""
        return ([sizes], CPU, length)


class LastImages(Images):
    """Nucleus: text begins behind the last image, however large others are."""

    def behind(self, sizes: Sequence[Size]) -> int:
        """Return where text begins."""
        return self.extent(sizes[-1])


class Layers(Images):
    """Qwen-Image's layers: the last image is a condition, and its frame is the one before the first."""

    names = ("video_fhw", "max_txt_seq_len", "device")

    def forward(  # type: ignore[override]
        self,
        video_fhw: Sequence[Size] | Sequence[Sequence[Size]],
        max_txt_seq_len: int | Tensor,
        device: torch.device | None = None,
    ) -> Places:
        """Return the places of all images, then of the text: (n,) each."""
        return super().forward(video_fhw, device, max_txt_seq_len)

    def firsts(self, sizes: Sequence[Size]) -> list[int]:
        """Return the first frame of each image."""
        return [*range(len(sizes) - 1), -1]

    def behind(self, sizes: Sequence[Size]) -> int:
        """Return where text begins: behind all layers, too."""
        return max(super().behind(sizes), len(sizes) - 1)

    def probe(self) -> Call:
        """Return a call of two small images."""
        return self.sized([(2, 3, 5), (1, 2, 2)], 4)

    def sized(self, sizes: list[Size], length: int) -> Call:
        """Return a call of some images, the last of a single frame, and a text."""
        return ([[*sizes, (1, 4, 5)]], length, CPU)


class Mixed(Where):
    """Qwen-Image 2.1: images stand among the text, each at one frame, behind which the text goes on."""

    names = ("img_shapes", "image_pad_mask", "device")

    def forward(self, img_shapes: Sequence[Size], image_pad_mask: Tensor, device: torch.device) -> Places:
        """Return the places of all tokens: (n,) each."""
        mask = image_pad_mask.to(device)
        # places before the n-th image: its number of tokens, and how far the text behind it is moved
        ends, lengths = torch.tensor([[h * w, max(h, w)] for _, h, w in img_shapes], device=device).cumsum(0).unbind(1)
        # tokens of images before each token, from which the images that end before it follow
        image_before = mask.cumsum(0) - mask.to(torch.int64)
        over = torch.searchsorted(ends, image_before, right=True)
        frames = (~mask).cumsum(0) - (~mask).to(torch.int64) + torch.cat([lengths.new_zeros(1), lengths])[over]
        sides: list[list[Tensor]] = [[], []]
        for _, *size in img_shapes:
            axes = [torch.arange(side, device=device) - (side - side // 2) for side in size]
            for axis, place in enumerate(torch.meshgrid(*axes, indexing="ij")):
                sides[axis].append(place.flatten())
        at = image_before.clamp(max=int(ends[-1]) - 1)
        return [frames, *(torch.where(mask, torch.cat(side)[at], frames) for side in sides)]

    def probe(self) -> Call:
        """Return a call of two small images."""
        return self.sized([(1, 2, 2), (1, 2, 3)], [0, 0, 3])

    def tried(self) -> list[Call]:
        """Return calls of several images with text before, between and behind them."""
        texts = ([3, 2], [0, 0], [5, 4, 9], [1, 0, 7, 2], [600, 3])
        return [self.sized(sizes, text) for sizes, text in zip(SIZES, texts, strict=True)]

    def sized(self, sizes: list[Size], text: Sequence[int]) -> Call:
        """Return a call of images, with some tokens of text before each and behind all."""
        parts = [torch.zeros(text[0], dtype=torch.bool)]
        for (_, height, width), more in zip(sizes, text[1:], strict=True):
            parts += [torch.ones(height * width, dtype=torch.bool), torch.zeros(more, dtype=torch.bool)]
        return (sizes, torch.cat(parts), CPU)


def images_of(video_fhw: Sequence[Size] | Sequence[Sequence[Size]]) -> list[Size]:
    """Return the images of a call: those of the first sequence, where it has several."""
    first = video_fhw[0] if isinstance(video_fhw, list) else video_fhw
    return list(first) if isinstance(first, list) else [first]  # type: ignore[list-item]
