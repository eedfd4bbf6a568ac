"""The shift of scores by distance to scores by key, beside the modules of transformers and the authors' code."""

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


@pytest.mark.parametrize(("past", "future", "chunk"), [(12, 0, 12), (2, 1, 3), (0, 0, 1), (0, 3, 2)])
def test_the_shift_of_gemma_audio(past: int, future: int, chunk: int) -> None:
    gemma = pytest.importorskip("transformers.models.gemma3n.modeling_gemma3n").Gemma3nAudioRelativePositionEmbedding
    columns, context = past + 1 + future, past + chunk + future
    parameters: dict[str, Any] = {"style": "chunk", "past": past, "future": future, "chunk": chunk, "output": "shift"}
    ours = torch.jit.script(posenc.build("conformer_relative", **parameters).module)
    for chunks in (1, 2, 5):
        scores = torch.randn(2, 4, chunks, chunk, columns)
        assert torch.equal(ours(scores), gemma._relative_shift(None, scores, 2, 4, chunks, chunk, context, columns))
