"""What real models have: their config.json read into schemes, their own code asked, and our modules put into them.

>>> posenc_models.read_config(posenc_models.load_config("config.json")).parameters
{'rope_type': 'llama3', 'head_dim': 128, ...}

`config` reads a config.json into a scheme and its parameters. `asking` puts the same question to the model's own code.
`replacing` puts our modules in the place of a model's. `whole` reads a
model's folder into one module with named inputs and outputs. `networks` has small networks that embed an encoding.

Neither torch nor transformers is imported with this package; `replace_rotary` imports torch where it is first used.
"""

import importlib
from typing import TYPE_CHECKING

from posenc_models.config import ModelConfig, Reading, load_config, read_config
from posenc_models.whole import ModelFolder

if TYPE_CHECKING:
    from posenc_models.replacing.replace import replace_rotary

__all__ = ["ModelConfig", "ModelFolder", "Reading", "load_config", "read_config", "replace_rotary"]


def __getattr__(name: str) -> object:
    """Import `replace_rotary`, and torch with it, where it is first used."""
    if name != "replace_rotary":
        raise AttributeError(f"module 'posenc_models' has no attribute {name!r}")
    return importlib.import_module("posenc_models.replacing.replace").replace_rotary
