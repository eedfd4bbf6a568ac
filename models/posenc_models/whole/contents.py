"""What a model's folder holds: looked at once, before anything heavy is imported, and all that libraries are given.

A folder is a stranger's: its links may lead anywhere, a file of it may be a pipe or have terabytes, and its config may
claim a billion layers. So each file that is read or copied is named here, is a plain file of a bounded size, and lies
in the folder, or in the download cache that the folder belongs to. transformers gets a folder of its own with just
these files, and without what would load code that somebody else wrote.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posenc.strict_json import LARGEST
from posenc.weight_index import weight_map
from posenc_models.whole.companions import CONFIG, GENERATION, companion_names
from posenc_models.whole.files import (
    PICKLE,
    SAFETENSORS,
    StoredTensor,
    header_of,
    inner_folder,
    plain_file,
    read_object,
)
from posenc_models.whole.pipeline import STATIC, Pipeline, check_first, read_pipeline

COPIED = 2**28
"""Bytes of the largest file that is copied into a bundle: the tokenizer of Gemma 3 has 33 million."""
EXPERTS = ".experts"
HARMLESS_SIZE, HARMLESS_LAYERS = 2**20, 1000
"""What a config may claim whatever its weights hold: the module is counted before it is built, and this many can be."""
SIZES = re.compile(r"(^|_)(size|dim|heads|experts|channels|embd|inner|model|ff|ffn)$")
LAYERS = re.compile(r"(^|_)(layers?|depth|blocks)$")
FOREIGN_CODE = re.compile(
    r"auto_map|_*(attn|experts)_implementation.*|transformers_weights|fusion_config|use_kernels|kernel_config"
    r"|custom_pipelines|custom_generate"
)
"""Keys of configs that have transformers load code or weights from elsewhere."""
PROCESSOR = "preprocessor_config.json"
"""What says the size of images, where a config does not."""
ADAPTER = "adapter_config.json"
ROWS = ("embedding.weight", "embeddings")
"""What tables of static vectors are called: by sentence-transformers, and by model2vec."""
MAPPING = "mapping"
"""The row of each token, in a file of model2vec whose tokens share rows."""


@dataclass(frozen=True)
class Contents:
    """The files of a model's folder that are read or copied.

    Args:
        path: the folder of the model itself.
        config: what its config.json says.
        weights: the files of its weights, by their names in the folder.
        tensors: what these hold; nothing where they are pickled, and tell only when they are loaded.
        bytes: of all weights.
        companions: files that go with the model, by their paths in the folder.
        index: the file that says which of several files of weights holds what.
        pipeline: what modules.json of sentence-transformers names, and its files; None where there is none.
        adapter: whether an adapter lies beside the weights.
    """

    path: Path
    config: Mapping[str, Any]
    weights: Mapping[str, Path]
    tensors: Sequence[StoredTensor] = field(repr=False)
    bytes: int
    companions: Mapping[str, Path]
    index: str = ""
    pipeline: Pipeline | None = None
    adapter: bool = False

    @property
    def root(self) -> Path:
        """The folder that was given: the model itself may lie in a folder of it."""
        return self.pipeline.root if self.pipeline else self.path

    @property
    def parameters(self) -> int:
        """How many numbers the weights hold; pickled ones are taken to be in the dtype that the config says."""
        if self.tensors:
            return sum(tensor.size for tensor in self.tensors)
        said = str(self.config.get("dtype") or self.config.get("torch_dtype") or "float32")
        return self.bytes // (2 if said in ("float16", "bfloat16") else 4)

    @property
    def image_size(self) -> tuple[int, int] | None:
        """The height and the width to which the processor beside the model brings images; None where it says none.

        Raises ValueError, in one line, where its file holds no object.
        """
        file = self.companions.get(PROCESSOR)
        said = {} if file is None else read_object(file)
        size = said.get("crop_size") if said.get("do_center_crop") else said.get("size")
        if isinstance(size, int):
            return size, size
        sides = [size.get(side) for side in ("height", "width")] if isinstance(size, Mapping) else []
        whole = [side for side in sides if isinstance(side, int) and side > 0]
        return (whole[0], whole[1]) if len(whole) == 2 else None

    @property
    def largest_experts(self) -> int:
        """How many numbers the experts of a layer hold: they are one weight when the model is loaded."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            layer, experts, _ = tensor.name.partition(f"{EXPERTS}.")
            if experts or tensor.name.endswith(EXPERTS):
                sizes[layer] = sizes.get(layer, 0) + tensor.size
        return max(sizes.values(), default=0)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read or copied, by its real path."""
        of_pipeline = self.pipeline.files.values() if self.pipeline else ()
        return tuple(path.resolve() for path in (*self.weights.values(), *self.companions.values(), *of_pipeline))

    @contextmanager
    def private_folder(self) -> Iterator[Path]:
        """Yield a folder with nothing but the config, without keys that load foreign code, and the weights."""
        with tempfile.TemporaryDirectory(prefix="posenc-model-") as place:
            folder = Path(place)
            (folder / CONFIG).write_text(json.dumps(_without_foreign_code(self.config)), encoding="utf-8")
            if GENERATION in self.companions:
                said = read_object(self.companions[GENERATION])
                (folder / GENERATION).write_text(json.dumps(_without_foreign_code(said)), encoding="utf-8")
            for name, path in self.weights.items():
                (folder / name).symlink_to(path.resolve())
            if self.index:
                shutil.copyfile(self.path / self.index, folder / self.index)
            yield folder


def look(path: Path) -> Contents:
    """Look at a model's folder, of which no file but headers and JSON is read.

    Raises ValueError, in one line, where it is no such folder, where a file is no plain file of a bounded size, leads
    out of the folder or cannot be read, and where the config claims sizes that the weights do not have.
    """
    if not path.exists():
        raise ValueError(f"there is no folder {path}: give one that save_pretrained wrote")
    if not path.is_dir():
        raise ValueError(f"{path} is a file: expected a folder that save_pretrained wrote")
    pipeline = read_pipeline(path)
    if pipeline is not None:
        check_first(pipeline)
        path = inner_folder(path, pipeline.first.place)
        if pipeline.first.name == STATIC:
            return _static(path, pipeline)
    if not os.path.lexists(path / CONFIG):
        if os.path.lexists(path / ADAPTER):
            raise ValueError(_of_adapter(path))
        raise ValueError(f"{path} has no {CONFIG}: expected a folder that save_pretrained wrote")
    config = read_object(plain_file(path, CONFIG))
    if not isinstance(config.get("model_type"), str):
        raise ValueError(f"{path / CONFIG} has no model_type: expected that of a model of transformers")
    companions = _companions(path, pipeline)
    index, weights = _weights(path)
    tensors = [tensor for file in weights.values() if file.suffix == ".safetensors" for tensor in header_of(file)]
    contents = Contents(
        path,
        config,
        weights,
        tensors,
        sum(file.stat().st_size for file in weights.values()),
        companions,
        index,
        pipeline,
        os.path.lexists(path / ADAPTER),
    )
    _check_claims(contents)
    return contents


def _companions(path: Path, pipeline: Pipeline | None) -> dict[str, Path]:
    """Return the files that go with a model: those beside it, and the configs of what comes behind it."""
    beside = {
        name: plain_file(path, name, LARGEST if name in (CONFIG, GENERATION) else COPIED)
        for name in companion_names(path)
    }
    return beside | (pipeline.companions if pipeline is not None else {})


def _static(path: Path, pipeline: Pipeline) -> Contents:
    """Look at a table of static vectors, of sentence-transformers or model2vec, beside which no config need lie."""
    if not os.path.lexists(path / SAFETENSORS):
        raise ValueError(f"{path} has no {SAFETENSORS}: expected the rows of {STATIC}")
    file = plain_file(path, SAFETENSORS, 0)
    tensors = header_of(file)
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    rows = next((shapes[name] for name in ROWS if name in shapes), ())
    if len(rows) != 2:
        raise ValueError(f"{file} has no table {' or '.join(ROWS)} of two axes: expected the rows of {STATIC}")
    words = shapes[MAPPING] if MAPPING in shapes else rows[:1]
    if len(words) != 1 or shapes.get("weights", words) != words:
        raise ValueError(
            f"{file}: {MAPPING} and weights have a number for each token, got {words}, {shapes.get('weights')}"
        )
    config = {"model_type": "static", "architectures": [STATIC], "vocab_size": words[0], "hidden_size": rows[1]}
    size = file.stat().st_size
    return Contents(path, config, {SAFETENSORS: file}, tensors, size, _companions(path, pipeline), pipeline=pipeline)


def _weights(folder: Path) -> tuple[str, dict[str, Path]]:
    """Return the index of a folder's weights, if it has one, and their files; transformers prefers the same ones."""
    for name in (SAFETENSORS, PICKLE):
        if os.path.lexists(folder / name):
            return "", {name: plain_file(folder, name, 0)}
        index = f"{name}.index.json"
        if os.path.lexists(folder / index):
            names = sorted(set(weight_map(plain_file(folder, index)).values()))
            if not names:
                raise ValueError(f"{folder / index} names no files of weights")
            return index, {part: plain_file(folder, part, 0) for part in names}
    raise ValueError(_without_weights(folder))


