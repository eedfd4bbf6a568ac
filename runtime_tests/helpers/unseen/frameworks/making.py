"""How the files of frameworks that do not run on PyTorch are made, and held against what the framework gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from helpers.foreign.models import ROWS
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
