"""Small networks that embed an encoding: `posenc-export posenc_models.networks.embedding:sinusoidal -i ...`."""
