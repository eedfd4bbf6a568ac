"""A model as transformers loads it from a folder, held against the weights that lie there.

transformers draws missing weights at random and leaves others unread, with a warning. Here each is an error in one
line, or a note of the report.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.memory import free_memory
from posenc.spec import TORCH_NAMES, DType
from posenc_models.whole.adapters import merged
from posenc_models.whole.tasks import HIDDEN, Task, architecture_of

if TYPE_CHECKING:
    from torch import nn

    from posenc_models.whole.contents import Contents
    from posenc_models.whole.pipeline import SentenceEncoder

TOWERS = ("visual", "vision_tower", "vision_model", "audio_tower")
"""What models call their parts that read images and sounds."""
ROOM_FOR_MORE = 10_000_000
"""Numbers that a model may have beyond twice those of its weights."""
NAMED = 4
"""Weights that a line names."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder's weights, and what they are loaded for.

    Args:
        contents: its files, and what its config.json says.
        task: what the model is exported for.
        origin: what says so.
        dtype: of the weights, and of all numbers that go in and come out; positions are exact in each.
        allow_unused: whether weights may lie in the folder that nothing in the model reads.
        adapter: the folder of a LoRA that is merged into the weights; None for none.
        sentences: what makes vectors of sentences behind the model; None where it does not.
    """

    contents: Contents
    task: Task
    origin: str = "architectures"
    dtype: DType = "fp32"
    allow_unused: bool = False
    adapter: Path | None = None
    sentences: SentenceEncoder | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        return self.contents.path

    @property
    def config(self) -> Mapping[str, Any]:
        """What its config.json says."""
        return self.contents.config

    @property
    def parameters(self) -> int:
        """How many numbers its weights hold."""
        return self.contents.parameters


def load_checkpoint(checkpoint: Checkpoint, trial: bool) -> tuple[Any, list[str]]:
    """Return a checkpoint's model in its dtype, and lines on weights that it does not read; none of its code is run."""
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise ValueError(f"a whole model takes torch and transformers: pip install transformers ({error})") from error
    with checkpoint.contents.private_folder() as place, quiet_transformers():
        try:
            cls = _class_of(checkpoint)
            if trial and (message := _too_large(checkpoint, cls, place)):
                raise ValueError(message)
            model, info = cls.from_pretrained(
                place,
                dtype=getattr(torch, TORCH_NAMES[checkpoint.dtype]),
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, in a line that says which
            )
        except Exception as error:  # a stranger's config: transformers raises what comes
            why = _why(checkpoint, error).replace(str(place), str(checkpoint.path))
            raise ValueError(f"transformers cannot load {checkpoint.path}: {why}") from error
    if checkpoint.task.encoder:
        info["missing_keys"] = _without_pooler(model.get_encoder(), info["missing_keys"], "encoder.")
    if checkpoint.task.outputs == HIDDEN or (
        checkpoint.sentences is not None and checkpoint.sentences.answer in HIDDEN
    ):
        info["missing_keys"] = _without_pooler(model, info["missing_keys"])
    lines = _check_loaded(checkpoint, model, info)
    if checkpoint.adapter is not None:
        model, line = merged(model, checkpoint.adapter)
        lines.append(line)
    if checkpoint.task.kind == "scenes" and checkpoint.task.sense is None:
        _leave_out_towers(model)
    if hasattr(model, "set_experts_implementation") and _has_experts(checkpoint.config):
        model.set_experts_implementation("batched_mm")
    return model.eval(), lines


def _class_of(checkpoint: Checkpoint) -> Any:
    """Return the class of transformers that loads a folder: the one that its config names, where that is for the task.

    A task that somebody asked for by name may want another class: hidden states of a model with a head.
    """
    import transformers

    name, auto = architecture_of(checkpoint.config), getattr(transformers, checkpoint.task.auto)
    named = getattr(transformers, name, None) if checkpoint.task.ends_of(name) else None
    kind = getattr(getattr(named, "config_class", None), "model_type", None)
    return named if kind == checkpoint.config["model_type"] else auto


def _too_large(checkpoint: Checkpoint, cls: Any, place: Path) -> str:
    """Return a line where a config's model has many more numbers than its weights; nothing where it has not.

    It is counted without being built: missing weights would be drawn at random, whatever memory that takes.
    """
    import torch
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
        with torch.device("meta"):
            model = cls.from_config(config) if hasattr(cls, "_model_mapping") else cls(config)
        numbers = sum(parameter.numel() for parameter in model.parameters())
        tables = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    except Exception:  # what cannot be built says so below, where it is loaded
        return ""
    stored = checkpoint.parameters
    if numbers > 2 * stored + ROOM_FOR_MORE:
        return f"config.json is that of a model of {numbers:,} numbers, and the weights hold {stored:,}"
    if tables > free_memory():
        return f"config.json asks for tables of {tables:,} bytes, which are more than the free memory"
    return ""


