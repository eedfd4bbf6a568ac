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
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from posenc.strict_json import LARGEST, parse, read_json
from posenc.weight_index import weight_map
from posenc_models.whole.companions import CONFIG, GENERATION, companion_names

COPIED = 2**28
"""Bytes of the largest file that is copied into a bundle: the tokenizer of Gemma 3 has 33 million."""
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
"""Files of weights; with .index.json behind its name, a file says which of several holds what."""
EXPERTS = ".experts"
ITEMS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
"""Bytes of a number, by the names that safetensors has for dtypes; of those that are not here, one or less."""
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
ADAPTER, MODULES = "adapter_config.json", "modules.json"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file of weights, by its header.

    Args:
        name: its name.
        shape: its axes.
        dtype: as safetensors calls it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


@dataclass(frozen=True)
class Contents:
    """The files of a model's folder that are read or copied.

    Args:
        path: the folder.
        config: what its config.json says.
        weights: the files of its weights, by their names in the folder.
        tensors: what these hold; nothing where they are pickled, and tell only when they are loaded.
        bytes: of all weights.
        companions: files that go with the model, by their paths in the folder.
        index: the file that says which of several files of weights holds what.
        modules: what modules.json of sentence-transformers names beside the model itself.
        adapter: whether an adapter lies beside the weights.
    """

    path: Path
    config: Mapping[str, Any]
    weights: Mapping[str, Path]
    tensors: Sequence[StoredTensor] = field(repr=False)
    bytes: int
    companions: Mapping[str, Path]
    index: str = ""
    modules: tuple[str, ...] = ()
    adapter: bool = False

    @property
    def parameters(self) -> int:
        """How many numbers the weights hold; pickled ones are taken to be in the dtype that the config says."""
        if self.tensors:
            return sum(tensor.size for tensor in self.tensors)
        said = str(self.config.get("dtype") or self.config.get("torch_dtype") or "float32")
        return self.bytes // (2 if said in ("float16", "bfloat16") else 4)

    @property
    def image_size(self) -> tuple[int, int] | None:
        """The height and the width to which the processor beside the model brings images; None where it says none."""
        file = self.companions.get(PROCESSOR)
        said = read_json(file) if file is not None else {}
        if not isinstance(said, Mapping):
            return None
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
        return tuple(path.resolve() for path in (*self.weights.values(), *self.companions.values()))

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
    if not os.path.lexists(path / CONFIG):
        if os.path.lexists(path / ADAPTER):
            raise ValueError(_of_adapter(path))
        raise ValueError(f"{path} has no {CONFIG}: expected a folder that save_pretrained wrote")
    config = read_object(plain_file(path, CONFIG))
    if not isinstance(config.get("model_type"), str):
        raise ValueError(f"{path / CONFIG} has no model_type: expected that of a model of transformers")
    companions = {
        name: plain_file(path, name, LARGEST if name in (CONFIG, GENERATION) else COPIED)
        for name in companion_names(path)
    }
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
        tuple(_modules(path)),
        os.path.lexists(path / ADAPTER),
    )
    _check_claims(contents)
    return contents


def plain_file(folder: Path, name: str, most: int = LARGEST) -> Path:
    """Return the path of a file in a folder that may be read.

    Args:
        folder: the folder.
        name: the file's path in it.
        most: bytes that it may have; 0 for any number.

    Raises ValueError, in one line, where it is no plain file, has more bytes, or is a link that leads out.
    """
    path = folder / name
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if not _is_inside(real, folder.resolve()):
            raise ValueError(f"{path} is a link out of the model's folder, to {real}: copy that file to its place")
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is no plain file: expected one that can be read from its beginning to its end")
        if most and status.st_size > most:
            raise ValueError(f"{path} has {status.st_size:,} bytes: at most {most:,} are read")
        path.open("rb").close()
    except (OSError, RuntimeError) as error:  # a link in a circle is a RuntimeError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is a link in a circle"
        raise ValueError(f"{path} cannot be read: {reason}") from None
    return path


def _is_inside(real: Path, folder: Path) -> bool:
    """Return whether a file lies in a folder, or among the blobs of the download cache that the folder belongs to."""
    if real.is_relative_to(folder):
        return True
    snapshots = next((place for place in (folder, *folder.parents) if place.name == "snapshots"), None)
    return snapshots is not None and real.is_relative_to(snapshots.parent / "blobs")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; raise ValueError, in one line, where it holds none."""
    try:
        content = read_json(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {str(error).strip().partition(chr(10))[0]}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}: expected an object")
    return content


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


def header_of(path: Path) -> list[StoredTensor]:
    """Return the tensors of a safetensors file; raise ValueError, in one line, where its header is not one of it."""
    broken = f"{path} cannot be read: it is cut off, or no safetensors"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST and length < size:
                raise ValueError(f"{path} has a header of {length:,} bytes: at most {LARGEST:,} are read")
            text = file.read(length) if 8 + length <= size else b""
        content = parse(text.decode())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{broken} (its header is no JSON)") from None
    if not isinstance(content, dict):
        raise ValueError(f"{broken} (its header is no object)")
    tensors = [_stored(name, said, broken) for name, said in content.items() if name != "__metadata__"]
    data = size - 8 - length
    for tensor, end in tensors:
        if not 0 <= tensor.size * ITEMS.get(tensor.dtype, 0) <= end <= data:
            raise ValueError(f"{broken} ({tensor.name} does not fit into it)")
    return [tensor for tensor, _ in tensors]


def _stored(name: str, said: object, broken: str) -> tuple[StoredTensor, int]:
    """Return a tensor that a header names, and where its data end."""
    fields = said if isinstance(said, dict) else {}
    dtype, shape, ends = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if (
        not isinstance(dtype, str)
        or not isinstance(shape, list)
        or not isinstance(ends, list)
        or len(ends) != 2
        or not all(type(size) is int and size >= 0 for size in (*shape, *ends))
    ):
        raise ValueError(f"{broken} (its header says no shape and place of {name})")
    return StoredTensor(name, tuple(shape), dtype), ends[1]


def _modules(folder: Path) -> Iterator[str]:
    """Yield what modules.json of sentence-transformers names behind the model, as "Pooling"."""
    if not os.path.lexists(folder / MODULES):
        return
    path = plain_file(folder, MODULES)
    try:
        content = read_json(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    for said in content if isinstance(content, list) else []:
        kind = said.get("type") if isinstance(said, dict) else None
        name = kind.rpartition(".")[2] if isinstance(kind, str) else "a module without a type"
        if name != "Transformer":
            yield name


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
