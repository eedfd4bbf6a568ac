"""A model as a config describes it, made without memory: only what we put into it holds numbers.

Its large tensors are made on the meta device, and become zeros that share one number; tables that its code computes are
made as ever. So what a model adds for positions is what its code gives, all else being zero.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from posenc.ports import Array
from posenc_models.asking import load
from posenc_models.asking.intercepting import intercepted
from posenc_models.asking.load import library_of, quiet, said
from posenc_models.asking.model import CannotAsk, Disagrees, Function, Question
from posenc_models.config.encodings.described import names_that_end
from posenc_models.config.encodings.parts import ConfigPart, choose_part
from posenc_models.config.encodings.rows import Row
from posenc_models.config.foreign import HfConfig, HfModule
from posenc_models.config.settings import Json

ON_META = tuple(getattr(torch, name) for name in ("empty", "rand", "randn", "normal"))
"""Functions that make parameters, whatever is in them."""
FILLED: tuple[Function, ...] = (torch.zeros, torch.ones, torch.full)
LARGE = 2**26
"""Elements of zeros and ones from which on they are taken for parameters."""


@dataclass(frozen=True)
class Built:
    """A model's own modules of a part, all zeros, with the row that was read of it."""

    model: nn.Module
    part: ConfigPart
    row: Row
    config: HfConfig
    library: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters."""
        return tuple(name for name, _ in self.model.named_parameters(remove_duplicate=False))

    def holding(self, table: str) -> tuple[str, ...]:
        """Return the names that end as that of a table does; see `Row.tables`."""
        layers = self.row.layer_numbers(self.part.config, self.part.absent)
        matches = (names_that_end(self.names, ending, layers) for ending in table.split("|"))
        return next((tuple(names) for names in matches if names), ())

    @property
    def table(self) -> str:
        """The name of its first table."""
        return self.holding(self.row.tables[0])[0]

    def paths(self, classes: str) -> list[str]:
        """Return the paths of the modules whose class matches a pattern."""
        return [name for name, module in self.model.named_modules() if re.search(classes, type(module).__name__)]


def part_of(question: Question) -> tuple[ConfigPart, Row]:
    """Return the part that a question is about, and its row."""
    part = choose_part(question.content, question.part or None)
    if part is None or part.row is None:
        raise CannotAsk("the config is that of a rotary model")
    return part, part.row


def config_of(content: Json, part: ConfigPart) -> HfConfig:
    """Return the config of a part, from the whole config: its class may fill in what the part leaves out."""
    name = library_of()
    inner: HfConfig | None = load.config_of(content, name)
    for key in filter(None, part.config.path.split(".")):
        inner = getattr(inner, key, None)
    if inner is None or isinstance(inner, dict):
        inner = load.config_of({**part.config.content, "model_type": part.model_type}, name)
    return _without_timm(inner)


def _without_timm(config: HfConfig) -> HfConfig:
    """Return a config whose backbone is one of transformers: the choice of backbone changes no position."""
    if type(getattr(config, "backbone_config", None)).__name__ == "TimmBackboneConfig":
        stages = [f"stage{stage}" for stage in getattr(config.backbone_config, "out_indices", None) or (4,)]
        config.backbone_config = load.config_of({"model_type": "resnet", "out_features": stages}, library_of())
    return config


@contextmanager
def refusals(title: str) -> Iterator[None]:
    """Say in one line what a model's own code refuses."""
    try:
        yield
    except CannotAsk:
        raise
    except Exception as error:  # whatever its code raises
        raise CannotAsk(f"{title} refuses: {said(error)}") from error


def modeling(config: HfConfig) -> Iterator[ModuleType]:
    """Yield the modeling files of a config's type: its own, then others that begin with its name."""
    package, _, name = type(config).__module__.rpartition(".")
    first = name.replace("configuration_", "modeling_")
    yield load.modeling_of(config)
    folder = Path(str(importlib.import_module(package).__file__)).parent
    for path in sorted(folder.glob(f"{first}_*.py")):
        yield importlib.import_module(f"{package}.{path.stem}")


def classes_of(config: HfConfig) -> Iterator[type[nn.Module]]:
    """Yield the models of a config in its modeling files, in their order there."""
    for module in modeling(config):
        for kind in vars(module).values():
            is_own = isinstance(kind, type) and kind.__module__ == module.__name__
            takes_config = is_own and getattr(kind, "config_class", None) is type(config)
            if takes_config and not kind.__name__.endswith("PreTrainedModel"):
                yield kind


