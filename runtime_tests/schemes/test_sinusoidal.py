"""Sinusoids as models have them: against modules of transformers and diffusers, and the formula of tensor2tensor."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.embeddings import SinusoidalPositionalEmbedding as OfDiffusers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor
from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings
from transformers.models.fsmt.modeling_fsmt import SinusoidalPositionalEmbedding as OfFsmt
from transformers.models.m2m_100.modeling_m2m_100 import (
    M2M100ScaledWordEmbedding,
    M2M100SinusoidalPositionalEmbedding,
)
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeSinusoidalPositionalEmbedding
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextSinusoidalPositionalEmbedding
from transformers.models.speecht5.modeling_speecht5 import (
    SpeechT5ScaledPositionalEncoding,
    SpeechT5SinusoidalPositionalEmbedding,
)
from transformers.models.trocr.modeling_trocr import TrOCRSinusoidalPositionalEmbedding
from transformers.models.whisper.modeling_whisper import sinusoids
from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding

import posenc
from helpers.shared import EPS
from helpers.sinusoids import FAIRSEQ
from posenc.ports import Floats
from posenc.sincos.angle_addition import END
from posenc.spec import Spec
from posenc_export.bundle.case import Case

EXACT = 3e-7
IDS = torch.tensor([[5, 6, 7, 8, 9, 5], [1, 1, 5, 6, 7, 8], [5, 6, 7, 1, 1, 1], [1, 1, 1, 1, 1, 7]])
"""Tokens; 1 is padding."""
FORMS = [Spec("baked", max_len=1500), Spec("dynamic", max_len=1500)]


@pytest.fixture
def float64() -> Iterator[None]:
    """Compute what is made with the default dtype in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def off(rows: Tensor, expected: Tensor) -> float:
    return float((rows.double() - expected.double()).abs().max().detach())


def rows_of(spec: Spec, length: int, d_model: int, **params: Any) -> Tensor:
    """Rows of positions 0..length-1."""
    module = posenc.build("sinusoidal", spec, d_model=d_model, **params).module
    rows: Tensor = module(torch.zeros(1, length, d_model, dtype=torch.float32))[0]
    return rows


@pytest.mark.parametrize("spec", FORMS)
def test_whisper(spec: Spec, float64: None) -> None:
    expected = sinusoids(1500, 384)
    assert expected.dtype == torch.float64
    assert off(rows_of(spec, 1500, 384, spacing="half", layout="halves"), expected) <= EXACT


@pytest.mark.parametrize("d_model", [16, 9])
@pytest.mark.parametrize(
    "kind",
    [
        M2M100SinusoidalPositionalEmbedding,
        NllbMoeSinusoidalPositionalEmbedding,
        Speech2TextSinusoidalPositionalEmbedding,
        SpeechT5SinusoidalPositionalEmbedding,
        TrOCRSinusoidalPositionalEmbedding,
    ],
)
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_fairseq_from_a_mask(kind: Any, d_model: int, mode: Any) -> None:
    spec = Spec(mode, positions="mask", position_offset=2, max_len=40)
    module = posenc.build("sinusoidal", spec, d_model=d_model, output="rows", **FAIRSEQ).module
    mask = IDS.ne(1).long()
    rows = module(mask)
    assert off(rows, kind(30, d_model, 1)(IDS)) <= 4 * EPS * 8  # its angles are float32, at positions up to 8
    assert bool((rows[mask == 0] == 0).all())
    assert bool((rows[mask == 1] != 0).any(-1).all())


def test_fsmt_and_xglm_of_the_same_table() -> None:
    table = rows_of(Spec(max_len=32), 32, 10, **FAIRSEQ)
    assert off(table, OfFsmt.get_embedding(32, 10, 1)) <= 4 * EPS * 32
    positions = torch.arange(7)[None]
    explicit = Spec("dynamic", positions="explicit")
    ours = posenc.build("sinusoidal", explicit, d_model=10, output="rows", **FAIRSEQ).module(positions + 2)
    assert off(ours, XGLMSinusoidalPositionalEmbedding(30, 10, 1)(positions)) <= 4 * EPS * 9


def test_m2m_adds_rows_to_words_times_the_root_of_the_width() -> None:
    words = M2M100ScaledWordEmbedding(12, 16, 1, embed_scale=math.sqrt(16))
    rows = M2M100SinusoidalPositionalEmbedding(30, 16, 1)
    spec = Spec("dynamic", positions="mask", position_offset=2)
    module = posenc.build("sinusoidal", spec, d_model=16, scale_x="sqrt", **FAIRSEQ).module
    x = torch.nn.functional.embedding(IDS, words.weight)
    assert off(module(x, IDS.ne(1).long()), words(IDS) + rows(IDS)) <= 4 * EPS * 8


@pytest.mark.parametrize("d_model", [16, 7])
def test_marian_has_halves_of_the_papers_spacing(d_model: int) -> None:
    expected = MarianSinusoidalPositionalEmbedding(50, d_model).create_weight()
    assert off(rows_of(Spec(max_len=50), 50, d_model, layout="halves"), expected) <= EPS


