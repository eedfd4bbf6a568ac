"""A model without weights is called, and each rotation in it is noted: which function, of what, with which cos and sin.

The model is made on the meta device, where tensors have a shape and no numbers: layers, experts and tables of words
take no memory. Only what makes angles is made, and called, for real. So what a layer does to its queries and keys is
seen as the model's own code does it: which layers rotate, which part of a head, by which angles.
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from posenc.hf.asking.load import Loaded, quiet, said
from posenc.hf.asking.model import CannotAsk

ANGLES = re.compile(r"Rotary|Rope|RoPE|ROPE")
"""What classes that make angles are called."""
NOT_ANGLES = re.compile(r"Attention|Attn|Layer$|Block$|Model$|Encoder$|Config")
APPLIES = re.compile(r"rotary|rope|rotate_queries", re.IGNORECASE)
"""What functions that rotate are called."""
NOT_APPLIES = re.compile(r"rotate_half|rotate_every|rotate_pair|^(create|compute|get|_?build|precompute|standardize)")
TABLES = re.compile(r"sinusoid|freqs|rope|rotary|embed_positions")
"""What functions that make tables of angles are called."""
MAKES_TABLES = re.compile(r"^_?(create|compute|get|build|precompute)")


@dataclass(frozen=True)
class Rotated:
    """A place among the arguments of a rotation that holds queries or keys: its shape in the traced call.

    first: which feature of a head is its first, where it is a part of one.
    """

    shape: tuple[int, ...]
    first: int = 0


@dataclass(frozen=True)
class Turn:
    """A call of a function that rotates; arguments are real tensors and constants, or stand for queries and keys.

    owner: the class of the module that called it. head_dim: the features of its heads, where it says so.
    """

    function: Callable[..., Any]
    arguments: tuple[object, ...]
    keywords: Mapping[str, object]
    owner: str
    head_dim: int | None = None

    @property
    def places(self) -> list[Rotated]:
        """What it rotates, in order."""
        values = (*self.arguments, *self.keywords.values())
        return [value for value in values if isinstance(value, Rotated)]

    def again(self, tensors: list[Tensor]) -> list[Tensor]:
        """Call it with numbers in the places of what it rotates; return what it gives in those places."""
        rest = iter(tensors)
        arguments = [next(rest) if isinstance(value, Rotated) else value for value in self.arguments]
        keywords = {k: next(rest) if isinstance(v, Rotated) else v for k, v in self.keywords.items()}
        with torch.no_grad():
            outputs = self.function(*arguments, **keywords)
        return list(outputs) if isinstance(outputs, tuple) else [outputs]


@dataclass
class Layer:
    """What was seen of a layer: its rotations, and why it did not come to its end, if it did not."""

    turns: list[Turn] = field(default_factory=list)
    error: str = ""


class _Enough(Exception):
    """The layer that was wanted is done."""


@dataclass
class Traced:
    """A model on the meta device, and how it is called."""

    model: nn.Module
    modeling: ModuleType
    angle_classes: tuple[type[nn.Module], ...]
    layers: list[Layer] = field(default_factory=list)
    loose: Layer = field(default_factory=Layer)
    wanted: int | None = None
    current: list[Layer] = field(default_factory=list)
    depth: int = 0

    def call(self, batch: int, length: int, positions: Tensor | None, wanted: int | None = None) -> str:
        """Call the model: (batch, length) tokens at positions; return why it did not come to its end, if it did not.

        wanted: the layer after which it is enough; all are called by default.
        """
        self.layers, self.loose, self.wanted, self.current, self.depth = [], Layer(), wanted, [], 0
        with ExitStack() as stack, torch.no_grad(), quiet():
            stack.enter_context(_patched(self))
            try:
                self.model.forward(**_inputs(self.model, batch, length, positions))
            except _Enough:
                pass
            except Exception as error:
                return said(error)
        return ""

    @property
    def here(self) -> Layer:
        """The layer that is being called."""
        return self.current[-1] if self.current else self.loose


def traced(loaded: Loaded, model_class: type[nn.Module]) -> Traced:
    """Return a model on the meta device, with what makes its angles made for real."""
    classes = _angle_classes(loaded.modeling)
    with ExitStack() as stack, quiet():
        for kind in classes:
            stack.enter_context(_set(kind, "__init__", _on_cpu(kind.__init__)))
        for name, function in _functions(loaded.modeling):
            if TABLES.search(name) and MAKES_TABLES.match(name):
                stack.enter_context(_set(loaded.modeling, name, _on_cpu(function)))
        config = copy.deepcopy(loaded.config)
        config._attn_implementation_internal = "eager"
        try:
            with torch.device("meta"):
                model = model_class(config)
        except Exception as error:
            raise CannotAsk(f"{model_class.__name__} of {loaded.library} refuses the config: {said(error)}") from None
    model.eval()
    return Traced(model, loaded.modeling, classes)


def model_classes(loaded: Loaded) -> list[type[nn.Module]]:
    """Return the classes of a config's models, the barest first."""
    from transformers import PreTrainedModel

    kinds = [kind for kind in vars(loaded.modeling).values() if inspect.isclass(kind)]
    own = [kind for kind in kinds if issubclass(kind, PreTrainedModel) and kind.__module__ == loaded.modeling.__name__]
    of_config = [kind for kind in own if getattr(kind, "config_class", None) is type(loaded.config)]
    bare = [kind for kind in of_config if not kind.__name__.endswith("PreTrainedModel")]
    return sorted(
        bare, key=lambda kind: ("For" in kind.__name__, not kind.__name__.endswith("Model"), len(kind.__name__))
    )


