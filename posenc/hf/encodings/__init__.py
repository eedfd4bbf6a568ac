"""The encodings of model types that are not rotary, or not rotary alone, as transformers and diffusers have them.

A number in these tables is what they take where a config leaves the key out.
"""

from collections.abc import Mapping

from posenc.hf.encodings.biases import BIASES
from posenc.hf.encodings.diffusion import DIFFUSION
from posenc.hf.encodings.grids import GRIDS
from posenc.hf.encodings.images import IMAGES
from posenc.hf.encodings.rows import Row
from posenc.hf.encodings.segmentation import SEGMENTATION
from posenc.hf.encodings.tables import TABLES
from posenc.hf.encodings.towers import TOWERS
from posenc.hf.encodings.waves import WAVES

ENCODINGS: Mapping[str, tuple[Row, ...]] = {
    **TABLES,
    **WAVES,
    **IMAGES,
    **SEGMENTATION,
    **TOWERS,
    **GRIDS,
    **BIASES,
    **DIFFUSION,
}
"""Rows by model type, of diffusers by class."""
