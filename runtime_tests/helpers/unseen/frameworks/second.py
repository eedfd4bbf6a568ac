"""Networks that do not run on PyTorch: KerasHub's by tf2onnx, and those that jax2onnx ships, by jax2onnx.

python -m helpers.unseen.frameworks.second FOLDER   with runtime_tests on PYTHONPATH, in an environment without PyTorch
"""

from __future__ import annotations

from importlib import import_module
from math import log
from typing import Any

import numpy as np

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.frameworks.making import (
    BATCH,
    ENDS,
    ROTARY,
    TEXT,
    Feeds,
    Foreign,
    example,
    hub,
    ids,
    images,
    jax,
    main,
    padded,
    with_segments,
)


def both(length: int) -> Feeds:
    """Return ids of an encoder and of a decoder."""
    sides = {"encoder": padded(length), "decoder": padded(length + 2)}
    return {f"{side}_{name}": value for side, feeds in sides.items() for name, value in feeds.items()}


PICTURE = {"image_shape": (32, 32, 3), "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 32}
KERAS: tuple[Foreign, ...] = (
    hub("bert", "Bert", with_segments, (learned(ROWS),), **ENDS),
    hub("roberta", "Roberta", padded, (learned(ROWS),), **ENDS),
    hub("distil_bert", "DistilBert", padded, (learned(ROWS),), **ENDS),
    hub("gpt2", "GPT2", padded, (learned(ROWS),), **ENDS),
    hub("opt", "OPT", padded, (learned(ROWS),), **ENDS),
    hub(
        "f_net",
        "FNet",
        lambda n: {k: v for k, v in with_segments(n).items() if k != "padding_mask"},
        (learned(ROWS),),
        **{k: v for k, v in ENDS.items() if k != "num_heads"},
    ),
    hub("bart", "Bart", both, (learned(ROWS, part="encoder"), learned(ROWS, part="decoder")), **ENDS),
    hub(
        "deberta_v3",
        "DebertaV3",
        padded,
        (Held("relative", "deberta", {"position_buckets": 16, "max_relative_positions": ROWS, "rows": 32}, BOTH),),
        **ENDS,
        bucket_size=16,
    ),
    hub(
        "t5",
        "T5",
        both,
        (
            Held(
                "t5",
                "buckets",
                {"heads": 2, "num_buckets": 32, "max_distance": 128, "bidirectional": True},
                BOTH,
                "encoder",
            ),
            Held(
                "t5",
                "buckets",
                {"heads": 2, "num_buckets": 32, "max_distance": 128, "bidirectional": False},
                BOTH,
                "decoder",
            ),
        ),
        **TEXT,
    ),
    hub("bloom", "Bloom", padded, (Held("alibi", "last_key", {"heads": 2, "bias_max": 8.0}, BOTH),), **TEXT),
    hub(
        "falcon",
        "Falcon",
        padded,
        (Held("alibi", "key", {"heads": 2, "bias_max": 8.0}, BOTH),),
        **{k: v for k, v in TEXT.items() if k != "num_heads"},
        num_attention_heads=2,
    ),
    hub("llama", "Llama", padded, (rotary(),), **ROTARY),
    hub(
        "llama3",
        "Llama3",
        padded,
        (
            rotary(
                "llama3",
                theta=500000.0,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        **ROTARY,
        rope_max_wavelength=500000,
        rope_frequency_adjustment_factor=8.0,
        rope_low_freq_factor=1.0,
        rope_high_freq_factor=4.0,
        rope_pretraining_sequence_length=64,
    ),
    hub("mistral", "Mistral", padded, (rotary(),), **ROTARY),
    hub("gemma", "Gemma", padded, (rotary(),), **ROTARY, head_dim=32),
    hub("qwen3", "Qwen3", padded, (rotary(theta=1e6),), **ROTARY, head_dim=32, rope_max_wavelength=1000000),
    hub("gpt_neo_x", "GPTNeoX", padded, (rotary(rotary_dim=8),), **{**ENDS, "hidden_dim": 64}),
    hub("phi3", "Phi3", padded, (rotary(),), **ROTARY, max_sequence_length=ROWS, pretraining_sequence_length=ROWS),
    hub(
        "roformer_v2",
        "RoformerV2",
        lambda n: {k: v for k, v in with_segments(n).items() if k != "padding_mask"},
        (rotary(layout="interleaved"),),
        **{**TEXT, "hidden_dim": 64},
        head_size=32,
    ),
    hub("esm", "ESM", lambda n: {"token_ids": ids(n)}, (rotary(),), **{**TEXT, "hidden_dim": 64}),
    hub(
        "xlnet",
        "XLNet",
        with_segments,
        (Held("relative", "transformer_xl", {"d_model": 32, "base": 10000.0}, BOTH),),
        **TEXT,
    ),
    hub("vit", "ViT", images, (learned(17),), **{**PICTURE, "mlp_dim": 32, "patch_size": (8, 8)}),
    hub("deit", "DeiT", images, (learned(18),), **{**PICTURE, "intermediate_dim": 32}),
    hub(
        "swin",
        "SwinTransformer",
        images,
        (
            Held("window", "table", {"heads": 2, "window": [4, 4]}, BOTH),
            Held("window", "table", {"heads": 4, "window": [4, 4]}, (2,)),
        ),
        image_shape=(32, 32, 3),
        patch_size=4,
        embed_dim=16,
        depths=(2, 1),
        num_heads=(2, 4),
        window_size=4,
    ),
    hub(
        "resnet",
        "ResNet",
        images,
        (),
        input_conv_filters=[8],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[8, 16],
        stackwise_num_blocks=[1, 1],
        stackwise_num_strides=[1, 2],
        block_type="basic_block",
        image_shape=(32, 32, 3),
    ),
)


def gpt_oss() -> Any:
    """Return the GPT-OSS of jax2onnx's examples, in Equinox, tiny."""
    j = import_module("jax")
    config = example("eqx.gpt_oss:GPTOSSConfig")(
        num_hidden_layers=2,
        num_experts=2,
        experts_per_token=1,
        vocab_size=32,
        hidden_size=64,
        intermediate_size=32,
        swiglu_limit=7.0,
        head_dim=32,
        num_attention_heads=2,
        num_key_value_heads=1,
        sliding_window=16,
        initial_context_length=256,
        rope_theta=10000.0,
        rope_scaling_factor=8.0,
        rope_ntk_alpha=1.0,
        rope_ntk_beta=8.0,
    )
    return example("eqx.gpt_oss:Transformer")(config, key=j.random.PRNGKey(0), param_dtype=j.numpy.float32)


def flax_gpt() -> Any:
    """Return the GPT of jax2onnx's examples, in Flax."""
    nnx = import_module("flax.nnx")

    return example("nnx.gpt:GPT")(
        vocab_size=64, n_layer=2, n_head=2, n_embd=32, block_size=16, dropout=0.0, rngs=nnx.Rngs(0)
    )


def flax_vit() -> Any:
    """Return the vision transformer of jax2onnx's examples, in Flax."""
    nnx = import_module("flax.nnx")

    return example("nnx.vit:VisionTransformer")(
        height=32,
        width=32,
        num_hiddens=32,
        num_layers=2,
        num_heads=2,
        mlp_dim=32,
        num_classes=4,
        rngs=nnx.Rngs(0),
        embedding_type="patch",
        patch_size=8,
    )


def flax_cnn() -> Any:
    """Return the convolutions of jax2onnx's examples, in Flax."""
    nnx = import_module("flax.nnx")

    return example("nnx.cnn:CNN")(rngs=nnx.Rngs(0))


def dino() -> Any:
    """Return the DINOv3 of jax2onnx's examples, in Equinox."""
    j = import_module("jax")

    return example("eqx.dino:VisionTransformer")(
        img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=2, key=j.random.PRNGKey(0)
    )


SINES = Held(
    "sinusoidal",
    "interleaved",
    {"d_model": 32, "base": 10000.0, "layout": "interleaved", "spacing": "paper", "rows": 17},
)
YARN: dict[str, Any] = {
    "rows": 11,
    "factor": 8.0,
    "original_max_position_embeddings": 256,
    "beta_fast": 8.0,
    "truncate": False,
}
JAX: tuple[Foreign, ...] = (
    Foreign(
        "jax2onnx.eqx.gpt_oss",
        jax(gpt_oss, [("B", 11)]),
        lambda _: {"in_0": ids(11)},
        (rotary("yarn", **YARN, attention_factor=0.1 * log(8) + 1),),
    ),
    Foreign("jax2onnx.nnx.gpt", jax(flax_gpt, [("B", 16)]), lambda _: {"in_0": ids(16)}, (learned(16),)),
    Foreign(
        "jax2onnx.nnx.vit",
        jax(flax_vit, [("B", 32, 32, 1)]),
        lambda n: {"in_0": images(n)["images"][..., :1]},
        (SINES,),
    ),
    Foreign(
        "jax2onnx.nnx.cnn",
        jax(flax_cnn, [("B", 28, 28, 1)]),
        lambda _: {"in_0": np.random.default_rng(4).normal(size=(BATCH, 28, 28, 1)).astype(np.float32)},
        (),
    ),
    Foreign(
        "jax2onnx.eqx.dino",
        jax(dino, [("B", 3, 32, 32)]),
        lambda n: {"in_0": images(n)["images"].transpose(0, 3, 1, 2)},
        (Held("rotary", "dinov3", {"head_dim": 32, "rope_theta": 100.0, "layout": "halves"}, BOTH),),
    ),
)
FOREIGN = (*KERAS, *JAX)


if __name__ == "__main__":
    main(FOREIGN, "helpers.unseen.frameworks.second")
