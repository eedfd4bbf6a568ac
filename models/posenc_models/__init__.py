"""Small networks that embed a positional encoding, for tests and examples: `posenc-export posenc_models.embedding:...`."""
