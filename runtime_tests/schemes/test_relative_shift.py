"""The shift of scores by distance to scores by key, beside the modules of transformers and the authors' code."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import posenc

LENGTHS = ((1, 1), (2, 2), (3, 10), (1, 70), (70, 70), (2, 3), (5, 7))


@pytest.mark.parametrize(("seq", "seq_k"), LENGTHS)
def test_the_shift_of_xlnet(seq: int, seq_k: int) -> None:
    attention = pytest.importorskip("transformers.models.xlnet.modeling_xlnet").XLNetRelativeAttention
    scores = torch.randn(2, 3, seq, seq + seq_k)
    ours = torch.jit.script(posenc.build("transformer_xl", attention="bi", output="shift").module)
    assert torch.equal(ours(scores), attention.rel_shift_bnij(scores, klen=seq_k))
    uni = torch.jit.script(posenc.build("transformer_xl", attention="uni", output="shift").module)
    past = torch.ones(seq, seq_k).tril(seq_k - seq).bool()
    expected = attention.rel_shift_bnij(scores[..., : seq_k + 1].contiguous(), klen=seq_k)
    assert torch.equal(uni(scores[..., : seq_k + 1]), torch.where(past, expected, 0.0))


@pytest.mark.parametrize(("seq", "seq_k"), LENGTHS)
def test_the_shift_of_transformer_xl(seq: int, seq_k: int) -> None:
    """What a query sees is what the authors' _rel_shift gives it; what it does not see is 0."""
    scores = np.random.default_rng(0).standard_normal((2, 3, seq, seq_k)).astype(np.float32)
    padded = np.concatenate([np.zeros((2, 3, seq, 1)), scores], -1)
    theirs = padded.reshape(2, 3, seq_k + 1, seq)[:, :, 1:].reshape(2, 3, seq, seq_k)
    past = np.tri(seq, seq_k, seq_k - seq, dtype=bool)
    ours = torch.jit.script(posenc.build("transformer_xl", output="shift").module)
    np.testing.assert_array_equal(ours(torch.from_numpy(scores)).numpy(), np.where(past, theirs, 0.0))


def of_wav2vec2(scores: torch.Tensor, seq_k: int) -> torch.Tensor:
    """What Wav2Vec2-Conformer's own function makes of scores: a head's features are its columns, one after another."""
    modeling = pytest.importorskip("transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer")
    columns = scores.shape[3]
    module = SimpleNamespace(linear_pos=torch.nn.Identity(), head_size=columns, scaling=1.0)
    module.pos_bias_u = module.pos_bias_v = torch.zeros(scores.shape[1], columns)
    key, rows = torch.zeros(1, 1, seq_k, 1), torch.eye(columns)[None, :, None].expand(-1, -1, scores.shape[1], -1)
    _, shifted = modeling._apply_relative_position_encoding(module, scores, key, rows.flatten(2))
    by_key: torch.Tensor = shifted
    return by_key


@pytest.mark.parametrize(("seq", "seq_k"), [*LENGTHS, (5, 5), (7, 5), (4, 1)])
def test_the_shift_of_conformers(seq: int, seq_k: int) -> None:
    """Wav2Vec2-Conformer has as many keys as queries; its function, NeMo's and a loop say the same of others."""
    scores = torch.randn(2, 3, seq, seq + seq_k - 1)
    ours = torch.jit.script(posenc.build("conformer_relative", output="shift").module)(scores)
    loop = torch.stack([scores[:, :, query, seq - 1 - query :][:, :, :seq_k] for query in range(seq)], 2)
    assert torch.equal(ours, loop)
    assert torch.equal(ours, of_wav2vec2(scores, seq_k))
    nemo = pytest.importorskip("transformers.models.parakeet.modeling_parakeet").ParakeetEncoderAttention._rel_shift
    assert torch.equal(ours, nemo(None, scores)[..., :seq_k])


def test_rows_and_their_shift_give_each_key_the_row_of_its_distance() -> None:
    rows = posenc.build("conformer_relative", d_model=8).module(torch.zeros(1, 5, 8))[0]
    q = torch.randn(1, 2, 5, 8)
    by_key = posenc.build("conformer_relative", output="shift").module(q @ rows.T)
    distance = torch.arange(5)[:, None] - torch.arange(5)
    torch.testing.assert_close(by_key, torch.einsum("bhid,ijd->bhij", q, rows[4 - distance]))


@pytest.mark.parametrize(("past", "future", "chunk"), [(12, 0, 12), (2, 1, 3), (0, 0, 1), (0, 3, 2)])
def test_the_shift_of_gemma_audio(past: int, future: int, chunk: int) -> None:
    gemma = pytest.importorskip("transformers.models.gemma3n.modeling_gemma3n").Gemma3nAudioRelativePositionEmbedding
    columns, context = past + 1 + future, past + chunk + future
    parameters: dict[str, Any] = {"style": "chunk", "past": past, "future": future, "chunk": chunk, "output": "shift"}
    ours = torch.jit.script(posenc.build("conformer_relative", **parameters).module)
    gemma4 = pytest.importorskip("transformers.models.gemma4.modeling_gemma4").Gemma4AudioAttention
    config = pytest.importorskip("transformers").Gemma4AudioConfig(
        hidden_size=16,
        num_attention_heads=4,
        attention_chunk_size=chunk,
        attention_context_left=past + 1,
        attention_context_right=future,
    )
    of_4 = gemma4(config, 0)
    for chunks in (1, 2, 5):
        scores = torch.randn(2, 4, chunks, chunk, columns)
        assert torch.equal(ours(scores), gemma._relative_shift(None, scores, 2, 4, chunks, chunk, context, columns))
        assert torch.equal(ours(scores), of_4._rel_shift(scores))
