"""Networks that do not run on PyTorch: KerasHub's by tf2onnx, and those that jax2onnx ships, by jax2onnx.

python -m helpers.unseen.other_frameworks FOLDER   with runtime_tests on PYTHONPATH, in an environment without PyTorch
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held

Array = np.ndarray[Any, np.dtype[Any]]
BATCH, LENGTHS, SECONDS = 2, (11, 7, 19), 120
Feeds = Mapping[str, Array]


@dataclass(frozen=True)
class Foreign:
    """A network of another framework.

    Args:
        name: framework and class, for the name of its file.
        write: writes the file, and returns what calls the network.
        feeds: what goes in at a length, by the names of the file's inputs.
        held: the encodings, as its code has them.
    """

    name: str
    write: Callable[[Path], Callable[[Feeds], Array]]
    feeds: Callable[[int], Feeds]
    held: tuple[Held, ...]


def ids(length: int) -> Array:
    """Return ids above those with a meaning."""
    return np.random.default_rng(3).integers(4, 32, (BATCH, 400))[:, :length].astype(np.int32)


def images(_: int) -> Feeds:
    """Return images of 32 by 32."""
    return {"images": np.random.default_rng(4).normal(size=(BATCH, 32, 32, 3)).astype(np.float32)}


def padded(length: int) -> Feeds:
    """Return ids and a mask that leaves nothing out."""
    return {"token_ids": ids(length), "padding_mask": np.ones((BATCH, length), np.int32)}


def with_segments(length: int) -> Feeds:
    """Return ids, a mask and segments."""
    return {**padded(length), "segment_ids": np.zeros((BATCH, length), np.int32)}


def both(length: int) -> Feeds:
    """Return ids of an encoder and of a decoder."""
    sides = {"encoder": padded(length), "decoder": padded(length + 2)}
    return {f"{side}_{name}": value for side, feeds in sides.items() for name, value in feeds.items()}


def keras(name: str, feeds: Callable[[int], Feeds], **config: object) -> Callable[[Path], Callable[[Feeds], Array]]:
    """Return what exports a backbone of KerasHub."""

    def write(path: Path) -> Callable[[Feeds], Array]:
        library, hub = import_module("keras"), import_module("keras_hub")
        library.utils.set_random_seed(0)
        model = getattr(hub.models, f"{name}Backbone")(**config)
        rng = np.random.default_rng(1)
        model.set_weights([w if w.any() else rng.normal(size=w.shape, scale=0.2) for w in model.get_weights()])
        model(called(feeds(LENGTHS[0])))  # a model that was never called does not export
        model.export(str(path), format="onnx", verbose=False)
        return lambda feeds: np.asarray(first(model(called(feeds))))

    return write


def called(feeds: Feeds) -> Any:
    """Return inputs as a model of Keras takes them."""
    return dict(feeds) if len(feeds) > 1 else next(iter(feeds.values()))


def first(out: Any) -> Any:
    """Return the first output."""
    return next(iter(out.values())) if isinstance(out, dict) else out


def hub(name: str, of: str, feeds: Callable[[int], Feeds], held: tuple[Held, ...], **config: object) -> Foreign:
    """Return a backbone of KerasHub."""
    return Foreign(f"keras_hub.{name}", keras(of, feeds, **config), feeds, held)


def jax(make: Callable[[], Any], shapes: list[Any], opset: int = 21) -> Callable[[Path], Callable[[Feeds], Array]]:
    """Return what exports a function by jax2onnx."""

    def write(path: Path) -> Callable[[Feeds], Array]:
        function = make()
        import_module("jax2onnx").to_onnx(
            function, inputs=shapes, opset=opset, return_mode="file", output_path=str(path)
        )
        return lambda feeds: np.asarray(function(*feeds.values()))

    return write


def example(path: str) -> Any:
    """Return a class of jax2onnx's examples."""
    module, name = path.split(":")
    return getattr(import_module(f"jax2onnx.plugins.examples.{module}"), name)


TEXT: dict[str, Any] = {
    "vocabulary_size": 64,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 32,
    "intermediate_dim": 32,
}
ENDS = {**TEXT, "max_sequence_length": ROWS}
ROTARY = {k: v for k, v in TEXT.items() if k != "num_heads"} | {
    "num_query_heads": 2,
    "num_key_value_heads": 1,
    "hidden_dim": 64,
}
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


def how_far(call: Callable[[Feeds], Array], path: Path, feeds: Feeds) -> float | str:
    """Return the largest difference from the network, as a share of the largest number; or why none."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        by_place = dict(zip(names, feeds.values(), strict=False)) if len(feeds) == 1 else feeds
        kinds = {value.name: np.int64 if "int64" in value.type else None for value in session.get_inputs()}
        given = {name: by_place[name].astype(kinds[name] or by_place[name].dtype) for name in names}
        wanted = call(feeds)
        outputs = session.run(None, given)  # of several, in an order of the exporter's
        got = next((output for output in outputs if output.shape == wanted.shape), None)
        if got is None:
            return f"shapes {[output.shape for output in outputs]}, expected {wanted.shape}"
        return float(np.abs(got - wanted).max() / np.abs(wanted).max())
    except Exception as error:
        return str(error).splitlines()[0][:200]


def export(network: Foreign, path: Path) -> None:
    """Write the file of a network, and beside it how far ONNX Runtime is from it at three lengths."""
    call = network.write(path)
    right = [how_far(call, path, network.feeds(length)) for length in LENGTHS]
    path.with_suffix(".json").write_text(json.dumps({"right": right}), encoding="utf-8")


def make(folder: Path, networks: Sequence[Foreign], module: str) -> None:
    """Make the files of a module that are not there yet, each in a process of its own."""
    for network in networks:
        path = folder / f"{network.name}.onnx"
        if path.exists() or path.with_suffix(".failed").exists():
            continue
        words = [sys.executable, "-m", module, str(folder), network.name]
        try:
            done = subprocess.run(words, timeout=SECONDS, check=False, capture_output=True, text=True)
            why = "" if done.returncode == 0 else done.stderr[-600:]
        except subprocess.TimeoutExpired:
            why = f"no file within {SECONDS} s"
        if why:
            path.unlink(missing_ok=True)
            path.with_suffix(".failed").write_text(why, encoding="utf-8")
        print(network.name, "failed" if why else "made", flush=True)


def main(networks: Sequence[Foreign], module: str) -> None:
    """Make the files of a module in a folder, or the one that is named behind it."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    place = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        export(next(network for network in networks if network.name == sys.argv[2]), place / f"{sys.argv[2]}.onnx")
    else:
        make(place, networks, module)


if __name__ == "__main__":
    main(FOREIGN, "helpers.unseen.other_frameworks")