OTHER_WEIGHTS = {
    "*.gguf": "transformers rewrites it: AutoModelForCausalLM.from_pretrained({folder!r}, gguf_file={name!r})"
    ".save_pretrained('OTHER')",
    "consolidated*": "these are weights in the names of their makers, not of transformers: take the folder for "
    "transformers, or its script that converts them",
    "model.*.safetensors": "rename it to model.safetensors, or let transformers rewrite it: "
    "from_pretrained({folder!r}, variant={variant!r}).save_pretrained('OTHER')",
    "tf_model.h5": "transformers 4 rewrites it: from_pretrained({folder!r}, from_tf=True).save_pretrained('OTHER')",
    "flax_model.msgpack": "transformers 4 rewrites it: from_pretrained({folder!r}, from_flax=True)"
    ".save_pretrained('OTHER')",
    "*.onnx": "it is exported already: posenc inspect and posenc prove read it",
    "*.safetensors": "rename it to model.safetensors if its names are those of transformers",
    "*.bin": "rename it to pytorch_model.bin if it is a state_dict with the names of transformers",
    "*.pt": "rename it to pytorch_model.bin if it is a state_dict with the names of transformers",
    "*.pth": "rename it to pytorch_model.bin if it is a state_dict with the names of transformers",
}
"""Files of weights that are not read, and what to do about each."""