def _angle_classes(modeling: ModuleType) -> tuple[type[nn.Module], ...]:
    kinds = [kind for kind in vars(modeling).values() if inspect.isclass(kind) and issubclass(kind, nn.Module)]
    return tuple(k for k in kinds if ANGLES.search(k.__name__) and not NOT_ANGLES.search(k.__name__))


def _functions(modeling: ModuleType) -> list[tuple[str, Callable[..., Any]]]:
    return [(name, value) for name, value in vars(modeling).items() if isinstance(value, FunctionType)]


@contextmanager
def _patched(trace: Traced) -> Iterator[None]:
    """Note rotations, call what makes angles for real, and leave out masks and what follows a layer's failure."""
    with ExitStack() as stack:
        stack.enter_context(_set(Tensor, "to", _stays(Tensor.to)))
        for kind in trace.angle_classes:
            stack.enter_context(_set(kind, "forward", _real(kind.forward)))
        for name, function in _functions(trace.modeling):
            if "mask" in name and function.__module__ == "transformers.masking_utils":
                stack.enter_context(_set(trace.modeling, name, _nothing))
            elif APPLIES.search(name) and not NOT_APPLIES.search(name):
                stack.enter_context(_set(trace.modeling, name, _noted(trace, function)))
        for layer in _layers(trace.model):
            stack.enter_context(_set(layer, "forward", _layer(trace, layer.forward)))
        yield


def _layers(model: nn.Module) -> list[nn.Module]:
    """Return the members of the outermost lists of modules, in order."""
    found: list[nn.Module] = []

    def walk(module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, nn.ModuleList):
                found.extend(child)
            else:
                walk(child)

    walk(model)
    return found


@contextmanager
def _set(target: Any, name: str, value: object) -> Iterator[None]:
    """Set an attribute for a while."""
    own = vars(target)
    had, before = name in own, own.get(name)
    setattr(target, name, value)
    try:
        yield
    finally:
        if had:
            setattr(target, name, before)
        else:
            delattr(target, name)


def _nothing(*args: object, **kwargs: object) -> None:
    """Stand for a mask: none."""


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return made


