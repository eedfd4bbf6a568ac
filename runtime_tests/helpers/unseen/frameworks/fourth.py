"""Networks that do not run on PyTorch, of the fourth sample: KerasHub's by tf2onnx, and Equinox's, Flax's and JAX's.

python -m helpers.unseen.frameworks.fourth FOLDER   with runtime_tests on PYTHONPATH, in an environment without PyTorch
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.frameworks.making import (
    BATCH,
    ENDS,
    LENGTHS,
    ROTARY,
    Array,
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

EXPERTS: dict[str, Any] = {"num_experts": 2, "top_k": 1}


def by_layers(placed: Callable[[Any, Any], Any]) -> Callable[[Path], Callable[[Feeds], Array]]:
    """Return what exports two encoders of KerasHub's layers behind words that have their places, as keras.io has it."""

    def write(path: Path) -> Callable[[Feeds], Array]:
        library, layers = import_module("keras"), import_module("keras_hub").layers
        library.utils.set_random_seed(0)
        words = library.Input((None,), dtype="int32", name="token_ids")
        x = placed(layers, words)
        for _ in range(2):
            x = layers.TransformerEncoder(intermediate_dim=32, num_heads=2)(x)
        model = library.Model(words, x)
        model(ids(LENGTHS[0]))
        model.export(str(path), format="onnx", verbose=False)
        return lambda feeds: np.asarray(model(feeds["token_ids"]))

    return write


def with_sines(layers: Any, words: Any) -> Any:
    """Return words and sines."""
    x = import_module("keras").layers.Embedding(64, 32)(words)
    return x + layers.SinePositionEncoding()(x)


def with_rows(layers: Any, words: Any) -> Any:
    """Return words and rows."""
    return layers.TokenAndPositionEmbedding(64, ROWS, 32)(words)


def alone(length: int) -> Feeds:
    """Return ids alone."""
    return {"token_ids": ids(length)}


LAYERS: tuple[Foreign, ...] = (
    Foreign(
        "keras_layers.sines",
        by_layers(with_sines),
        alone,
        (
            Held(
                "sinusoidal",
                "interleaved",
                {"d_model": 32, "base": 10000.0, "layout": "interleaved", "spacing": "paper"},
            ),
        ),
    ),
    Foreign("keras_layers.rows", by_layers(with_rows), alone, (learned(ROWS),)),
)
KERAS: tuple[Foreign, ...] = (
    hub("albert", "Albert", with_segments, (learned(ROWS),), **ENDS, embedding_dim=32),
    hub(
        "electra",
        "Electra",
        with_segments,
        (learned(ROWS),),
        **{k: v for k, v in ENDS.items() if k != "vocabulary_size"},
        vocab_size=64,
        embedding_dim=32,
    ),
    hub("mixtral", "Mixtral", padded, (rotary(theta=1e6),), **ROTARY, **EXPERTS, rope_max_wavelength=1000000),
    hub("qwen", "Qwen", padded, (rotary(theta=1e6),), **ROTARY, rope_max_wavelength=1000000),
    hub(
        "smollm3",
        "SmolLM3",
        padded,
        (rotary(theta=2e6, layers=(0,)),),
        vocabulary_size=64,
        hidden_dim=64,
        intermediate_dim=64,
        num_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        attention_bias=False,
        attention_dropout=0.0,
        rope_layer_enabled_list=[True, False],
        layer_types=["full_attention"] * 2,
        mlp_bias=False,
        layer_norm_epsilon=1e-6,
        max_position_embeddings=ROWS,
        rope_theta=2e6,
        partial_rotary_factor=1.0,
    ),
    hub(
        "gpt_oss",
        "GptOss",
        padded,
        (
            rotary(
                "yarn",
                theta=150000.0,
                factor=8.0,
                original_max_position_embeddings=4096,
                truncate=False,
                attention_factor=0.1 * log(8) + 1,
            ),
        ),
        **ROTARY,
        **EXPERTS,
        head_dim=32,
        rope_max_wavelength=150000,
        rope_scaling_factor=8.0,
        sliding_window=16,
    ),
    hub(
        "mit",
        "MiT",
        images,
        (),
        layerwise_depths=[1, 1],
        num_layers=2,
        layerwise_num_heads=[1, 2],
        layerwise_sr_ratios=[2, 1],
        max_drop_path_rate=0.0,
        layerwise_patch_sizes=[7, 3],
        layerwise_strides=[4, 2],
        image_shape=(32, 32, 3),
        hidden_dims=[16, 32],
    ),
)


def drawn(seed: int, *shape: int) -> Any:
    """Return weights."""
    return import_module("jax").numpy.asarray(
        np.random.default_rng(seed).normal(size=shape, scale=0.3).astype(np.float32)
    )


