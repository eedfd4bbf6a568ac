"""The model itself is asked: what its own classes, in transformers or diffusers, give for a config that was read.

Neither library is imported with this package; `model_of` imports one modeling module, where it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from posenc.hf.asking.model import CannotAsk, Model, Question

__all__ = ["CannotAsk", "Model", "Question", "model_of"]

SCHEMES: Mapping[str, str] = {
    "rope": "rotary",
    "mrope": "rotary",
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


def check_scheme(scheme: str) -> None:
    """Raise CannotAsk where nothing here asks about a scheme."""
    if scheme not in SCHEMES:
        raise CannotAsk(f"no model is asked about the scheme {scheme}")


def model_of(question: Question) -> Model:
    """Return the model's own code for what was read; raise CannotAsk, in one line, where it cannot be asked."""
    check_scheme(question.reading.scheme)
    ask: object = importlib.import_module(f"posenc.hf.asking.{SCHEMES[question.reading.scheme]}").model_of
    assert callable(ask)
    model = ask(question)
    assert isinstance(model, Model)
    return model