def test_distilbert_and_diffusers_have_the_paper_s() -> None:
    expected = torch.empty(50, 16)
    create_sinusoidal_embeddings(50, 16, expected)
    x = torch.randn(2, 50, 16)
    for spec in FORMS:
        assert off(rows_of(spec, 50, 16), expected) <= EXACT
        ours = posenc.build("sinusoidal", spec, d_model=16).module(x)
        assert off(ours, OfDiffusers(16, 60)(x)) <= 4 * EPS * 50


def tensor2tensor(length: int, channels: int) -> Floats:
    """`get_timing_signal_1d`, rewritten in float64: sines, cosines, and zeros up to the width."""
    timescales = channels // 2
    increment = math.log(1.0e4 / 1.0) / max(timescales - 1, 1)
    inverse = np.exp(np.arange(timescales) * -increment)
    scaled = np.arange(length)[:, None] * inverse
    return np.pad(np.concatenate([np.sin(scaled), np.cos(scaled)], axis=1), [(0, 0), (0, channels % 2)])


@pytest.mark.parametrize("spec", [*FORMS, Spec("dynamic", "trig", max_len=1500)])
@pytest.mark.parametrize("d_model", [2, 3, 4, 11, 64])
def test_tensor2tensor(spec: Spec, d_model: int) -> None:
    rows = rows_of(spec, 1500, d_model, spacing="half", layout="halves")
    allowed = 4 * EPS * 1500 if spec.method == "trig" else EXACT
    assert off(rows, torch.from_numpy(tensor2tensor(1500, d_model))) <= allowed


def test_speecht5_has_a_learned_scale(tmp_path: Path) -> None:
    theirs = SpeechT5ScaledPositionalEncoding(0.1, 16, 60).eval()
    torch.nn.init.constant_(theirs.alpha, -0.37)
    save_file({"encoder.alpha": theirs.alpha.detach(), "other": torch.zeros(3)}, tmp_path / "model.safetensors")
    x = torch.randn(2, 50, 16)
    for params in ({"scale": -0.37}, {"weights": str(tmp_path)}, {"weights": str(tmp_path), "key": "encoder.alpha"}):
        for spec in FORMS:
            ours = posenc.build("sinusoidal", spec, d_model=16, **params).module(x)
            assert off(ours, theirs(x)) <= 4 * EPS * 50


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_a_scale_is_one_number_of_any_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "alpha.npy", np.full(shape, 2.5, np.float16))
    rows = rows_of(Spec(max_len=9), 9, 6, weights=str(tmp_path / "alpha.npy"))
    assert torch.equal(rows, rows_of(Spec(max_len=9), 9, 6, scale=2.5))


VARIANTS = st.fixed_dictionaries(
    {
        "d_model": st.integers(2, 70),
        "layout": st.sampled_from(["halves", "interleaved"]),
        "spacing": st.sampled_from(["paper", "half"]),
        "base": st.floats(min_value=10.0, max_value=1e7),
        "padding_row": st.sampled_from([None, 0, 1, 63, 64, 4097]),
    }
)


@settings(max_examples=60, deadline=None)
@given(params=VARIANTS, data=st.data())
def test_every_variant_is_right_to_3e_7_at_any_position(params: dict[str, Any], data: Any) -> None:
    encoding = posenc.build("sinusoidal", Spec("dynamic", positions="explicit"), output="rows", **params)
    far = data.draw(st.lists(st.integers(0, END - 1), min_size=1, max_size=20))
    positions = np.array([[0, 1, 63, 64, 4097, *far]])
    expected = encoding.reference({"positions": positions}, None)["y"]
    rows = encoding.module(torch.from_numpy(positions)).numpy()
    assert float(np.abs(rows - expected).max()) <= EXACT


@pytest.mark.parametrize("length", [1, 2, 64, 65, 200])
def test_a_position_has_the_same_bits_in_a_range_and_by_itself(length: int) -> None:
    for d_model in (10, 11):
        params: dict[str, Any] = {"d_model": d_model, "scale": 1.3, **FAIRSEQ}
        x = torch.zeros(1, length, d_model)
        implicit = posenc.build("sinusoidal", Spec("dynamic"), **params).module(x)
        explicit = posenc.build("sinusoidal", Spec("dynamic", positions="explicit"), **params).module
        assert torch.equal(implicit, explicit(x, torch.arange(length)[None]))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp64"])
@pytest.mark.parametrize("spec", [Spec(max_len=300), Spec("dynamic"), Spec("dynamic", "trig")])
def test_what_scales_cost_is_within_the_tolerance(spec: Spec, dtype: Any) -> None:
    for scale, scale_x in ((1.3, "sqrt"), (-100.0, 0.3), (0.01, 22.6)):
        params: dict[str, Any] = {"d_model": 10, "scale": scale, "scale_x": scale_x}
        encoding = posenc.build("sinusoidal", replace(spec, dtype=dtype), **params)
        x = torch.randn(4, 300, 10).to(getattr(torch, encoding.inputs[0].dtype))
        expected = encoding.reference({"x": x.double().numpy()}, None)["y"]
        allowed = encoding.tolerance(Case("a", {}, max_position=299))
        y = encoding.module(x)
        error = np.abs(y.double().numpy() - expected)
        ulp = np.abs(expected) * float(torch.finfo(y.dtype).eps)
        assert np.all(error <= allowed.atol + allowed.rtol * np.abs(expected) + allowed.ulps * ulp)
        assert error.max() > 0