def _without_pooler(model: nn.Module, missing: Collection[str], prefix: str = "") -> Collection[str]:
    """Take a pooler without weights from a model whose hidden states are asked for; return what else is missing.

    Sentence encoders are saved without it. transformers would draw it at random, and no output depends on it.

    Args:
        model: the model, or the encoder of one.
        missing: names of weights that are missing.
        prefix: what these begin with for the encoder's.
    """
    names = [f"{prefix}{name}" for name, _ in model.named_parameters() if name.startswith("pooler.")]
    may_lack = "add_pooling_layer" in inspect.signature(type(model).__init__).parameters
    if not may_lack or not names or not set(names) <= set(missing):
        return missing
    setattr(model, "pooler", None)  # noqa: B010  (mypy: a module's attributes are modules and tensors)
    return set(missing) - set(names)


def _leave_out_towers(model: nn.Module) -> None:
    """Put nothing in the place of what reads images and sounds: its weights would be copied with the others."""
    from posenc_models.whole.modules import Placeholder

    towers = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in TOWERS]
    for name in towers:
        if not any(name.startswith(f"{other}.") for other in towers):  # a tower may stand in another
            model.set_submodule(name, Placeholder())


@contextmanager
def quiet_transformers() -> Iterator[None]:
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


def _why(checkpoint: Checkpoint, error: Exception) -> str:
    """Return in a line why transformers cannot load a model."""
    text, kind = str(error), checkpoint.config["model_type"]
    is_unknown = "does not recognize this" in text and checkpoint.config.get("auto_map")
    if "trust_remote_code" in text or is_unknown:
        return f"model type {kind!r} is code beside the weights (auto_map), which is never run"
    if text.startswith("Unrecognized configuration class"):
        return f"it has no model for {checkpoint.task.name} ({checkpoint.task.auto}) of model type {kind!r}"
    return error_line(error)


def _check_loaded(checkpoint: Checkpoint, model: nn.Module, info: Mapping[str, Any]) -> list[str]:
    """Return a line on weights of other parts; raise ValueError where weights are not those of the config's model.

    transformers only warns of it.
    """
    config = checkpoint.path / "config.json"
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
        # nobody's choice but ours is a task that the config's architecture says
        doubt = (
            f"is it a model for {checkpoint.task.name}?"
            if checkpoint.origin == "--task"
            else "is its config.json that of another model?"
        )
        raise ValueError(f"{checkpoint.path} has no weights for {missing[0]}{_more(missing)}: {doubt}")
    unused = sorted(info["unexpected_keys"])
    of_layers = [name for name in unused if not _is_another_part(model, name)]
    if of_layers and not checkpoint.allow_unused:
        raise ValueError(
            f"{config} is not that of its weights: nothing in {type(model).__name__} reads {of_layers[0]}"
            f"{_more(of_layers)}; --allow-unused-weights exports without them"
        )
    if not unused:
        return []
    some = f"{', '.join(unused[:NAMED])}{f' and {len(unused) - NAMED} more' * (len(unused) > NAMED)}"
    return [f"weights that {type(model).__name__} does not read are not in the file: {some}"]


def _is_another_part(model: nn.Module, name: str) -> bool:
    """Return whether a weight is one of a part that the model does not have, such as another head.

    What lies inside a layer, or is a parameter of a module that the model has, is none: BERT's folders bring a head for
    pairs of sentences beside that for masked words, and no model is right without the biases of its layers.
    """
    modules, parts = {path for path, _ in model.named_modules()}, name.split(".")
    depth = max(count for count in range(len(parts)) if ".".join(parts[:count]) in modules)
    inside, beyond = parts[:depth], parts[depth:]
    return len(beyond) > 1 and not any(part.isdigit() for part in (*inside, beyond[0]))


def _more(names: Sequence[object]) -> str:
    return f" and {len(names) - 1} more" * (len(names) > 1)


def _has_experts(config: Mapping[str, Any]) -> bool:
    """Return whether a model, or the text of one, has experts."""
    text = config.get("text_config")
    return any("experts" in key for key in (*config, *(text if isinstance(text, Mapping) else ())))


def error_line(error: BaseException) -> str:
    """Return the first line of an error, and the next where that only announces it."""
    first, _, rest = str(error).strip().partition("\n")
    return f"{first} {rest.strip().partition(chr(10))[0]}" if first.endswith(":") and rest else first
