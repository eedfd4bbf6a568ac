"""Functions that stand in a model's modeling module while the model is made and called without weights.

Classes that make angles are made and called for real; functions that rotate note their arguments; masks are None.
"""

import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from posenc_models.asking.load import Loaded, class_of_type, quiet, said
from posenc_models.asking.model import CannotAsk
from posenc_models.asking.tracing import MetaModel, RotaryCall, RotatedArgument

ANGLES = re.compile(r"Rotary|Rope|RoPE|ROPE|RoFormerSinusoidal")
"""Names of classes that make angles."""
NOT_ANGLES = re.compile(r"Attention|Attn|Layer$|Block$|Model$|Encoder$|Config")
APPLIES = re.compile(r"rotary|rope|rotate_queries", re.IGNORECASE)
"""Names of functions that rotate."""
NOT_APPLIES = re.compile(r"rotate_half|rotate_every|rotate_pair|^(create|compute|get|_?build|precompute|standardize)")
TABLES = re.compile(r"sinusoid|freqs|rope|rotary|embed_positions")
"""Names of functions that make tables of angles."""
MAKES_TABLES = re.compile(r"^_?(create|compute|get|build|precompute)")


def traced(
    loaded: Loaded, model_class: type[nn.Module], run: Callable[[MetaModel, int, int, Tensor | None], None]
) -> MetaModel:
    """Return a model on the meta device, but for the modules that make its angles; `run` calls it."""
    classes = _angle_classes(loaded.modeling)
    with ExitStack() as stack, quiet():
        for kind in classes:
            stack.enter_context(setting(kind, "__init__", _on_cpu(kind.__init__)))
        for name, function in _functions(loaded.modeling):
            if TABLES.search(name) and MAKES_TABLES.match(name):
                stack.enter_context(setting(loaded.modeling, name, _on_cpu(function)))
        config = copy.deepcopy(loaded.config)
        # attention in functions that are seen, not in a kernel
        config._attn_implementation_internal = "eager"
        try:
            with torch.device("meta"):
                model = model_class(config)
        except Exception as error:
            raise CannotAsk(f"{model_class.__name__} of {loaded.library} refuses the config: {said(error)}") from None
    model.eval()
    return MetaModel(model, loaded.modeling, classes, run, _patched)


def model_classes(loaded: Loaded) -> list[type[nn.Module]]:
    """Return the classes of a config's models, the barest first; for a part without any, those of its name."""
    from transformers import PreTrainedModel

    kinds = [kind for kind in vars(loaded.modeling).values() if inspect.isclass(kind)]
    own = [kind for kind in kinds if issubclass(kind, PreTrainedModel) and kind.__module__ == loaded.modeling.__name__]
    of_config = [kind for kind in own if getattr(kind, "config_class", None) is type(loaded.config)]
    bare = [kind for kind in of_config if not kind.__name__.endswith("PreTrainedModel")]
    if not bare:  # T5Gemma's encoder and decoder say that they take the config of the whole
        part = next((name for name, value in vars(loaded.whole).items() if value is loaded.config), None)
        bare = [kind for kind in own if part and kind.__name__.lower().endswith(part.lower())]
    borrowed = None if bare else class_of_type(loaded.config)
    if borrowed is not None and borrowed.__module__ == loaded.modeling.__name__:
        bare = [borrowed]
    return sorted(
        bare, key=lambda kind: ("For" in kind.__name__, not kind.__name__.endswith("Model"), len(kind.__name__))
    )


def _angle_classes(modeling: ModuleType) -> tuple[type[nn.Module], ...]:
    kinds = [kind for kind in vars(modeling).values() if inspect.isclass(kind) and issubclass(kind, nn.Module)]
    return tuple(k for k in kinds if ANGLES.search(k.__name__) and not NOT_ANGLES.search(k.__name__))


def _static(modeling: ModuleType) -> list[tuple[type, str, Callable[..., object]]]:
    """Return the functions that rotate and stand in a class, as in RoFormer's attention."""
    kinds = [kind for kind in vars(modeling).values() if inspect.isclass(kind) and kind.__module__ == modeling.__name__]
    own = [(kind, name, value) for kind in kinds for name, value in vars(kind).items()]
    return [(k, name, v.__func__) for k, name, v in own if isinstance(v, staticmethod) and APPLIES.search(name)]


def _functions(modeling: ModuleType) -> list[tuple[str, Callable[..., object]]]:
    return [(name, value) for name, value in vars(modeling).items() if isinstance(value, FunctionType)]


