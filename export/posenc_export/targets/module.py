"""What is exported: a registered scheme, or somebody's own module as package.module:factory."""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.hf import ModelConfig, read_config
from posenc.scheme import SCHEMES, Encoding, Feeds, Form, Port, Tolerance, build
from posenc_export.arrays import FLOATS, Array, numpy_dtype, to_numpy, to_torch
from posenc_export.cli.parameters import ABSENT, REQUIRED, parameters_of, parse_parameters
from posenc_export.cli.ports import parse_ports
from posenc_export.errors import BadInput, bad_input, first_line
from posenc_export.validation.plan import Case, axes_of, feeds_for, is_length, trace_sizes

if TYPE_CHECKING:
    from torch import nn

OWN_FLOAT64 = "the module itself in float64 (it has no oracle)"
ORACLE = "the scheme's float64 oracle"


@dataclass(frozen=True)
class Subject:
    """An encoding with the name and the parameters it was asked for by.

    truth: what its outputs are held against, in words. declared: whether its error bound comes from mathematics.
    origin: for parameters that were read from a file, where from.
    """

    name: str
    encoding: Encoding
    form: Form
    params: Mapping[str, Any]
    truth: str = ORACLE
    declared: bool = True
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The default name of its bundle."""
        return f"{self.name.rpartition(':')[2]}-{self.form.mode}"


def resolve(name: str, form: Form, params: tuple[str, ...], inputs: tuple[str, ...], seed: int) -> Subject:
    """Return what NAME stands for; raise BadInput, in one line, where it stands for nothing that can be exported."""
    import torch

    torch.manual_seed(seed)
    if ":" in name:
        return _own_module(name, form, params, inputs, seed)
    if inputs:
        raise BadInput(f"-i gives the inputs of package.module:factory; the scheme {name} has its own")
    with bad_input():
        scheme = SCHEMES[name]
        known = parameters_of(scheme.build)
        values = parse_parameters(params, known, name)
        encoding = build(name, form, **values)
    defaults = {k: p.default for k, p in known.items() if p.default not in (REQUIRED, ABSENT)}
    return Subject(name, encoding, form, {**defaults, **values})


def from_config(config: ModelConfig, form: Form, params: tuple[str, ...], seed: int) -> Subject:
    """Return the rotary encoding that a model's config.json describes; parameters given as texts are stronger."""
    import torch

    torch.manual_seed(seed)
    with bad_input():
        scheme = config.scheme
        known = parameters_of(SCHEMES[scheme].build)
        read = read_config(config, overrides=parse_parameters(params, known, scheme))
        encoding = build(scheme, form, **read.parameters)
    defaults = {k: p.default for k, p in known.items() if p.default not in (REQUIRED, ABSENT)}
    source = {} if config.path is None else {"config": config.path.as_posix()}
    origin = {**source, **read.origin}
    return Subject(scheme, encoding, form, {**defaults, **read.parameters}, origin=origin)


def _own_module(name: str, form: Form, params: tuple[str, ...], inputs: tuple[str, ...], seed: int) -> Subject:
    factory = _import_factory(name)
    with bad_input():
        ports = parse_ports(inputs)
        known = parameters_of(factory) if callable(factory) else {}
        values = parse_parameters(params, known, name)
    module = _call(name, factory, values)
    if not ports:
        raise BadInput(f"{name}: say what goes in, as -i 'x: float32[batch, seq, 512]'")
    return Subject(name, own_encoding(module, ports, form, seed), form, values, truth=OWN_FLOAT64, declared=False)


