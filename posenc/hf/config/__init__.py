"""A model's config.json: its keys and settings."""

from posenc.moved import names_of

__getattr__ = names_of("posenc.hf.config", "posenc.hf.config.config")
