"""The model itself is asked: its own classes, in transformers or diffusers, compute what we read from its config.

Neither library is imported with this package; `model_of` imports one modeling module, where it is called.
"""

import importlib
from collections.abc import Mapping

from posenc_models.asking.model import CannotAsk, OwnModel, Question

__all__ = ["CannotAsk", "OwnModel", "Question", "model_of"]

SCHEMES: Mapping[str, str] = {
    "rope": "rotary",
    "mrope": "rotary",
    "rope_layers": "by_type",
    "rope_2d": "towers",
    "rope_nd": "towers",
    "dinov3": "towers",
    "attention_temperature": "temperature",
    "learned": "tables",
    "sinusoidal": "waves",
    "interpolated": "images",
    "learned_2d": "images",
    "sine_2d": "images",
    "sincos_2d": "images",
    "swin_bias": "windows",
    "swin_cpb": "windows",
    "t5_bias": "biases",
    "deberta_buckets": "biases",
    "alibi": "biases",
    "transformer_xl": "relative",
    "conformer_relative": "relative",
    "clipped_relative": "rows",
    "decomposed_relative": "rows",
    "fourier_features": "rows",
    "timestep": "diffusion",
    "sincos_3d": "diffusion",
}
"""The module of this package that asks about a scheme: each has a function `model_of`."""


def model_of(question: Question) -> OwnModel:
    """Return the model's own code for a reading; raise CannotAsk, in one line, where it cannot be asked."""
    name = SCHEMES.get(question.reading.scheme)
    if name is None:
        raise CannotAsk(f"no model is asked about the scheme {question.reading.scheme}")
    model: OwnModel = importlib.import_module(f"posenc_models.asking.{name}").model_of(question)
    return model
