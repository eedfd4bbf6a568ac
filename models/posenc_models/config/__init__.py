"""A model's config.json, as Hugging Face writes it, read into a scheme and its parameters.

A config is values that know where they stand: settings, and the keys that parameters are read from.
"""

from posenc_models.config.model_config import ModelConfig, load_config
from posenc_models.config.read import Reading, read_config

__all__ = ["ModelConfig", "Reading", "load_config", "read_config"]
