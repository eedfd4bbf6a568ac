"""A model's folder, as `save_pretrained` writes it: which task it is for, and the module that is exported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from posenc.strict_json import read_json
from posenc_models.whole.tasks import KEY_VALUES, TASKS, Task
from posenc_models.whole.weights import check_weights

if TYPE_CHECKING:
    from torch import Tensor, nn

POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
"""Keys that say how many positions a model has."""
WINDOWS, WIDEST = ("sliding_window", "window_size", "attention_window", "local_attention"), 512
PARTS = ("text_config", "vision_config", "audio_config")
"""Keys of configs of several models in one: of texts, images and sounds."""
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
        config: what its config says, with what the file leaves out.
        generates: how many tokens it is to write greedily, as a test; 0 where it has no cache.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]
    config: Mapping[str, Any]
    generates: int = 0


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a config.json and weights: `load` makes it.

    Args:
        path: the folder.
        config: what its config.json says.
        task: what the model is exported for.
        origin: what says so.
        exact: whether exact positions take the place of a rotary model's own.
    """

    path: Path
    config: Mapping[str, Any]
    task: Task
    origin: str = "architectures"
    exact: bool = True

    @classmethod
    def load(cls, path: str | PathLike[str], task: str | None = None) -> Self:
        """Read a folder's config.

        Args:
            path: the folder.
            task: one of `TASKS`; by default the one that the config's architecture is for.

        Raises ValueError, in one line, where it is no such folder, and where no task is known for it.
        """
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file: expected a folder that save_pretrained wrote")
        if not (path / "config.json").is_file():
            raise ValueError(f"{path} has no config.json: expected a folder that save_pretrained wrote")
        try:
            config = read_json(path / "config.json")
        except (ValueError, OSError) as error:
            raise ValueError(f"{path / 'config.json'} cannot be read: {_line(error)}") from None
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            raise ValueError(f"{path / 'config.json'} has no model_type: expected that of a model of transformers")
        if task is not None and task not in TASKS:
            raise ValueError(f"unknown task {task!r}: expected one of {', '.join(TASKS)}")
        _check_one_graph(config)
        chosen = TASKS[task] if task else _task_of(path, config)
        check_weights(path)
        return cls(path, config, chosen, "--task" if task else "architectures")

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
        """Load the model in float32; where it is rotary and `exact`, with exact positions in the place of its own.

        Raises ValueError, in one line, where transformers cannot load it, or where it is no model of its task.
        """
        model = _loaded(self)
        notes = [*_code_of_its_own(self, model), *([_exact(model)] if self.exact else [])]
        takes = inspect.signature(model.forward).parameters
        main = next(iter(self.task.inputs))
        if main not in takes:
            raise ValueError(
                f"{type(model).__name__} takes {next(iter(takes))}, not {main}: it is no model for {self.task.name}"
            )
        said = _said(model)
        positions = _positions(said)
        filled = {name: _filled(text, said, positions) for name, text in self.task.inputs.items() if name in takes}
        texts = [f"{name}: {text}" for name, text in filled.items() if text]
        names = [name for name in filled if filled[name]]
        from posenc_models.whole.modules import Decoder, Encoder

        if not self.task.cache:
            encoder = Encoder(model, names, tuple(self.task.outputs.values()))
            return WholeModel(encoder.eval(), tuple(texts), tuple(self.task.outputs), tuple(notes), said)
        notes += _growing(said)
        past = _cached(model, self)
        before, after = KEY_VALUES
        parts = [(layer // 2, ("key", "value")[layer % 2]) for layer in range(len(past))]
        for (layer, part), tensor in zip(parts, past, strict=True):
            name = before.format(layer=layer, part=part)
            texts.append(f"{name}: float32[batch_size, {tensor.shape[1]}, past, {tensor.shape[3]}]")
        outputs = (*self.task.outputs, *(after.format(layer=layer, part=part) for layer, part in parts))
        few = sum(parameter.numel() for parameter in model.parameters()) < SMALL
        generates = min(MANY if few else FEW, (positions or MANY + ROOM) - ROOM)
        return WholeModel(Decoder(model, names).eval(), tuple(texts), outputs, tuple(notes), said, max(generates, 0))


def _check_one_graph(config: Mapping[str, Any]) -> None:
    """Raise ValueError where a config is that of several graphs."""
    architectures = config.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else config["model_type"]
    if config.get("is_encoder_decoder") is True:
        raise ValueError(f"{name} has an encoder and a decoder, which are two graphs: --model takes models of one")
    parts = [key for key in PARTS if isinstance(config.get(key), dict)]
    if set(parts) - {"text_config"}:
        raise ValueError(f"{name} is several models in one ({', '.join(parts)}): --model takes models of one")


def _task_of(path: Path, config: Mapping[str, Any]) -> Task:
    """Return the task of a config's architecture; raise ValueError where none is known."""
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        raise ValueError(f"{path / 'config.json'} has no architectures: give --task, one of {', '.join(TASKS)}")
    name = architectures[0]
    fitting = [task for task in TASKS.values() if name.endswith(task.ends)]
    if not fitting:
        raise ValueError(f"no task is known for {name}: give --task, one of {', '.join(TASKS)}")
    images = "image_size" in config and "vocab_size" not in config
    return next((task for task in fitting if images == ("pixel_values" in task.inputs)), fitting[0])


def _positions(config: Mapping[str, Any]) -> int | None:
    return next((config[key] for key in POSITIONS if isinstance(config.get(key), int)), None)


def _loaded(folder: ModelFolder) -> Any:
    """Return the model in float32; its own code is never run."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ValueError(f"a whole model takes torch and transformers: pip install transformers ({error})") from error
    try:
        with _quiet():
            model, info = getattr(transformers, folder.task.auto).from_pretrained(
                folder.path,
                dtype=torch.float32,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, in a line that says which
            )
    except Exception as error:  # a stranger's config: transformers raises what comes
        raise ValueError(f"transformers cannot load {folder.path}: {_why(folder, error)}") from error
    _check_loaded(folder, model, info)
    if hasattr(model, "set_experts_implementation") and _has_experts(folder.config):
        model.set_experts_implementation("batched_mm")
    return model.eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from printing warnings and bars of progress: what matters of them becomes an error here."""
    from transformers.utils import logging

    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def _why(folder: ModelFolder, error: Exception) -> str:
    """Return in a line why transformers cannot load a model."""
    text, kind = str(error), folder.config["model_type"]
    if "trust_remote_code" in text:
        return f"model type {kind!r} is code beside the weights (auto_map), which is never run"
    if text.startswith("Unrecognized configuration class"):
        return f"it has no model for {folder.task.name} ({folder.task.auto}) of model type {kind!r}"
    return _line(error)


def _check_loaded(folder: ModelFolder, model: nn.Module, info: Mapping[str, Any]) -> None:
    """Raise ValueError where weights are not those of the config's model: transformers only warns of it."""
    config = folder.path / "config.json"
    mismatched = sorted(info["mismatched_keys"])
    if mismatched:
        name, stored, expected = mismatched[0]
        raise ValueError(
            f"{config} is not that of its weights: {name} has the shape {list(stored)}, not {list(expected)}"
            f"{_more(mismatched)}"
        )
    # a head that the weights do not have is drawn at random
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"{folder.path} has no weights for {missing[0]}{_more(missing)}: is it a model for {folder.task.name}?"
        )
    # parts that a task does not use are left out, rightly; but no layers of those that it does
    used = {_unnumbered(name) for name in model.state_dict()}
    beyond = sorted(name for name in info["unexpected_keys"] if _unnumbered(name) in used)
    if beyond:
        raise ValueError(f"{config} is not that of its weights: it leaves out their {beyond[0]}{_more(beyond)}")


def _more(names: Sequence[object]) -> str:
    return f" and {len(names) - 1} more" * (len(names) > 1)


def _unnumbered(name: str) -> str:
    """Return a parameter's name without the numbers of layers and experts."""
    return re.sub(r"\b\d+\b", "N", name)


def _has_experts(config: Mapping[str, Any]) -> bool:
    return any("experts" in key for key in config)


def _code_of_its_own(folder: ModelFolder, model: nn.Module) -> list[str]:
    """Return a line on code beside the weights, where transformers has the model type, too."""
    if not folder.config.get("auto_map"):
        return []
    return [f"the folder's own code (auto_map) was not run: the model is transformers' {type(model).__name__}"]


def _exact(model: nn.Module) -> str:
    """Put our rotary modules into a model; return a line that says so, or why they are its own."""
    from posenc_models.replacing.replace import replace_rotary

    try:
        replaced = replace_rotary(model)
    except ValueError as error:
        return f"positions are computed as the model does: {_line(error).partition(': expected')[0]}"
    return f"rotary angles are exact: {', '.join(f'{name} was {words}' for name, words in replaced.items())}"


def _growing(said: Mapping[str, Any]) -> list[str]:
    """Return a line on texts that grow past where frequencies change at once: cached keys keep the earlier ones."""
    from posenc.rope_types import ROPE_TYPES

    rope = said.get("rope_parameters") or {}
    name = rope.get("rope_type")
    if name not in ROPE_TYPES.names() or not ROPE_TYPES[name].by_length or ROPE_TYPES[name].in_graph:
        return []
    edge = rope.get(ROPE_TYPES[name].by_length) or said.get(ROPE_TYPES[name].by_length)
    return [
        f"{name} turns a call that goes beyond {edge} tokens by other frequencies: where a text grows past them, "
        "give all of it again with an empty cache, as generate does"
    ]


def _cached(model: Any, folder: ModelFolder) -> list[Tensor]:
    """Return the keys and values that the model caches of two tokens; raise ValueError where it has others."""
    import torch

    from posenc_models.whole.modules import cache_of

    ids = torch.zeros((1, 2), dtype=torch.int64)
    try:
        with torch.no_grad(), _quiet():
            output = model(input_ids=ids, past_key_values=cache_of(()), use_cache=True)
    except Exception as error:
        raise ValueError(f"{folder.path}: a call with a cache fails: {type(error).__name__}: {_line(error)}") from error
    layers = getattr(getattr(output, "past_key_values", None), "layers", None)
    if not layers:
        raise ValueError(f"{type(model).__name__} caches no keys and values: --model takes models whose layers all do")
    for number, layer in enumerate(layers):
        parts = [getattr(layer, name, None) for name in ("keys", "values")]
        if not all(isinstance(part, torch.Tensor) and part.dim() == 4 and part.shape[2] == 2 for part in parts):
            raise ValueError(
                f"{folder.path}: layer {number} caches no keys and values of each token, but {type(layer).__name__}: "
                "--model takes models whose layers all do"
            )
    return [tensor for layer in layers for tensor in (layer.keys, layer.values)]


def _said(model: Any) -> dict[str, Any]:
    """Return what a model's config says, with what its file leaves out."""
    said: dict[str, Any] = model.config.get_text_config().to_dict()
    return said


def _filled(text: str, said: Mapping[str, Any], positions: int | None) -> str:
    """Return the rest of a port's text with what the config says; nothing where it says that there are none of them."""
    size = said.get("image_size")
    height, width = (size if isinstance(size, Sequence) else (size, size)) if size is not None else (None, None)
    values = {"type_vocab_size": 1, "num_channels": 3, **said, "height": height, "width": width}
    if text.endswith(" positions") and positions is not None:
        return f"{text} < {positions}"
    return "" if any(values[name] == 0 for name in _names_in(text)) else text.format(**values)


def _names_in(text: str) -> Iterable[str]:
    return re.findall(r"{(\w+)}", text)


def _line(error: BaseException) -> str:
    """Return the first line of an error, and the next where that only announces it."""
    first, _, rest = str(error).strip().partition("\n")
    return f"{first} {rest.strip().partition(chr(10))[0]}" if first.endswith(":") and rest else first
