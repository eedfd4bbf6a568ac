"""The encodings of model types that are not rotary, or not rotary alone, as transformers has them.

A number in these tables is what transformers takes where a config leaves the key out.
"""

from collections.abc import Mapping

from posenc.hf.encodings.biases import BIASES
from posenc.hf.encodings.images import IMAGES
from posenc.hf.encodings.tables import TABLES
from posenc.hf.encodings.waves import WAVES
from posenc.hf.rows import Row

ENCODINGS: Mapping[str, tuple[Row, ...]] = {**TABLES, **WAVES, **IMAGES, **BIASES}
"""Rows by model type."""
