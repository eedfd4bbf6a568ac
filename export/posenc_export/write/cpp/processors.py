"""What a bundle's processor does with a picture, where that is so little that an example in C++ does it, too.

A plain processor gives each picture one size, keeps its middle, and maps bytes to numbers. One that cuts pictures into
tiles or patches, or pads them, is left to itself: the example takes what it made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.ports import Port
from posenc.strict_json import read_json
from posenc_export.write.cpp.names import braced

FILES = {"preprocessor_config.json": "", "processor_config.json": "image_processor"}
"""Where transformers writes what a processor of pictures does, and the key below which it stands."""
STEPS = ("do_resize", "do_rescale", "do_normalize")
"""Each of these a plain processor does."""
PLAIN = frozenset((*STEPS, "do_center_crop", "do_convert_rgb", "default_to_square", "return_tensors"))
"""What else it may do: any other choice that is true is of another processor."""
SIDES = ("height", "width")
"""The keys of a size of two sides."""
CUBIC, LINEAR = 3, 2
"""How Pillow numbers what makes new pixels of old ones."""


def processor_numbers(folder: Path, inputs: tuple[Port, ...]) -> str | None:
    """Return the fields of pictures::Processor in C++; None where no plain processor makes what a tower takes.

    Args:
        folder: The folder of the bundle.
        inputs: What goes into the tower.
    """
    said = _said(folder)
    if said is None or len(inputs) != 1 or inputs[0].dtype != "float32":
        return None
    sizes = [axis.size for axis in inputs[0].axes]
    chosen = {key for key, value in said.items() if value is True}
    if len(sizes) != 4 or sizes[:2] != [None, 3] or not {*STEPS} <= chosen <= PLAIN:
        return None
    try:
        return _numbers(said, (sizes[2], sizes[3]))
    except (KeyError, TypeError, ValueError):  # a config of another kind
        return None


def _numbers(said: Mapping[str, Any], taken: tuple[int | None, int | None]) -> str | None:
    """Return the fields, where a picture comes out as the tower takes it."""
    size, crop = said["size"], said["crop_size"] if said.get("do_center_crop") else None
    shortest = int(size.get("shortest_edge") or 0)
    resized = (0, 0) if shortest else _sides(size)
    kept = resized if crop is None else _sides(crop)
    fits = kept == taken and (shortest >= max(kept) or (resized[0] >= kept[0] and resized[1] >= kept[1]))
    if not fits or said["resample"] not in (CUBIC, LINEAR):
        return None
    by_color = [braced(*(repr(float(one)) for one in said[key])) for key in ("image_mean", "image_std")]
    if any(len(said[key]) != 3 for key in ("image_mean", "image_std")):
        return None
    is_cubic = str(said["resample"] == CUBIC).lower()
    return braced(*resized, shortest, *kept, is_cubic, repr(float(said["rescale_factor"])), *by_color)


def _sides(size: Mapping[str, Any]) -> tuple[int, int]:
    """Return the height and the width of a size."""
    height, width = (int(size[key]) for key in SIDES)
    return height, width


def _said(folder: Path) -> Mapping[str, Any] | None:
    """Return what a processor of pictures says of itself in a bundle; None where nothing does."""
    for file, key in FILES.items():
        if (folder / file).is_file():
            try:
                read: Any = read_json(folder / file)
            except ValueError:
                continue
            said = read.get(key) if key and isinstance(read, dict) else read
            if isinstance(said, dict):
                return said
    return None
