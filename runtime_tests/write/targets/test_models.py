"""Whole networks with an encoding inside, end to end: exported by the command line, fed real text."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from helpers.shared import DATA, Cli, one_of_each
from posenc_export.write.formats import quiet
from posenc_models.networks import embedding, encoder
from posenc_models.networks.decoder import Decoder
from posenc_models.networks.layers import TOKEN_SCHEMES

LINES = (DATA / "alice.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("network", one_of_each(["learned", "sinusoidal"], lambda _: ""))
def test_every_line_of_alice_at_its_own_length(cli: Cli, network: str) -> None:
    result = cli(
        "export",
        f"posenc_models.networks.embedding:{network}",
        "-i",
        "ids: int64[batch, seq] < 256",
        "--max-len",
        "512",
        "-q",
    )
    assert result.exit_code == 0, result.output
    torch.manual_seed(0)  # the seed of the export
    module = getattr(embedding, network)().eval()
    session = onnxruntime.InferenceSession(f"{network}-dynamic/model.onnx", providers=["CPUExecutionProvider"])
    with quiet():
        script = torch.jit.load(f"{network}-dynamic/model.pt")
    assert len({len(line) for line in LINES}) == len(LINES) == 6
    for line in LINES:
        ids = embedding.to_ids(line)
        with torch.no_grad():
            expected = module(ids).numpy()
            from_script = script(ids).numpy()
        np.testing.assert_array_equal(session.run(None, {"ids": ids.numpy()})[0], expected)
        np.testing.assert_array_equal(from_script, expected)


def test_a_learned_context_has_an_end_and_a_dynamic_one_has_none() -> None:
    long = torch.zeros(1, 600, dtype=torch.int64)
    with pytest.raises(ValueError, match="length 600 is beyond the 512 positions"):
        embedding.learned()(long)
    assert embedding.sinusoidal()(long).shape == (1, 600, 64)
    with pytest.raises(ValueError, match="length 600 is beyond the 512 positions"):
        embedding.sinusoidal(mode="baked")(long)


@pytest.mark.exhaustive
def test_the_whole_encoder_at_its_full_size() -> None:
    torch.manual_seed(0)
    module = encoder.TextEncoder().eval()
    ids = torch.randint(0, 10000, (32, 50))
    with torch.no_grad():
        free = module(ids)
        causal = module(ids, torch.nn.Transformer.generate_square_subsequent_mask(50))
        shorter = module(ids[:, :20], torch.nn.Transformer.generate_square_subsequent_mask(20))
    assert free.shape == causal.shape == (32, 50, 512)
    assert not torch.allclose(free, causal, atol=1e-3)
    torch.testing.assert_close(causal[:, :20], shorter, atol=1e-4, rtol=1e-4)  # a causal prefix knows no future
    with pytest.raises(ValueError, match="length 513 is beyond the 512 positions"):
        module(torch.zeros(1, 513, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"d_model \(10\) must be divisible by heads \(3\)"):
        encoder.TextEncoder(d_model=10, heads=3)


@pytest.mark.exhaustive
def test_the_encoder_exports(cli: Cli) -> None:
    sizes = [part for p in ("vocabulary=100", "d_model=32", "heads=4", "layers=1") for part in ("-p", p)]
    result = cli(
        "export",
        "posenc_models.networks.encoder:TextEncoder",
        *sizes,
        "-i",
        "ids: int64[batch, seq] < 100",
        "--max-len",
        "64",
    )
    assert result.exit_code == 0, result.output
    assert Path("TextEncoder-dynamic/model.onnx").is_file()


def test_a_causal_language_model_keeps_its_logits(tmp_path: Path) -> None:
    from transformers import LlamaForCausalLM

    from posenc_models.networks.causal_lm import CausalLM

    ours = CausalLM(vocabulary=50, layers=1)
    assert list(ours.replaced.values()) == ["LlamaRotaryEmbedding (default)"]
    ours.model.save_pretrained(tmp_path)
    ids, positions = torch.randint(0, 50, (2, 9)), torch.arange(9)[None].expand(2, -1)
    theirs = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    expected = theirs(input_ids=ids, use_cache=False).logits
    for module in (ours, CausalLM(model=str(tmp_path))):
        torch.testing.assert_close(module(ids, positions), expected, atol=1e-5, rtol=0)


REQUIRED = {"clipped_relative": '{"left": 4, "right": 4}'}
"""Parameters without a default, by scheme."""


@pytest.mark.parametrize("scheme", TOKEN_SCHEMES)
def test_a_decoder_reads_in_steps_what_it_reads_at_once(scheme: str) -> None:
    torch.manual_seed(0)
    decoder = Decoder(encoding=scheme, encoding_parameters=REQUIRED.get(scheme, "{}")).eval()
    ids, mask = torch.randint(0, 256, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    positions, empty = torch.arange(9).expand(2, 9), [torch.zeros(2, 2, 0, 16)] * 4

    def padded(tensor: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros(2, 3, dtype=torch.int64), tensor], 1)

    with torch.no_grad():
        whole, *_ = decoder(ids, mask, positions, *empty)
        _, *cache = decoder(ids[:, :5], mask[:, :5], positions[:, :5], *empty)
        rest, *_ = decoder(ids[:, 5:], mask, positions[:, 5:], *cache)
        behind, *_ = decoder(padded(ids), padded(mask), padded(positions), *empty)
        moved, *_ = decoder(ids.flip(1), mask, positions, *empty)
    torch.testing.assert_close(rest, whole[:, 5:], rtol=0, atol=2e-6)
    torch.testing.assert_close(behind[:, 3:], whole, rtol=0, atol=2e-6)
    assert (moved.flip(1) - whole).abs().max() > 0.01, "tokens in another order are another text"


@pytest.mark.parametrize("scheme", TOKEN_SCHEMES)
def test_an_encoder_reads_no_padding(scheme: str) -> None:
    torch.manual_seed(0)
    network = encoder.Encoder(encoding=scheme, encoding_parameters=REQUIRED.get(scheme, "{}")).eval()
    ids = torch.randint(0, 256, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[:, 6:] = 0
    with torch.no_grad():
        torch.testing.assert_close(network(ids, mask)[:, :6], network(ids[:, :6], mask[:, :6]), rtol=0, atol=2e-6)
        assert (network(ids, torch.ones_like(mask)) - network(ids, mask)).abs().max() > 0.01


@pytest.mark.parametrize("scheme", ["rope_2d", "attention_temperature", "timestep"])
def test_a_scheme_of_other_places_is_refused_in_a_line(scheme: str) -> None:
    with pytest.raises(ValueError, match=f"^{scheme} is no scheme of tokens in a row: give one of sinusoidal, learned"):
        Decoder(encoding=scheme)


@pytest.mark.exhaustive
@pytest.mark.parametrize("network", ["decoder:Decoder", "encoder:Encoder"])
def test_networks_are_exported_without_a_word_about_their_inputs(cli: Cli, network: str) -> None:
    words = ("-p", "encoding=t5_bias", "--max-len", "24", "-f", "onnx", "--runtime", "ort-cpu")
    result = cli("export", f"posenc_models.networks.{network}", *words)
    assert result.exit_code == 0, result.output
    assert "passed: agrees on 1 runtime" in result.output
