"""Models of Hugging Face: their config.json read into a scheme, and their rotary modules replaced by ours.

>>> posenc.hf.read_config(posenc.hf.load_config("config.json")).parameters
{'rope_type': 'llama3', 'head_dim': 128, ...}

Neither torch nor transformers is imported with this package; `replace_rotary` imports torch where it is first used.
"""

import importlib
from typing import TYPE_CHECKING

from posenc.hf.model_config import ModelConfig, load_config
from posenc.hf.read import Reading, read_config

if TYPE_CHECKING:
    from posenc.hf.replacing.replace import replace_rotary

__all__ = ["ModelConfig", "Reading", "load_config", "read_config", "replace_rotary"]


def __getattr__(name: str) -> object:
    """Import `replace_rotary`, and torch with it, where it is first used."""
    if name != "replace_rotary":
        raise AttributeError(f"module 'posenc.hf' has no attribute {name!r}")
    return importlib.import_module("posenc.hf.replacing.replace").replace_rotary
