"""Rows of distances, and the shift of scores with them, beside the modules of transformers and the papers' code."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import posenc
from helpers.shared import Cli
from posenc.ports import Array
from posenc.sources.relative.encode import RelativeRows
from posenc.spec import Mode, Spec, UnsupportedSpec
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.scheme import scheme_target

WIDTH, MAX_LEN = 16, 70
MODES: tuple[Mode, ...] = ("baked", "dynamic")
LENGTHS = ((1, 1), (2, 2), (3, 10), (1, MAX_LEN), (MAX_LEN, MAX_LEN))
FLOAT32 = 2e-6
"""What the product of a distance and a frequency costs in float32 up to MAX_LEN, as all of these codes have it."""


def called(module: nn.Module, *sizes: int, width: int = WIDTH) -> Tensor:
    """Return what the script of a module gives hidden states of these lengths."""
    with torch.no_grad():
        rows: Tensor = torch.jit.script(module)(*(torch.zeros(2, size, width) for size in sizes))
    return rows


def of_reference(encoding: posenc.Encoding, *sizes: int) -> Array:
    feeds = {port.name: np.zeros((2, size, WIDTH)) for port, size in zip(encoding.inputs, sizes, strict=True)}
    (rows,) = encoding.reference(feeds, None).values()
    return rows


# ---- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("attention", "clamp"), [("uni", None), ("bi", None), ("uni", 5), ("bi", 5), ("bi", 1)])
def test_rows_of_xlnet(mode: Mode, attention: Any, clamp: int | None) -> None:
    model = pytest.importorskip("transformers.models.xlnet.modeling_xlnet").XLNetModel
    theirs = SimpleNamespace(d_model=WIDTH, attn_type=attention, bi_data=False, clamp_len=clamp or -1)
    theirs.positional_embedding = model.positional_embedding
    ours = posenc.build(
        "transformer_xl", Spec(mode, max_len=MAX_LEN), d_model=WIDTH, attention=attention, clamp_len=clamp
    )
    for seq, seq_k in LENGTHS:
        expected = model.relative_positional_encoding(theirs, seq, seq_k)[:, 0]
        sizes = (seq, seq_k) if attention == "bi" else (seq_k,)
        rows = called(ours.module, *sizes)
        assert rows.shape == (1, len(expected), WIDTH)
        assert float((rows[0] - expected).abs().max()) < FLOAT32
        assert float(np.abs(rows.numpy() - of_reference(ours, *sizes)).max()) < 1.5e-7


def transformer_xl(seq_k: int, width: int, clamp: int | None) -> Array:
    """The rows of the authors' PositionalEmbedding, called with `torch.arange(klen-1, -1, -1.0)`."""
    positions = np.arange(seq_k - 1, -1, -1.0)
    if clamp is not None:
        positions = np.minimum(positions, clamp)
    angle = np.outer(positions, 1 / (10000 ** (np.arange(0.0, width, 2.0) / width)))
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


