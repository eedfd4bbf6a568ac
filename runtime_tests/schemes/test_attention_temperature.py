"""Attention temperature: the factors are those by which models multiply their queries."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from posenc import Spec, UnsupportedSpec, build

pytest.importorskip("transformers")
from transformers import Llama4TextConfig
from transformers.models.llama4 import modeling_llama4
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale
from transformers.models.mistral4 import modeling_mistral4

SPEC = Spec(max_len=40000, positions="explicit")
EPS = 2.0**-22
"""Theirs round a logarithm, a product and a sum in float32; the factors are below 2."""


def factors(positions: torch.Tensor, **parameters: float) -> torch.Tensor:
    """Our factors at positions: (batch, seq) -> (batch, seq, 1)."""
    out: torch.Tensor = build("attention_temperature", SPEC, **parameters).module(positions)
    return out


@pytest.mark.parametrize("function", [get_llama_4_attn_scale, modeling_mistral4.get_llama_4_attn_scale])
def test_ministral_multiplies_by_the_same(function: object) -> None:
    positions = torch.arange(40000).view(2, 20000)
    assert callable(function)
    theirs = function(positions, 0.1, 16384)[:, 0]  # (batch, 1, seq, 1)
    np.testing.assert_allclose(factors(positions, step=16384), theirs, rtol=0, atol=EPS)


def test_llama_4_multiplies_queries_by_the_same() -> None:
    """Its attention without rotation is called with an attention of ours, which sees the queries after the factor."""
    config = Llama4TextConfig(
        hidden_size=8, num_attention_heads=1, num_key_value_heads=1, head_dim=8, num_hidden_layers=4, floor_scale=100,
        no_rope_layers=[1, 1, 1, 0], attn_scale=0.1, attn_temperature_tuning=True, use_qk_norm=False,
    )  # fmt: skip
    attention = modeling_llama4.Llama4TextAttention(config, 3)
    assert not attention.use_rope
    # queries are what comes in, so that ones become the factors
    attention.q_proj = torch.nn.Identity()  # type: ignore[assignment]
    seen: list[torch.Tensor] = []

    def look(_module: object, q: torch.Tensor, _k: object, v: torch.Tensor, *_: object, **__: object) -> object:
        seen.append(q)
        return v.transpose(1, 2), None

    tables = SimpleNamespace(get_interface=lambda *_: look)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(modeling_llama4, "ALL_ATTENTION_FUNCTIONS", tables)
        attention(torch.ones(1, 1000, 8), (torch.ones(1), torch.ones(1)), None)
    ours = factors(torch.arange(1000)[None], step=100, offset=1)
    np.testing.assert_allclose(seen[0][:, 0], ours.expand(1, 1000, 8), rtol=0, atol=EPS)
    assert len(np.unique(ours)) == 11  # position 99 is the first of the second step, 999 that of the last


def test_whole_numbers_are_divided() -> None:
    """Both sides of a step that is no power of two have the logarithms of their own whole numbers."""
    module = build("attention_temperature", Spec(max_len=60000), step=10007).module
    ours = module(torch.tensor([[10006, 10007, 50034, 50035]]))[0, :, 0]
    np.testing.assert_allclose(ours, 1 + 0.1 * np.log([1, 2, 5, 6]), rtol=2**-24)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"beta": 0.0}, "beta must be"),
        ({"step": 0}, "step must be at least 1, got 0"),
        ({"offset": -1}, "offset must be at least 0, got -1"),
    ],
)
def test_what_is_out_of_range(parameters: dict[str, float], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        build("attention_temperature", SPEC, **parameters)


@pytest.mark.parametrize("positions", ["implicit", "offset"])
def test_factors_have_no_x(positions: str) -> None:
    with pytest.raises(UnsupportedSpec, match="use --positions explicit or mask"):
        build("attention_temperature", Spec(positions=positions))  # type: ignore[arg-type]