def _real(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward that gives numbers: on a copy, as some keep what depends on earlier calls."""

    def called(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        fresh = copy.copy(self)
        fresh._buffers = {k: None if v is None else v.clone() for k, v in self._buffers.items()}
        real = [_zeros(value) for value in args]
        with torch.device("cpu"):
            return forward(fresh, *real, **{k: _zeros(v) for k, v in kwargs.items()})

    return called


def _zeros(value: Any) -> Any:
    """Return zeros that take no memory for a tensor without numbers."""
    if not isinstance(value, Tensor) or value.device.type != "meta":
        return value
    return torch.zeros((1,) * value.dim(), dtype=value.dtype, device="cpu").expand(value.shape)


def _noted(trace: Traced, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that notes what it is called with, and gives what has the shapes of its outputs."""

    def called(*args: Any, **kwargs: Any) -> Any:
        if not trace.depth:
            owner = sys._getframe(1).f_locals.get("self")
            turn = Turn(function, tuple(map(_place, args)), _places(kwargs), type(owner).__name__, _head_dim(owner))
            trace.here.turns.append(turn)
        trace.depth += 1
        try:
            return function(*map(_meta, args), **{k: _meta(v) for k, v in kwargs.items()})
        finally:
            trace.depth -= 1

    return called


def _places(values: Mapping[str, object]) -> dict[str, object]:
    return {key: _place(value) for key, value in values.items()}


def _place(value: object) -> object:
    if not isinstance(value, Tensor) or value.device.type != "meta":
        return value
    stride = max(value.stride()[:-1], default=1) if value.dim() < 3 else min(value.stride()[1:-1])
    first = int(value.storage_offset()) % stride if stride > value.shape[-1] else 0
    return Rotated(tuple(value.shape), first if first + value.shape[-1] <= stride else 0)


def _head_dim(owner: object) -> int | None:
    """Return how many features the heads of an attention have, as far as it says so."""
    sizes = (getattr(owner, name, None) for name in ("qk_head_dim", "head_dim", "head_size", "attention_head_size"))
    return next((size for size in sizes if isinstance(size, int)), None)


def _meta(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_meta, value))
    return torch.empty_like(value, device="meta") if isinstance(value, Tensor) else value


def _stays(to: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `Tensor.to` that leaves numbers where they are: on the meta device they would be lost."""

    def moved(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.device.type == "meta":
            return to(self, *args, **kwargs)
        args = tuple(torch.empty(0, dtype=v.dtype) if _is_meta(v) else v for v in args if not _names_meta(v))
        kwargs = {k: v for k, v in kwargs.items() if not _names_meta(v)}
        return to(self, *args, **kwargs) if args or kwargs else self

    return moved


def _is_meta(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == "meta"


def _names_meta(value: object) -> bool:
    return (isinstance(value, torch.device) and value.type == "meta") or value == "meta"


def _layer(trace: Traced, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a layer's forward that notes whose rotations they are, and gives its input where it fails."""

    def called(*args: Any, **kwargs: Any) -> Any:
        layer = Layer()
        trace.layers.append(layer)
        trace.current.append(layer)
        first = args[0] if args else next(iter(kwargs.values()))
        try:
            return forward(*args, **kwargs)
        except _Enough:
            raise
        except Exception as error:
            layer.error = said(error)
            return first
        finally:
            trace.current.pop()
            if trace.wanted is not None and len(trace.layers) > trace.wanted and not trace.current:
                raise _Enough

    return called


def _inputs(model: nn.Module, batch: int, length: int, positions: Tensor | None) -> dict[str, object]:
    """Return what a model is called with: as it names it."""
    names = inspect.signature(model.forward).parameters
    width = getattr(model.config, "hidden_size", None) or getattr(model.config, "n_embd", None)
    inputs: dict[str, object] = {}
    for name in ("inputs_embeds", "hidden_states", "input_embeds"):
        if name in names and "inputs_embeds" not in inputs:
            inputs[name] = torch.empty(batch, length, width, device="meta")
    if not inputs and "input_ids" in names:
        inputs["input_ids"] = torch.empty(batch, length, dtype=torch.int64, device="meta")
    if positions is not None and "position_ids" in names:
        inputs["position_ids"] = positions
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def takes_positions(model: nn.Module) -> bool:
    """Return whether a model is told the positions of its tokens."""
    return "position_ids" in inspect.signature(model.forward).parameters