@pytest.mark.parametrize(("mode", "clamp"), list(product(MODES, (None, 4))))
def test_rows_of_transformer_xl(mode: Mode, clamp: int | None) -> None:
    ours = posenc.build("transformer_xl", Spec(mode, max_len=MAX_LEN), d_model=WIDTH, clamp_len=clamp)
    for seq_k in (1, 2, 3, MAX_LEN):
        rows = called(ours.module, seq_k).numpy()
        assert float(np.abs(rows[0] - transformer_xl(seq_k, WIDTH, clamp)).max()) < 1.5e-7
    by_hand = transformer_xl(3, 4, None)[0]
    np.testing.assert_allclose(by_hand, [0.9092974268, 0.0199986667, -0.4161468365, 0.9998000067], atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seq", [1, 2, 3, MAX_LEN])
def test_rows_of_conformers(mode: Mode, seq: int) -> None:
    """Wav2Vec2-Conformer's, SeamlessM4T's and FastSpeech2-Conformer's are ESPnet's, stored; Parakeet computes them."""
    ours = posenc.build("conformer_relative", Spec(mode, max_len=MAX_LEN), d_model=WIDTH)
    rows = called(ours.module, seq)
    assert rows.shape == (1, 2 * seq - 1, WIDTH)
    config = SimpleNamespace(max_source_positions=10, max_position_embeddings=5000, hidden_size=WIDTH)
    for name, kind, more in (
        ("wav2vec2_conformer", "Wav2Vec2ConformerRelPositionalEmbedding", ()),
        ("seamless_m4t", "SeamlessM4TConformerRelPositionalEmbedding", ()),
        ("parakeet", "ParakeetEncoderRelPositionalEncoding", ()),
        ("nemotron_asr_streaming", "NemotronAsrStreamingEncoderRelPositionalEncoding", ()),
        ("fastspeech2_conformer", "FastSpeech2ConformerRelPositionalEncoding", ({"positional_dropout_rate": 0.0},)),
    ):
        theirs = getattr(pytest.importorskip(f"transformers.models.{name}.modeling_{name}"), kind)(config, *more)
        expected = theirs.eval()(torch.zeros(1, seq, WIDTH))
        expected = expected[1] if isinstance(expected, tuple) else expected
        assert float((rows - expected).abs().max()) < FLOAT32, name


def legacy_espnet(seq: int, stored: int) -> Array:
    """The rows of ESPnet's LegacyRelPositionalEncoding: the first ones of a table that is longer if it must be."""
    positions = np.arange(max(seq, stored) - 1, -1, -1.0)[:seq]
    angle = np.outer(positions, np.exp(np.arange(0, WIDTH, 2) * -(np.log(10000.0) / WIDTH)))
    table = np.zeros((seq, WIDTH))
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


@pytest.mark.parametrize(("mode", "stored"), list(product(MODES, (None, 20))))
def test_rows_that_descend_and_those_that_ascend(mode: Mode, stored: int | None) -> None:
    spec = Spec(mode, max_len=MAX_LEN)
    ours = posenc.build("conformer_relative", spec, d_model=WIDTH, style="descending", stored=stored)
    rising = posenc.build("conformer_relative", spec, d_model=WIDTH, style="ascending")
    for seq in (1, 2, 19, 20, 21, MAX_LEN):
        assert float(np.abs(called(ours.module, seq)[0].numpy() - legacy_espnet(seq, stored or 0)).max()) < 1.5e-7
        assert float(np.abs(called(rising.module, seq)[0].numpy() - legacy_espnet(seq, 0)[::-1]).max()) < 1.5e-7


def test_a_chunk_of_wenet_begins_where_the_one_before_it_ended() -> None:
    spec = Spec("dynamic", positions="offset")
    ours = posenc.build("conformer_relative", spec, d_model=WIDTH, style="ascending")
    rows = ours.module(torch.zeros(1, 4, WIDTH), torch.tensor([30]))
    assert float(np.abs(rows[0].numpy() - legacy_espnet(34, 0)[::-1][30:]).max()) < 1.5e-7


@pytest.mark.parametrize(("past", "future"), [(12, 0), (3, 2), (0, 4), (0, 0)])
def test_rows_of_gemma_audio(past: int, future: int) -> None:
    ours = posenc.build("conformer_relative", d_model=WIDTH, style="chunk", past=past, future=future)
    rows = called(ours.module)
    module = pytest.importorskip("transformers.models.gemma3n.modeling_gemma3n").Gemma3nAudioRelativePositionEmbedding
    config = SimpleNamespace(conf_num_attention_heads=2, hidden_size=WIDTH)
    config.conf_attention_context_left, config.conf_attention_context_right = past + 1, future
    theirs = module(config)
    expected = theirs._get_timing_signal_1d_pos(torch.arange(past, -future - 1, -1)[None], torch.float32)
    assert rows.shape == expected.shape
    assert float((rows - expected).abs().max()) < FLOAT32
    if (past, future) == (12, 0):
        gemma4 = pytest.importorskip("transformers.models.gemma4.modeling_gemma4").Gemma4AudioRelPositionalEncoding
        of_4 = gemma4(
            SimpleNamespace(
                hidden_size=WIDTH, attention_chunk_size=12, attention_context_left=13, attention_context_right=0
            )
        )
        assert float((rows - of_4(torch.zeros(1, 3, WIDTH))).abs().max()) < FLOAT32


def test_a_call_longer_than_the_table_of_parakeet_is_right() -> None:
    seq = 6000
    ours = posenc.build("conformer_relative", Spec("dynamic"), d_model=WIDTH)
    distance = np.arange(seq - 1, -seq, -1)
    angle = distance[:, None] / 10000.0 ** (np.arange(0, WIDTH, 2) / WIDTH)
    rows = called(ours.module, seq)[0].numpy()
    assert float(np.abs(rows[:, 0::2] - np.sin(angle)).max()) < 3e-7
    assert float(np.abs(rows[:, 1::2] - np.cos(angle)).max()) < 3e-7


def test_a_clamped_distance_has_no_end() -> None:
    ours = posenc.build("transformer_xl", Spec(max_len=8), d_model=WIDTH, clamp_len=5)
    assert ours.end is None
    rows = called(ours.module, 300)[0]
    assert torch.equal(rows[:295], rows[:1].expand(295, WIDTH))
    with pytest.raises(ValueError, match="length 9 is beyond the 8 positions"):
        posenc.build("transformer_xl", Spec(max_len=8), d_model=WIDTH).module(torch.zeros(1, 9, WIDTH))


# ---- wrong -----------------------------------------------------------------------------------------------------------


def with_even_sines(module: RelativeRows) -> RelativeRows:
    """The wrong twin: keys after a query have the rows of those before it."""
    module.signs.fill_(1.0)
    return module


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "params"), [("transformer_xl", {"attention": "bi"}), ("conformer_relative", {})])
def test_a_wrong_twin_is_refused(tmp_path: Path, name: str, params: dict[str, str]) -> None:
    target = scheme_target(name, Spec("dynamic", max_len=MAX_LEN), {"d_model": WIDTH, **params}, 0)
    module: Any = target.encoding.module
    twin = replace(target, encoding=replace(target.encoding, module=with_even_sines(module)))
    result = export_target(lambda: twin, ExportOptions(formats=("onnx",)), tmp_path / "bundle")
    assert any(v.check == "agrees" and "against reference" in v.detail for v in result.verdicts if v.status == "fail")


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "odd": ("transformer_xl", {"d_model": 7}, "d_model must be an even number of at least 2, got 7"),
    "none": ("conformer_relative", {"d_model": 0}, "d_model must be an even number of at least 2, got 0"),
    "base": ("transformer_xl", {"base": 1.0}, "base must be a finite number above 1, got 1.0"),
    "clamp": ("transformer_xl", {"clamp_len": 0}, "clamp_len must be a distance from 1 to 16777215, got 0"),
    "stored": ("conformer_relative", {"stored": 9}, "stored is a number of rows of style=descending"),
    "past": ("conformer_relative", {"style": "chunk", "past": -1}, "past must be at least 0, got -1"),
    "chunk": ("conformer_relative", {"style": "chunk", "chunk": 0}, "chunk must be at least 1, got 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_one_line(case: str) -> None:
    name, parameters, words = BAD[case]
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        posenc.build(name, **parameters)
    assert "\n" not in str(caught.value)


def test_forms_that_there_are_not() -> None:
    with pytest.raises(UnsupportedSpec, match="style=both has no offset form: a distance does not change"):
        posenc.build("conformer_relative", Spec(positions="offset"))
    with pytest.raises(UnsupportedSpec, match="a constant: they take --baked"):
        posenc.build("conformer_relative", Spec("dynamic"), style="chunk")
    with pytest.raises(UnsupportedSpec, match="output=shift is of style=both or chunk, got ascending"):
        posenc.build("conformer_relative", style="ascending", output="shift")
    with pytest.raises(ValueError, match="3 queries must be the last of the keys, got 2 keys"):
        posenc.build("transformer_xl", attention="bi").module(torch.zeros(1, 3, 512), torch.zeros(1, 2, 512))


def test_the_command_line_says_it_in_one_line(cli: Cli, tmp_path: Path) -> None:
    run = cli("export", "conformer_relative", "-p", "d_model=3", "-o", str(tmp_path / "x"))
    assert run.exit_code == 2
    assert "d_model must be an even number of at least 2, got 3" in run.output
