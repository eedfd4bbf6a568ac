"""Tiny models of transformers and diffusers with random weights, as ONNX files by PyTorch's older exporter."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

TOKENS = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"}}
BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SEQ2SEQ = {"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
AUDIO = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2}


@dataclass(frozen=True)
class Example:
    """A model with inputs, and the names of their dynamic axes by the name of an input."""

    model: nn.Module
    inputs: tuple[Tensor, ...]
    axes: dict[str, dict[int, str]]


class First(nn.Module):
    """A model that is called by keywords, and gives its first output alone."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: Tensor) -> Tensor:
        """Return the first output."""
        output: Tensor = self.model(**dict(zip(self.names, values, strict=True)))[0]
        return output


def write(kind: str, path: Path) -> Path:
    """Write the ONNX file of a kind of model, of `MAKERS`."""
    torch.manual_seed(0)
    example = MAKERS[kind]()
    module = First(example.model.eval(), names := tuple(example.axes))
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            example.inputs,
            path,
            input_names=list(names),
            output_names=["output"],
            dynamic_axes=example.axes,
            dynamo=False,
            opset_version=17,
        )
    return path


def _made(name: str, model: str = "", /, **config: object) -> nn.Module:
    """Return a model of transformers, by the name of its class without "Model" or "Config"."""
    import transformers

    settings = getattr(transformers, f"{name}Config")(attn_implementation="eager", **config)
    made: nn.Module = getattr(transformers, model or f"{name}Model")(settings)
    return made


def _text(model: nn.Module) -> Example:
    """Return a model of text with its inputs."""
    vars(model)["config"].use_cache = False
    return Example(model, (torch.randint(5, 90, (2, 12)), torch.ones(2, 12, dtype=torch.long)), TOKENS)


def _pixels(name: str, side: int, /, **config: object) -> Example:
    """Return a model of images."""
    model = _made(name, image_size=side, **config)
    for parameter_name, parameter in model.named_parameters():
        # a trained table of a bias has numbers, an initial one zeros
        if "bias_table" in parameter_name:
            nn.init.normal_(parameter)
    return Example(model, (torch.randn(2, 3, side, side),), {"pixel_values": {0: "batch"}})


def _audio(name: str, /, **config: object) -> Example:
    """Return a model of waves."""
    model = _made(name, **WORDS, **BERT, **AUDIO, **config)
    return Example(model, (torch.randn(2, 1000),), {"input_values": {0: "batch", 1: "sequence"}})


