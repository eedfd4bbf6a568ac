"""A model's folder, as `save_pretrained` writes it: which task it is for, and the module that is exported."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from posenc.strict_json import read_json
from posenc_models.whole.tasks import KEY_VALUES, TASKS, Task

if TYPE_CHECKING:
    from torch import Tensor, nn

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
"""Keys that say how many positions a model has."""
WINDOWS, WIDEST = ("sliding_window", "window_size", "attention_window"), 512
SMALL, MANY, FEW, ROOM = 50_000_000, 200, 32, 16
"""Parameters below which a model writes many tokens; how many those are; how many others write; room for prompts."""
USUAL_LENGTH = 128
"""Tokens of the longest call that is tried by default: each is computed in float64, too."""


@dataclass(frozen=True)
class WholeModel:
    """A whole model, ready to be exported.

    Args:
        module: takes its inputs by position, and gives tensors in a row.
        inputs: what goes in, as texts of ports.
        outputs: the names of what comes out.
        notes: lines for the report.
        generates: how many tokens it is to write greedily, as a test; 0 where it has no cache.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]
    generates: int = 0


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a config.json and weights, the task that it is exported for, and what says so: `load` makes it."""

    path: Path
    config: Mapping[str, Any]
    task: Task
    origin: str = "architectures"

    @classmethod
    def load(cls, path: str | PathLike[str], task: str | None = None) -> Self:
        """Read a folder's config.

        Args:
            path: the folder.
            task: one of `TASKS`; by default the one that the config's architecture is for.

        Raises ValueError, in one line, where it is no such folder, and where no task is known for it.
        """
        path = Path(path)
        if not (path / "config.json").is_file():
            raise ValueError(f"{path} has no config.json: expected a folder that save_pretrained wrote")
        config = read_json(path / "config.json")
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            raise ValueError(f"{path / 'config.json'} has no model_type: expected that of a model of transformers")
        if not any((path / name).is_file() for name in WEIGHTS):
            raise ValueError(f"{path} has no weights: expected {' or '.join(WEIGHTS)}")
        if task is not None and task not in TASKS:
            raise ValueError(f"unknown task {task!r}: expected one of {', '.join(TASKS)}")
        return cls(path, config, TASKS[task], "--task") if task else cls(path, config, _task_of(path, config))

    @property
    def length(self) -> int:
        """Up to which length calls are tried, where nobody says it: beyond the edge of a narrow window."""
        windows = [self.config[key] for key in WINDOWS if isinstance(self.config.get(key), int)]
        edge = max((window + 16 for window in windows if window <= WIDEST), default=0)
        return min(max(USUAL_LENGTH, edge), _positions(self.config) or WIDEST)

    @property
    def name(self) -> str:
        """What the export is called: the model's type and the task."""
        return f"{self.config['model_type']}:{self.task.name}"

    def build(self) -> WholeModel:
        """Load the model in float32, with exact positions in the place of its own where it is rotary.

        Raises ValueError, in one line, where transformers cannot load it, or where it is no model of its task.
        """
        model = _loaded(self)
        notes = [_exact(model)]
        takes = inspect.signature(model.forward).parameters
        names = [name for name in self.task.inputs if name in takes]
        positions = _positions(self.config)
        texts = [f"{name}: {_filled(self, self.task.inputs[name], positions)}" for name in names]
        from posenc_models.whole.modules import Decoder, Encoder

        if not self.task.cache:
            encoder = Encoder(model, names, tuple(self.task.outputs.values()))
            return WholeModel(encoder.eval(), tuple(texts), tuple(self.task.outputs), tuple(notes))
        past = _cached(model, self)
        before, after = KEY_VALUES
        parts = [(layer // 2, ("key", "value")[layer % 2]) for layer in range(len(past))]
        for (layer, part), tensor in zip(parts, past, strict=True):
            name = before.format(layer=layer, part=part)
            texts.append(f"{name}: float32[batch, {tensor.shape[1]}, past, {tensor.shape[3]}]")
        outputs = (*self.task.outputs, *(after.format(layer=layer, part=part) for layer, part in parts))
        few = sum(parameter.numel() for parameter in model.parameters()) < SMALL
        generates = min(MANY if few else FEW, (positions or MANY + ROOM) - ROOM)
        return WholeModel(Decoder(model, names).eval(), tuple(texts), outputs, tuple(notes), max(generates, 0))


def _task_of(path: Path, config: Mapping[str, Any]) -> Task:
    """Return the task of a config's architecture; raise ValueError where none is known."""
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        raise ValueError(f"{path / 'config.json'} has no architectures: give --task, one of {', '.join(TASKS)}")
    name = architectures[0]
    if config.get("is_encoder_decoder") is True:
        raise ValueError(f"{name} has an encoder and a decoder, which are two graphs: --model takes models of one")
    fitting = [task for task in TASKS.values() if name.endswith(task.ends)]
    if not fitting:
        raise ValueError(f"no task is known for {name}: give --task, one of {', '.join(TASKS)}")
    images = "image_size" in config and "vocab_size" not in config
    return next((task for task in fitting if images == ("pixel_values" in task.inputs)), fitting[0])


def _positions(config: Mapping[str, Any]) -> int | None:
    return next((config[key] for key in POSITIONS if isinstance(config.get(key), int)), None)


def _loaded(folder: ModelFolder) -> Any:
    """Return the model in float32; its own code is never run."""
    import torch
    import transformers

    try:
        auto = getattr(transformers, folder.task.auto)
        model, info = auto.from_pretrained(
            folder.path, dtype=torch.float32, trust_remote_code=False, local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise ValueError(f"transformers cannot load {folder.path}: {_line(error)}") from error
    # a head that the weights do not have is drawn at random, with no more than a warning
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"{folder.path} has no weights for {missing[0]}{f' and {len(missing) - 1} more' * (len(missing) > 1)}: "
            f"is it a model for {folder.task.name}?"
        )
    if hasattr(model, "set_experts_implementation") and _has_experts(folder.config):
        model.set_experts_implementation("batched_mm")
    return model.eval()


def _has_experts(config: Mapping[str, Any]) -> bool:
    return any("experts" in key for key in config)


def _exact(model: nn.Module) -> str:
    """Put our rotary modules into a model; return a line that says so, or why they are its own."""
    from posenc_models.replacing.replace import replace_rotary

    try:
        replaced = replace_rotary(model)
    except ValueError as error:
        return f"positions are computed as the model does: {_line(error)}"
    return f"rotary angles are exact: {', '.join(f'{name} was {words}' for name, words in replaced.items())}"


def _cached(model: Any, folder: ModelFolder) -> list[Tensor]:
    """Return the keys and values that the model caches of two tokens; raise ValueError where it has others."""
    import torch

    from posenc_models.whole.modules import cache_of

    ids = torch.zeros((1, 2), dtype=torch.int64)
    try:
        with torch.no_grad():
            cache = model(input_ids=ids, past_key_values=cache_of(()), use_cache=True).past_key_values
        layers = list(cache.layers)
    except Exception as error:
        raise ValueError(f"{folder.path}: a call with a cache fails: {type(error).__name__}: {_line(error)}") from error
    for number, layer in enumerate(layers):
        parts = [getattr(layer, name, None) for name in ("keys", "values")]
        if not all(isinstance(part, torch.Tensor) and part.dim() == 4 and part.shape[2] == 2 for part in parts):
            raise ValueError(
                f"{folder.path}: layer {number} caches no keys and values of each token, but {type(layer).__name__}: "
                "--model takes models whose layers all do"
            )
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def _filled(folder: ModelFolder, text: str, positions: int | None) -> str:
    """Return the rest of a port's text with what the config says."""
    size = folder.config.get("image_size")
    height, width = (size if isinstance(size, Sequence) else (size, size)) if size is not None else (None, None)
    values = {"type_vocab_size": 1, "num_channels": 3, **folder.config, "height": height, "width": width}
    if text.endswith(" positions") and positions is not None:
        return f"{text} < {positions}"
    return text.format(**values)


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
