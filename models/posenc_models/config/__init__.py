"""A model's config.json, as Hugging Face writes it, read into a scheme and its parameters.

Each value keeps the key it came from. `read` makes parameters of a config; `rope` and `encodings` know the model types;
`unread` names the keys that nobody read.
"""

from posenc_models.config.model_config import ModelConfig, load_config
from posenc_models.config.read import Reading, read_config

__all__ = ["ModelConfig", "Reading", "load_config", "read_config"]
