"""What real models have: their config.json read into schemes, their own code asked, and our modules put into them.

>>> posenc_models.read_config(posenc_models.load_config("config.json")).parameters
{'rope_type': 'llama3', 'head_dim': 128, ...}

`config` reads a config.json into a scheme and its parameters. `asking` gets the same from the model's own code.
`replacing` puts our modules in the place of a model's. `whole` reads a
model's folder into one module with named inputs and outputs. `vision` counts the positions of images and videos in a
prompt, as a model does. `networks` has small networks that embed an encoding.

This package imports nothing by itself: each name is loaded when it is first used, and torch only for `replace_rotary`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_models.config import ModelConfig, Reading, load_config, read_config
    from posenc_models.replacing.replace import replace_rotary
    from posenc_models.whole import ModelFolder

__all__ = ["ModelConfig", "ModelFolder", "Reading", "load_config", "read_config", "replace_rotary"]
WHERE = {
    **dict.fromkeys(("ModelConfig", "Reading", "load_config", "read_config"), "posenc_models.config"),
    "ModelFolder": "posenc_models.whole",
    "replace_rotary": "posenc_models.replacing.replace",
}
"""The modules that the names of this package lie in."""


def __getattr__(name: str) -> object:
    """Import a name where it is first used."""
    if name not in WHERE:
        raise AttributeError(f"module 'posenc_models' has no attribute {name!r}")
    return getattr(importlib.import_module(WHERE[name]), name)