def attention(turn: Callable[[Any], Any], bias: Callable[[int], Any], add: Callable[[int], Any]) -> Callable[[], Any]:
    """Return what makes two layers of attention in JAX: queries and keys turned, scores biased, rows added before."""

    def make() -> Any:
        j = import_module("jax")
        np_, heads, size = j.numpy, 2, 32
        weights = [[drawn(10 * layer + part, 64, 64) for part in range(4)] for layer in range(2)]

        def network(x: Any) -> Any:
            length = x.shape[1]
            x = x + add(length)
            for wq, wk, wv, wo in weights:
                q, k, v = ((x @ w).reshape(*x.shape[:2], heads, size).transpose(0, 2, 1, 3) for w in (wq, wk, wv))
                scores = turn(q) @ turn(k).transpose(0, 1, 3, 2) / np_.sqrt(np_.float32(size)) + bias(length)
                out = (j.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
                x = x + out @ wo
            return x

        return network

    return make


def same(x: Any) -> Any:
    """Return it as it is."""
    return x


def nothing(_: int) -> Any:
    """Return what adds nothing."""
    return 0.0


def by_equinox(x: Any) -> Any:
    """Turn (batch, heads, tokens, features) by Equinox's own layer, a head at a time."""
    j, nn = import_module("jax"), import_module("equinox").nn
    return j.vmap(j.vmap(nn.RotaryPositionalEmbedding(32)))(x)


def by_distance(length: int) -> Any:
    """Return ALiBi of two heads, of both directions."""
    np_ = import_module("jax").numpy
    places = np_.arange(length, dtype=np_.float32)
    return (
        -np_.abs(places[None, :] - places[:, None])[None] * np_.asarray([2.0**-4, 2.0**-8], np_.float32)[:, None, None]
    )


def sines(length: int) -> Any:
    """Return rows of sines as Flax's example of translation has them: sines, then cosines."""
    np_ = import_module("jax").numpy
    steps = np_.exp(np_.arange(32, dtype=np_.float32) * np_.float32(-log(10000.0) / 31))
    angles = np_.arange(length, dtype=np_.float32)[:, None] * steps[None]
    return np_.concatenate([np_.sin(angles), np_.cos(angles)], -1)


def in_buckets(length: int) -> Any:
    """Return T5's bias of two heads as Flax's T5 makes it, of both directions."""
    np_ = import_module("jax").numpy
    relative = np_.arange(length)[None, :] - np_.arange(length)[:, None]
    far = np_.abs(relative)
    large = 8 + (np_.log(np_.maximum(far, 1).astype(np_.float32) / 8) / log(128 / 8) * 8).astype(np_.int32)
    bucket = np_.where(relative > 0, 16, 0) + np_.where(far < 8, far, np_.minimum(large, 15))
    return drawn(77, 32, 2)[bucket].transpose(2, 0, 1)


def dino() -> Any:
    """Return the DINOv3 of jax2onnx's examples, in Flax."""
    nnx = import_module("flax.nnx")
    return example("nnx.dinov3:VisionTransformer")(
        img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=2, rngs=nnx.Rngs(0)
    )


def words(length: int) -> Feeds:
    """Return vectors of tokens."""
    return {"in_0": np.random.default_rng(6).normal(size=(BATCH, length, 64)).astype(np.float32)}


FIXED, LONG = [("B", 24, 64)], [("B", 160, 64)]
JAX: tuple[Foreign, ...] = (
    Foreign("jax.equinox_rope", jax(attention(by_equinox, nothing, nothing), FIXED), lambda _: words(24), (rotary(),)),
    Foreign(
        "jax.alibi",
        jax(attention(same, by_distance, nothing), FIXED),
        lambda _: words(24),
        (Held("alibi", "distance", {"heads": 2, "bias_max": 8.0}, BOTH),),
    ),
    Foreign(
        "jax.sines",
        jax(attention(same, nothing, sines), FIXED, opset=18),
        lambda _: words(24),
        (Held("sinusoidal", "halves", {"d_model": 64, "base": 10000.0, "layout": "halves", "spacing": "half"}),),
    ),
    Foreign(
        "jax.buckets",
        jax(attention(same, in_buckets, nothing), LONG, opset=23),
        lambda _: words(160),
        (Held("t5", "buckets", {"heads": 2, "num_buckets": 32, "max_distance": 128, "bidirectional": True}, BOTH),),
    ),
    Foreign(
        "jax2onnx.nnx.dinov3",
        jax(dino, [("B", 3, 32, 32)]),
        lambda n: {"in_0": images(n)["images"].transpose(0, 3, 1, 2)},
        (Held("rotary", "dinov3", {"head_dim": 32, "rope_theta": 100.0, "layout": "halves"}, BOTH),),
    ),
)
FOREIGN = (*LAYERS, *KERAS, *JAX)

if __name__ == "__main__":
    main(FOREIGN, "helpers.unseen.frameworks.fourth")