def built(question: Question, has: Callable[[Built], bool] = lambda made: True) -> Built:
    """Return the first model of a part that has the tables of its row, and fulfils `has`.

    Raises CannotAsk, in one line, where no class has them, or none can be made.
    """
    part, row = part_of(question)
    config = config_of(question.content, part)
    refused = ""
    for kind in classes_of(config):
        try:
            made = Built(zeros(kind, config), part, row, config, library_of())
        except CannotAsk as error:
            refused = refused or f": {error}"
            continue
        if all(made.holding(table) for table in row.tables) and has(made):
            return made
    raise CannotAsk(f"no class of {type(config).__module__.rpartition('.')[0]} has what is asked about{refused}")


def zeros(make: Callable[..., nn.Module], *parameters: object, **more: object) -> nn.Module:
    """Return a module of a model, made without memory, with zeros in its parameters."""
    with refusals(getattr(make, "__name__", "a class")), quiet(), without_memory(), not_drawn(make):
        made: nn.Module = make(*parameters, **more)
    for module in made.modules():
        _fill(module)
        module.__dict__.pop("_is_hf_initialized", None)
    return made.eval()


def not_drawn(make: Callable[..., nn.Module]) -> AbstractContextManager[None]:
    """Leave out what a model of transformers draws at random before training."""
    if not make.__module__.startswith("transformers."):
        return nullcontext()
    from transformers.initialization import no_init_weights

    context: AbstractContextManager[None] = no_init_weights()
    return context


def _fill(module: nn.Module) -> None:
    """Put zeros into the tensors of a module that are on the meta device: one number, seen in their shape."""
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            if tensor is not None and tensor.is_meta:
                shared: Tensor = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
                tensors[name] = nn.Parameter(shared, False) if tensors is module._parameters else shared  # type: ignore[assignment]


def without_memory() -> AbstractContextManager[object]:
    """Make large tensors, and what is drawn at random, on the meta device."""

    def made(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        on_meta = {**kwargs, "device": "meta"}
        if function in ON_META and kwargs.get("device") is None:
            return function(*args, **on_meta)
        is_large = function in FILLED and function(*args, **on_meta).numel() > LARGE
        return function(*args, **(on_meta if is_large else kwargs))

    return intercepted(made)


def parent_of(model: HfModule, path: str) -> nn.Module:
    """Return the module that holds the tensor, or the module, at a path."""
    parent: nn.Module = model.get_submodule(path.rpartition(".")[0])
    return parent


def put(model: nn.Module, name: str, table: Array) -> None:
    """Put numbers into a parameter or a buffer of a model; raise Disagrees where it has another shape."""
    owner, leaf = parent_of(model, name), name.rpartition(".")[2]
    shape = tuple(getattr(owner, leaf).shape)
    if table.size != prod(shape) or table.shape[-1] != shape[-1]:
        raise Disagrees(f"its {name} is {shape}, what was read {table.shape}")
    numbers = torch.from_numpy(np.array(table, np.float32)).reshape(shape)  # (1, rows, features) or (rows, features)
    if leaf in owner._parameters:
        owner._parameters[leaf] = nn.Parameter(numbers, False)
    else:
        owner._buffers[leaf] = numbers


def put_rows(model: nn.Module, name: str, table: Array) -> None:
    """Put rows into a table of a model, which may have more; raise Disagrees where it has fewer, or other widths."""
    rows, *others = getattr(parent_of(model, name), name.rpartition(".")[2]).shape
    if list(table.shape[1:]) != others or len(table) > rows:
        raise Disagrees(f"its {name} is {(rows, *others)}, what was read {table.shape}")
    put(model, name, np.pad(table, ((0, rows - len(table)), (0, 0))))


def initialised(model: HfModule, path: str) -> nn.Module:
    """Return a module with the numbers that the model's own code writes into it before training."""
    module: nn.Module = model.get_submodule(path)
    for name, tensor in module._parameters.items():
        if tensor is not None:
            module._parameters[name] = nn.Parameter(torch.empty(tensor.shape, dtype=tensor.dtype), False)
    with torch.no_grad():
        model._init_weights(module)
        model._init_weights(parent_of(model, path))
    return module
