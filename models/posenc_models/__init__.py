"""Small networks that embed a positional encoding: `posenc-export posenc_models.embedding:sinusoidal -i ...`."""