def _import_factory(name: str) -> Any:
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise BadInput(f"{name}: no module {module_name!r} in the current folder or installed") from error
        raise BadInput(f"{name}: importing {module_name} failed: {first_line(error)}") from error
    except Exception as error:
        raise BadInput(
            f"{name}: importing {module_name} failed: {type(error).__name__}: {first_line(error)}"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise BadInput(f"{name}: {module_name} has no {attribute!r}")
        found = getattr(found, part)
    return found


def _call(name: str, factory: Any, values: Mapping[str, Any]) -> nn.Module:
    from torch import nn

    if isinstance(factory, nn.Module):
        return factory.eval()
    if not callable(factory):
        raise BadInput(f"{name} is a {type(factory).__name__}: expected an nn.Module, its class, or a function of one")
    missing = [k for k, p in parameters_of(factory).items() if p.default is REQUIRED and k not in values]
    if missing:
        raise BadInput(f"{name} needs {', '.join(missing)}: give -p {missing[0]}=VALUE")
    try:
        module = factory(**values)
    except Exception as error:
        raise BadInput(f"{name} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise BadInput(f"{name} returned a {type(module).__name__}: expected an nn.Module")
    return module.eval()


def own_encoding(module: nn.Module, ports: tuple[Port, ...], form: Form, seed: int) -> Encoding:
    """Describe somebody's module: its outputs are found by running it at two sets of sizes, its truth is itself."""
    draft = Encoding(module, ports, (), lambda *_: {}, lambda _: Tolerance(), lambda _: Tolerance())
    sizes = trace_sizes(draft, set(), form.max_len)
    other = {axis: (n + 2 if n + 2 <= form.max_len or not is_length(axis) else n - 1) for axis, n in sizes.items()}
    probe = copy.deepcopy(module)  # the module itself must reach its first export uncalled
    first, second = (_run(probe, ports, Case("probe", s), seed) for s in (sizes, other))
    if [(a.ndim, a.dtype) for a in first] != [(a.ndim, a.dtype) for a in second]:
        raise BadInput("the module returns other outputs at another length: expected the same number, ranks and dtypes")
    axes = {sizes[a]: a for a in axes_of(ports)}
    outputs = tuple(
        Port(
            "y" if len(first) == 1 else f"y{i}",
            tuple(_axis(one.shape[d], two.shape[d], axes, d) for d in range(one.ndim)),
            one.dtype.name,
        )
        for i, (one, two) in enumerate(zip(first, second, strict=True))
    )
    return replace(draft, outputs=outputs, truth=_OwnTruth(module, ports, outputs))


def _axis(one: int, two: int, axes: Mapping[int, str], index: int) -> str | int:
    return one if one == two else axes.get(one, f"axis{index}")


def _run(module: nn.Module, ports: tuple[Port, ...], case: Case, seed: int) -> list[Array]:
    feeds = feeds_for(ports, case, seed)
    try:
        return run_eager(module, [feeds[port.name] for port in ports])
    except Exception as error:
        told = ", ".join(f"{port.name} {case.shape(port)}" for port in ports)
        raise BadInput(f"the module itself fails on {told}: {type(error).__name__}: {first_line(error)}") from error


def run_eager(module: nn.Module, args: list[Array]) -> list[Array]:
    """Run a module on arrays and return its outputs as arrays, in order."""
    import torch

    with torch.no_grad():
        return flatten(module(*(to_torch(a) for a in args)))


def flatten(outputs: Any) -> list[Array]:
    """Return the tensors of an output, which may be one, or a tuple, list or dict of them, as arrays."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_leaves(outputs)
    wrong = next((leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)), None)
    if wrong is not None or not leaves:
        raise TypeError(f"outputs must be tensors, got {type(wrong).__name__}")
    return [to_numpy(leaf) for leaf in leaves]


class _OwnTruth:
    """The truth of a module without an oracle: a copy of it in float64."""

    def __init__(self, module: nn.Module, ports: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        self.module = copy.deepcopy(module).double()
        self.ports = ports
        self.outputs = outputs

    def __call__(self, feeds: Feeds, at: Array | None = None) -> dict[str, Array]:
        """Return the outputs in float64; raise TypeError where the module cannot run in it."""
        wide = numpy_dtype("float64")
        args = [feeds[p.name].astype(wide) if p.dtype in FLOATS else feeds[p.name] for p in self.ports]
        try:
            outputs = run_eager(self.module, args)
        except RuntimeError as error:
            raise TypeError(f"the module does not run in float64: {first_line(error)}") from error
        return {port.name: out for port, out in zip(self.outputs, outputs, strict=True)}
