"""The encodings of model types that are not rotary, or not rotary alone, as transformers and diffusers have them.

A number in these tables is what they take where a config leaves the key out.
"""

from collections.abc import Mapping

from posenc_models.config.encodings.biases import BIASES
from posenc_models.config.encodings.diffusion import DIFFUSION
from posenc_models.config.encodings.grids import GRIDS
from posenc_models.config.encodings.images import IMAGES
from posenc_models.config.encodings.rows import Row
from posenc_models.config.encodings.segmentation import SEGMENTATION
from posenc_models.config.encodings.tables import TABLES
from posenc_models.config.encodings.towers import TOWERS
from posenc_models.config.encodings.waves import WAVES

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
