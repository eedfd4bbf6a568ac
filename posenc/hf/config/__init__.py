"""A config.json as values that know where they stand: settings, and the keys that parameters are read from."""

from posenc.moved import names_of

__getattr__ = names_of("posenc.hf.config", "posenc.hf.model_config")
