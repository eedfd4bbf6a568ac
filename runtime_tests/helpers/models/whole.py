"""A whole model of transformers with our rotary modules, behind a wrapper that says what goes in."""

from torch import nn

from helpers.models.transformers_models import Whole, model_of
from posenc_models import replace_rotary


def tiny_llama() -> nn.Module:
    """What `posenc-export helpers.models.whole:tiny_llama` exports."""
    model = model_of("llama")
    replace_rotary(model)
    return Whole(model).eval()