@contextmanager
def _patched(trace: MetaModel) -> Iterator[None]:
    """Note rotations, make angles for real, and leave out masks."""
    with ExitStack() as stack:
        stack.enter_context(setting(Tensor, "to", _stays(Tensor.to)))
        stack.enter_context(setting(torch, "arange", _counted(trace, torch.arange)))
        for kind in trace.angle_classes:
            stack.enter_context(setting(kind, "forward", _real(trace, kind.forward)))
        for name, function in _functions(trace.modeling):
            if "mask" in name and function.__module__ == "transformers.masking_utils":
                stack.enter_context(setting(trace.modeling, name, _nothing))
            elif APPLIES.search(name) and not NOT_APPLIES.search(name):
                stack.enter_context(setting(trace.modeling, name, _noted(trace, function)))
        for kind, name, function in _static(trace.modeling):
            if not NOT_APPLIES.search(name):
                stack.enter_context(setting(kind, name, staticmethod(_noted(trace, function))))
        yield


@contextmanager
def setting(target: Any, name: str, value: object) -> Iterator[None]:
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
    """Stand in the place of a function that makes a mask: no mask."""


def _on_cpu(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that makes real tensors where the default device is the meta device."""

    def made(*args: object, **kwargs: object) -> object:
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return made


def _real(trace: MetaModel, forward: Callable[..., object]) -> Callable[..., object]:
    """Return a forward that gives numbers: on a copy, as some modules remember earlier calls."""

    @wraps(forward)
    def called(self: nn.Module, *args: object, **kwargs: object) -> object:
        trace.makers.append(type(self).__name__)
        # the same parameters, buffers of its own
        fresh = copy.copy(self)
        fresh._buffers = {k: None if v is None else v.clone() for k, v in self._buffers.items()}
        create: Callable[[], Tensor] | None = getattr(fresh, "create_weight", None)
        if create is not None:  # RoFormer's table is made with the weights
            fresh._parameters = {"weight": nn.Parameter(create(), requires_grad=False)}
        real = [_zeros(value) for value in args]
        with torch.device("cpu"):
            return forward(fresh, *real, **{k: _zeros(v) for k, v in kwargs.items()})

    return called


def _zeros(value: object) -> object:
    """Return zeros that take no memory for a tensor without numbers."""
    if not isinstance(value, Tensor) or not _is_meta(value):
        return value
    if not value.is_floating_point():
        raise ValueError("the positions are not known")
    return torch.zeros((1,) * value.dim(), dtype=value.dtype, device="cpu").expand(value.shape)


def _noted(trace: MetaModel, function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that notes its arguments, and gives outputs of the right shapes on the meta device."""

    def called(*args: object, **kwargs: object) -> object:
        if not trace.depth:
            owner = sys._getframe(1).f_locals.get("self")
            places = tuple(map(_place, args)), {key: _place(value) for key, value in kwargs.items()}
            trace.layer.calls.append(RotaryCall(function, *places, type(owner).__name__, _head_dim(owner)))
        trace.depth += 1
        try:
            return function(*map(_meta, args), **{k: _meta(v) for k, v in kwargs.items()})
        finally:
            trace.depth -= 1

    return called


def _place(value: object) -> object:
    """Return the place of a tensor of queries or keys; any other value as it is."""
    if not isinstance(value, Tensor) or not _is_meta(value):
        return value
    # a part of a head is a view into it: its offset in the memory of a head is its first feature
    stride = max(value.stride()[:-1], default=1) if value.dim() < 3 else min(value.stride()[1:-1])
    first = int(value.storage_offset()) % stride if stride > value.shape[-1] else 0
    return RotatedArgument(tuple(value.shape), first if first + value.shape[-1] <= stride else 0)


def _head_dim(owner: object) -> int | None:
    """Return how many features the heads of an attention have, if it says so."""
    sizes = (getattr(owner, name, None) for name in ("qk_head_dim", "head_dim", "head_size", "attention_head_size"))
    return next((size for size in sizes if isinstance(size, int)), None)


def _meta(value: object) -> object:
    """Return tensors without numbers, of the same shapes."""
    if isinstance(value, tuple):
        return tuple(map(_meta, value))
    return torch.empty_like(value, device="meta") if isinstance(value, Tensor) else value


def _stays(to: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `Tensor.to` that leaves numbers where they are: on the meta device they would be lost."""

    def moved(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        if self.device.type == "meta":
            return to(self, *args, **kwargs)
        args = tuple(_dtype_alone(value) for value in args if not _names_meta(value))
        kwargs = {k: v for k, v in kwargs.items() if not _names_meta(v)}
        return to(self, *args, **kwargs) if args or kwargs else self

    return moved


def _dtype_alone(value: object) -> object:
    """Return a tensor without numbers as one that has a dtype and nothing else."""
    return torch.empty(0, dtype=value.dtype) if isinstance(value, Tensor) and _is_meta(value) else value


def _counted(trace: MetaModel, arange: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `torch.arange` that counts for real outside of layers: a model's own positions would be lost."""

    def counted(*args: object, **kwargs: object) -> Tensor:
        if trace.current:
            return arange(*args, **kwargs)
        return arange(*args, **{k: v for k, v in kwargs.items() if not _names_meta(v)})

    return counted


def _is_meta(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type == "meta"


def _names_meta(value: object) -> bool:
    return (isinstance(value, torch.device) and value.type == "meta") or value == "meta"
