"""How a model without weights is called: whole, with embeddings of tokens, or each of its attentions alone."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from posenc_models.asking.load import said
from posenc_models.asking.standing import setting
from posenc_models.asking.tracing import Enough, MetaModel, TracedLayer

ANGLES = ("position_embeddings", "rotary_pos_emb", "freqs_cis", "relative_position_embeddings")
"""Names of the arguments that hold cosines and sines together."""
STATES = ("encoder_hidden_states",)
"""Names of the arguments that hold an encoder's tokens: they are as wide as an attention's own."""


def call_model(trace: MetaModel, batch: int, length: int, positions: Tensor | None) -> None:
    """Call a model whole, with embeddings of (batch, length) tokens."""
    with ExitStack() as stack:
        for layer in _layers(trace.model):
            stack.enter_context(setting(layer, "forward", as_layer(trace, layer.forward)))
        trace.model.forward(**_inputs(trace.model, batch, length, positions))


def _layers(model: nn.Module) -> list[nn.Module]:
    """Return the members of the outermost lists of modules: of the only list as long as the config says, if any."""
    lists: list[nn.ModuleList] = []

    def walk(module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, nn.ModuleList):
                lists.append(child)
            else:
                walk(child)

    walk(model)
    as_long = [modules for modules in lists if len(modules) == getattr(model.config, "num_hidden_layers", None)]
    return [layer for modules in (as_long if len(as_long) == 1 else lists) for layer in modules]


def _inputs(model: nn.Module, batch: int, length: int, positions: Tensor | None) -> dict[str, object]:
    """Return the inputs of a model, under its own names."""
    names = inspect.signature(model.forward).parameters
    width = int(getattr(model.config, "hidden_size", None) or getattr(model.config, "n_embd", None) or 0)
    inputs: dict[str, object] = {}
    for name in ("inputs_embeds", "hidden_states", "input_embeds"):
        if name in names and "inputs_embeds" not in inputs:
            inputs[name] = torch.empty(batch, length, width, device="meta")
    if not inputs and "input_ids" in names:
        inputs["input_ids"] = torch.empty(batch, length, dtype=torch.int64, device="meta")
    if positions is not None and "position_ids" in names:
        inputs["position_ids"] = positions
    # a cache would keep tensors without numbers
    if "use_cache" in names:
        inputs["use_cache"] = False
    return inputs


def takes_positions(trace: MetaModel) -> bool:
    """Return whether a model takes the positions of its tokens."""
    if trace.run is call_model:
        return "position_ids" in _parameters(trace.model)
    return all("position_ids" in _parameters(module) for module in _makers(trace).values())


def call_attentions(trace: MetaModel, batch: int, length: int, positions: Tensor | None) -> None:
    """Call each attention of a model alone, with the cosines and sines of the nearest module that makes angles."""
    types = getattr(trace.model.config, "layer_types", None) or []
    for i, (name, attention) in enumerate(_attentions(trace.model).items()):
        call = Attending(batch, length, positions, types[i] if i < len(types) else None)
        as_layer(trace, partial(call, trace, name))(attention)


@dataclass(frozen=True)
class Attending:
    """A call of an attention alone: (batch, length) tokens at positions, in a layer of a type."""

    batch: int
    length: int
    positions: Tensor | None
    layer_type: str | None

    def __call__(self, trace: MetaModel, name: str, attention: nn.Module) -> None:
        """Call an attention by its name in the model, with tokens of its own width."""
        # the tokens are as wide as the first projection takes
        width = next(module.in_features for module in attention.modules() if isinstance(module, nn.Linear))
        x = torch.empty(self.batch, self.length, width, device="meta")
        known: dict[str, object] = {
            "position_ids": self.positions,
            "layer_type": self.layer_type,
            "seq_len": self.length,
        }
        angles = self._angles(_nearest(_makers(trace), name), x, known)
        known |= dict.fromkeys(ANGLES, angles)
        if isinstance(angles, tuple) and len(angles) == 2:
            known |= {"cos": angles[0], "sin": angles[1]}
        parameters = _parameters(attention)
        _, *more = parameters.values()  # the first takes the tokens
        required = [p.name for p in more if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        inputs = {name: x if name in STATES else None for name in required}
        attention.forward(x, **{**inputs, **{name: known[name] for name in parameters if name in known}})

    def _angles(self, maker: nn.Module | None, x: Tensor, known: Mapping[str, object]) -> object:
        """Return the cosines and sines, or the angles, at the positions."""
        if maker is None:
            return None
        names = list(_parameters(maker))
        return maker.forward(**{name: known.get(name, x) for name in names if name in known or name == names[0]})


def _attentions(model: nn.Module) -> dict[str, nn.Module]:
    """Return the innermost modules that take angles, or positions, by their names."""
    names = {*ANGLES, "cos", "position_ids"}
    named = {name: module for name, module in model.named_modules() if name and names & _parameters(module).keys()}
    own = {n: m for n, m in named.items() if any(isinstance(child, nn.Linear) for child in m.children())}
    return {n: m for n, m in own.items() if not any(inner.startswith(f"{n}.") for inner in own)}


def _makers(trace: MetaModel) -> dict[str, nn.Module]:
    """Return the modules that make angles, by their names."""
    return {name: m for name, m in trace.model.named_modules() if isinstance(m, trace.angle_classes)}


def _nearest(makers: Mapping[str, nn.Module], name: str) -> nn.Module | None:
    """Return the module that makes angles nearest to a module: their names share the longest beginning."""

    def shared(maker: str) -> int:
        pairs = zip(maker.split("."), name.split("."), strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), len(maker))

    return makers[max(makers, key=shared)] if makers else None


def _parameters(module: nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(module.forward).parameters


def as_layer(trace: MetaModel, forward: Callable[..., object]) -> Callable[..., object]:
    """Return a layer's forward that begins a layer of the trace, and gives its input where it fails."""

    def called(*args: object, **kwargs: object) -> object:
        layer = TracedLayer()
        trace.layers.append(layer)
        trace.current.append(layer)
        first = args[0] if args else next(iter(kwargs.values()))
        try:
            return forward(*args, **kwargs)
        except Enough:
            raise
        except Exception as error:
            layer.error = said(error)
            return first
        finally:
            trace.current.pop()
            if trace.last is not None and len(trace.layers) > trace.last and not trace.current:
                raise Enough

    return called