def _unet() -> Example:
    """Return a network of diffusion, which embeds its steps."""
    from diffusers import UNet2DModel

    model: nn.Module = cast(Callable[..., nn.Module], UNet2DModel)(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(32, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    inputs = (torch.randn(2, 1, 8, 8), torch.tensor([3.0, 700.0]))
    return Example(model, inputs, {"sample": {0: "batch"}, "timestep": {0: "batch"}})


class WithoutPositions(nn.Module):
    """Characters, a recurrent network, a norm, a convolution, a window and a mask: no encoding of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.recurrent = nn.Embedding(99, 16), nn.LSTM(16, 16, batch_first=True)
        self.norm, self.convolution = nn.LayerNorm(16), nn.Conv1d(16, 8, 3, padding=1)
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        """Return the mean of the tokens that the mask keeps."""
        x = self.norm(self.recurrent(self.characters(input_ids))[0])
        mask = attention_mask[:, None].float()
        return ((self.convolution(x.transpose(1, 2)) * mask).sum(-1) / mask.sum(-1) * self.window,)


def _without() -> Example:
    inputs = (torch.randint(5, 90, (2, 12)), torch.ones(2, 12, dtype=torch.long))
    return Example(WithoutPositions(), inputs, TOKENS)


def _detr() -> Example:
    """Return a detector of objects."""
    import transformers

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8, 8, 16], "depths": [1] * 4, "out_features": ["stage4"]}
    backbone = cast(Callable[..., object], transformers.ResNetConfig)(**sizes)
    without = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    widths = {"d_model": 32, "num_queries": 10, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    inputs = torch.randn(1, 3, 160, 224), torch.ones(1, 160, 224, dtype=torch.long)
    axes = {"pixel_values": {2: "height", 3: "width"}, "pixel_mask": {1: "height", 2: "width"}}
    return Example(_made("Detr", backbone_config=backbone, **without, **widths, **SEQ2SEQ), inputs, axes)


def _w2v_bert() -> Example:
    """Return an encoder of filter banks."""
    kind = {"feature_projection_input_dim": 16, "position_embeddings_type": "relative_key"}
    axes = {"input_features": {0: "batch", 1: "sequence"}}
    return Example(_made("Wav2Vec2Bert", **kind, **BERT), (torch.randn(2, 40, 16),), axes)


WORDS = {"vocab_size": 99}


def _vits() -> Example:
    """Return the encoder of text of a synthesizer of speech."""
    model = _made(
        "Vits",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=32,
        flow_size=32,
        spectrogram_bins=16,
    )
    inputs = (torch.randint(5, 30, (2, 12)), torch.ones(2, 12, 1))
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "padding_mask": {0: "batch", 1: "sequence"}}
    return Example(model.get_submodule("text_encoder"), inputs, axes)


def _dit() -> Example:
    """Return a transformer of diffusion, with places of patches and steps."""
    from diffusers import DiTTransformer2DModel

    model = cast(Callable[..., nn.Module], DiTTransformer2DModel)(
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=2,
        out_channels=2,
        num_layers=1,
        sample_size=8,
        patch_size=2,
        norm_num_groups=2,
        num_embeds_ada_norm=10,
    )
    inputs = (torch.randn(2, 2, 8, 8), torch.tensor([3, 700]), torch.tensor([1, 2]))
    return Example(model, inputs, {name: {0: "batch"} for name in ("hidden_states", "timestep", "class_labels")})


VISION = {key: value for key, value in BERT.items() if key != "intermediate_size"}
MAKERS: dict[str, Callable[[], Example]] = {
    "bert": lambda: _text(_made("Bert", **WORDS, **BERT, max_position_embeddings=64)),
    "roberta": lambda: _text(_made("Roberta", **WORDS, **BERT, max_position_embeddings=66, pad_token_id=1)),
    "opt": lambda: _text(
        _made(
            "OPT",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
            max_position_embeddings=64,
            word_embed_proj_dim=32,
            **WORDS,
        )
    ),
    "distilbert": lambda: _text(
        _made(
            "DistilBert",
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=64,
            sinusoidal_pos_embds=True,
            **WORDS,
        )
    ),
    "m2m_100": lambda: _text(
        _made(
            "M2M100",
            d_model=32,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            max_position_embeddings=64,
            **WORDS,
            **SEQ2SEQ,
        ).get_submodule("encoder")
    ),
    "t5": lambda: _text(_made("T5", "T5EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, **WORDS)),
    "mpnet": lambda: _text(_made("MPNet", **WORDS, **BERT, max_position_embeddings=66)),
    "bloom": lambda: _text(_made("Bloom", hidden_size=32, n_layer=2, n_head=4, **WORDS)),
    "mpt": lambda: _text(_made("Mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=64, **WORDS)),
    "xlnet": lambda: _text(_made("XLNet", d_model=32, n_layer=2, n_head=4, d_inner=64, **WORDS)),
    "vit": lambda: _pixels("ViT", 32, **BERT, patch_size=8),
    "dinov2": lambda: _pixels("Dinov2", 32, **VISION, patch_size=8),
    "swin": lambda: _pixels("Swin", 64, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "swinv2": lambda: _pixels("Swinv2", 64, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "beit": lambda: _pixels("Beit", 32, **BERT, patch_size=8, use_relative_position_bias=True),
    "conformer": lambda: _audio("Wav2Vec2Conformer", position_embeddings_type="relative", max_source_positions=400),
    "wavlm": lambda: _audio("WavLM", num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2),
    "w2v_bert": _w2v_bert,
    "detr": _detr,
    "dinov3": lambda: _pixels("DINOv3ViT", 32, **BERT, patch_size=8),
    "vits": _vits,
    "dit": _dit,
    "unet": _unet,
    "without": _without,
}