def _without_weights(folder: Path) -> str:
    """Return a line on what lies in a folder in the place of weights that can be read."""
    expected = f"expected {SAFETENSORS} or {PICKLE}, or the index of several"
    if os.path.lexists(folder / ADAPTER):
        return _of_adapter(folder)
    for pattern, words in OTHER_WEIGHTS.items():
        if found := sorted(path.name for path in folder.glob(pattern)):
            more = f" and {len(found) - 1} more" * (len(found) > 1)
            variant = found[0].removeprefix("model.").removesuffix(".safetensors")
            advice = words.format(folder=str(folder), name=found[0], variant=variant)
            return f"{folder} has {found[0]}{more}, and no {SAFETENSORS}: {advice}"
    return f"{folder} has no weights: {expected}"


def _of_adapter(folder: Path) -> str:
    """Return a line on a folder with an adapter and no model."""
    base = read_object(plain_file(folder, ADAPTER)).get("base_model_name_or_path")
    of = f"that of {base}" if isinstance(base, str) and base else "that of its base model"
    return f"{folder} holds an adapter, and no model: give {of} with --model, and this folder with --adapter"


def _check_claims(contents: Contents) -> None:
    """Raise ValueError where the config claims sizes or layers that no model of these weights has."""
    stored = contents.parameters
    layers = max(len(contents.tensors) or HARMLESS_LAYERS, HARMLESS_LAYERS)
    for key, number in _integers(contents.config, ""):
        name = key.rpartition(".")[2]
        most = layers if LAYERS.search(name) else max(stored, HARMLESS_SIZE) if SIZES.search(name) else number
        if number > most:
            held = f"{len(contents.tensors):,} tensors" if LAYERS.search(name) else f"{stored:,} numbers"
            raise ValueError(
                f"{contents.path / CONFIG} is not that of its weights: it says {key} = {number:,}, and they hold {held}"
            )


def _integers(said: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, int]]:
    for key, value in said.items():
        if isinstance(value, Mapping):
            yield from _integers(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:  # nan is not
            yield f"{prefix}{key}", int(min(value, 2**63))


def _without_foreign_code(said: Any) -> Any:
    """Return what a config says without the keys that load code, or weights, from elsewhere."""
    if isinstance(said, Mapping):
        kept = {key: value for key, value in said.items() if not FOREIGN_CODE.fullmatch(key)}
        return {key: _without_foreign_code(value) for key, value in kept.items()}
    return [_without_foreign_code(value) for value in said] if isinstance(said, list) else said
