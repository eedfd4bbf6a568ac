"""Encoders of speech: samples or features, and a mask where a model takes one."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import SpeechT5Config, WhisperConfig
from transformers.models.speecht5.modeling_speecht5 import SpeechT5EncoderWithoutPrenet
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from whole import Whole, built, drawn

SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
    "vocab_size": 50,
}
FRAMES = {"conv_dim": [8, 8], "conv_kernel": [3, 3], "conv_stride": [2, 2], "num_feat_extract_layers": 2}
WAVES = {**SIZES, **FRAMES, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
WHISPER = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 48, "num_mel_bins": 8}
SPEECHT5 = {
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "encoder_max_relative_position": 8,
}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "wav2vec2": WAVES,
    "hubert": WAVES,
    "wav2vec2-conformer": {**WAVES, "position_embeddings_type": "relative", "conv_depthwise_kernel_size": 7},
    "wav2vec2-conformer-rotary": {**WAVES, "position_embeddings_type": "rotary", "conv_depthwise_kernel_size": 7},
    "wavlm": {**WAVES, "num_buckets": 16, "max_bucket_distance": 32},
    "sew": {**WAVES, "squeeze_factor": 2},
    "unispeech-sat": WAVES,
    "wav2vec2-bert": {**SIZES, "feature_projection_input_dim": 16, "conv_depthwise_kernel_size": 7},
    "whisper": {**WHISPER, "max_source_positions": 32, "init_std": 0.2, "vocab_size": 50},
    "speecht5": {**SIZES, **SPEECHT5},
    "audio-spectrogram-transformer": {**SIZES, "num_mel_bins": 16, "max_length": 32, "patch_size": 8},
}


class Samples(nn.Module):
    """Samples to hidden states of frames."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = built(model.removesuffix("-rotary"), CONFIGS[model])

    def forward(self, samples: Tensor) -> Tensor:
        hidden: Tensor = self.model(samples).last_hidden_state
        return hidden


class Masked(nn.Module):
    """Features and a mask of frames to hidden states."""

    def __init__(self, model: str) -> None:
        super().__init__()
        if model == "speecht5":
            self.model: nn.Module = drawn(SpeechT5EncoderWithoutPrenet(SpeechT5Config(**CONFIGS[model])))
        else:
            self.model = built(model, CONFIGS[model])

    def forward(self, features: Tensor, attention_mask: Tensor) -> Tensor:
        hidden: Tensor = self.model(features, attention_mask=attention_mask).last_hidden_state
        return hidden


class Mel(Samples):
    """A spectrogram of one size to hidden states."""

    def __init__(self, model: str) -> None:
        nn.Module.__init__(self)
        if model == "whisper":
            self.model = drawn(WhisperEncoder(WhisperConfig(**CONFIGS[model])))
        else:
            self.model = built(model, CONFIGS[model])


def row(name: str, model: str, *inputs: str, kind: str = "Samples") -> Whole:
    return Whole(name, f"whole.speech:{kind}", model, inputs or ("samples: float32[batch, T >= 16]",))


ROWS = (
    row("Wav2Vec2", "wav2vec2"),
    row("HuBERT", "hubert"),
    row("Wav2Vec2-Conformer, relative", "wav2vec2-conformer"),
    row("Wav2Vec2-Conformer, rotary", "wav2vec2-conformer-rotary"),
    row("WavLM", "wavlm"),
    row("SEW, an odd number of frames", "sew", "samples: float32[batch, T % 8 >= 24]"),
    row("UniSpeech-SAT", "unispeech-sat"),
    row(
        "Wav2Vec2-BERT",
        "wav2vec2-bert",
        "features: float32[batch, seq, 16]",
        "attention_mask: int64[batch, seq]",
        kind="Masked",
    ),
    row(
        "SpeechT5 encoder",
        "speecht5",
        "features: float32[batch, seq, 32]",
        "attention_mask: int64[batch, seq]",
        kind="Masked",
    ),
    row("Whisper encoder", "whisper", "mel: float32[batch, 8, 64]", kind="Mel"),
    row("AST", "audio-spectrogram-transformer", "mel: float32[batch, 32, 16]", kind="Mel"),
)
