"""A user's own module as a target: package.module:factory, a module, its class, or a function of one."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.encoding import CaseLike, Encoding, Tolerance, no_tables
from posenc.parameters import check, check_required, parameters_of
from posenc.ports import Array, Axis, Feeds, Integers, Port, Positions, Start, axes_of, fixed
from posenc.spec import Spec
from posenc_export.arrays import FLOATS, call_on_arrays, flatten, numpy_dtype, tensors_of, to_torch
from posenc_export.bundle.case import Case
from posenc_export.errors import BadInput, bad_input, first_line
from posenc_export.targets import OWN_FLOAT64, Target
from posenc_export.targets.by_patches import in_whole_patches
from posenc_export.targets.copies import Copies, copy_of
from posenc_export.validation.feeds import feeds_for
from posenc_export.validation.sizes import advice, most_terms, other_sizes, trace_sizes

if TYPE_CHECKING:
    from torch import nn

NO_TABLES = no_tables("it takes this package's encodings: what a module of your own stores is not known")


@in_whole_patches
def module_target(
    source: object, ports: tuple[Port, ...], spec: Spec, parameters: Mapping[str, object], seed: int
) -> Target:
    """Return a user's module with the ports that go in.

    source: "package.module:factory", or what such a text names: an nn.Module, its class, or a function of one.
    Raises BadInput, in one line, where that is nothing that can be exported.
    """
    import torch

    torch.manual_seed(seed)
    name = source if isinstance(source, str) else name_of(source)
    factory = import_factory(name) if isinstance(source, str) else source
    module, values = _made(name, factory, parameters)
    if not ports:
        raise BadInput(f"{name}: say what goes in, as -i 'x: float32[batch, seq, 512]'")

    def again() -> nn.Module:
        torch.manual_seed(seed)
        return _made(name, factory, parameters)[0]

    encoding = own_encoding(module, ports, spec.max_len, seed, again)
    return Target(name, encoding, replace(spec, mode="dynamic"), values, reference=OWN_FLOAT64, declared=False)


def name_of(source: object) -> str:
    """Return what a module, a class or a function is called."""
    named = source if inspect.isclass(source) or inspect.isroutine(source) else type(source)
    words = re.findall(r"\w+", named.__name__)
    return f"{named.__module__}:{'_'.join(words)}"


def import_factory(name: str) -> Any:
    """Return what package.module:factory names, in the current folder or installed; raise BadInput where nothing."""
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    part: Any = _imported(name, module_name)
    for step in attribute.split("."):
        if not hasattr(part, step):
            raise BadInput(f"{name}: {module_name} has no {attribute!r}")
        part = getattr(part, step)
    return part


def _imported(name: str, module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise BadInput(f"{name}: no module {module_name!r} in the current folder or installed") from error
        raise BadInput(f"{name}: importing {module_name} failed: {first_line(error)}") from error
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise BadInput(f"{name}: importing {module_name} failed: {reason}") from error


def _made(name: str, factory: object, parameters: Mapping[str, object]) -> tuple[nn.Module, dict[str, object]]:
    """Return the module that a factory makes, and the parameters it is made with."""
    from torch import nn

    known = parameters_of(factory) if callable(factory) and not isinstance(factory, nn.Module) else {}
    with bad_input():
        values = check(parameters, known, name)
    if isinstance(factory, nn.Module):
        # A module in training is the caller's to go on with.
        return (copy_of(factory).eval() if factory.training else factory), values
    if not callable(factory):
        raise BadInput(f"{name} is a {type(factory).__name__}: expected an nn.Module, its class, or a function of one")
    with bad_input():
        check_required(values, known, name)
    try:
        module = factory(**values)
    except (Exception, SystemExit) as error:  # a script that ends itself would end the tool with its status
        raise BadInput(f"{name} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise BadInput(f"{name} returned a {type(module).__name__}: expected an nn.Module")
    return module.eval(), values


def own_encoding(
    module: nn.Module, ports: tuple[Port, ...], max_len: int, seed: int, again: Callable[[], nn.Module]
) -> Encoding:
    """Describe somebody's module: its outputs show when it runs at two sets of sizes, its reference is itself.

    The module is never called: copies of it are, or, where it cannot be copied, what `again` makes.
    """
    from posenc_export.targets.calling import in_a_row

    draft = Encoding("module", module, ports, (), lambda *_: {}, _no_tolerance, _no_tolerance, NO_TABLES)
    copies = Copies(module, again)
    probes = _probe_sizes(draft, max_len)
    wrap = in_a_row(copies.fresh(), ports, lambda fresh: _called(fresh, ports, probes[0], seed))
    if wrap is not None:
        copies = Copies(wrap(module), lambda: wrap(again()))
        draft = replace(draft, module=copies.module)
    called = [flatten(_called(copies.fresh(), ports, sizes, seed)) for sizes in probes]
    outputs = _outputs(ports, probes, called)
    ends = [port.carries.end for port in ports if isinstance(port.carries, Positions | Start) and port.carries.end]
    reference = _OwnReference(copies, ports, outputs)
    return replace(draft, outputs=outputs, reference=reference, end=min(ends, default=None), fresh=copies.fresh)


def _probe_sizes(draft: Encoding, max_len: int) -> list[dict[str, int]]:
    """Return the sizes to trace with, and two more sets, by which the axes of outputs are known."""
    sizes = trace_sizes(draft, set(), max_len)
    other = other_sizes(draft.inputs, sizes, max_len)
    most = max_len // most_terms(draft.inputs)
    long = {
        axis.name: axis.allowed(2 * sizes[axis.name] + 1, min(most, axis.most or most))
        for axis in axes_of(draft.inputs)
        if axis.is_length
    }
    return [sizes, other, {**other, **long}]


def _outputs(
    ports: tuple[Port, ...], probes: Sequence[Mapping[str, int]], called: Sequence[Sequence[Array]]
) -> tuple[Port, ...]:
    """Return the outputs; raise BadInput where they are not as many, of the same ranks and dtypes, in every call."""
    if any([(a.ndim, a.dtype) for a in one] != [(a.ndim, a.dtype) for a in called[0]] for one in called):
        raise BadInput("the module returns other outputs at another length: expected the same number, ranks and dtypes")
    axes = {axis.name: axis for port in ports for axis in port.dynamic.values()}
    by_sizes = [(tuple(axis.size_in(sizes) for sizes in probes), axis) for axis in axes.values()]
    names = ["y"] if len(called[0]) == 1 else [f"y{i}" for i in range(len(called[0]))]
    each = zip(names, zip(*called, strict=True), strict=True)
    return tuple(_output(_free_name(name, ports), arrays, by_sizes) for name, arrays in each)


def _free_name(name: str, ports: tuple[Port, ...]) -> str:
    """Return a name for an output that no input has."""
    return name if all(port.name != name for port in ports) else _free_name(f"{name}_out", ports)


def _no_tolerance(case: CaseLike) -> Tolerance:
    """Allow nothing: what a module without a reference may be off by, its golden data say."""
    return Tolerance()


def _output(name: str, arrays: Sequence[Array], axes: Sequence[tuple[tuple[int, ...], Axis]]) -> Port:
    """Return an output whose axes are those of inputs that have its sizes in every call, where there is one alone."""
    shape = []
    for i, sizes in enumerate(zip(*(array.shape for array in arrays), strict=True)):
        fitting = [axis for all_, axis in axes if all_ == sizes]
        named = fitting[0] if len(fitting) == 1 else Axis(f"axis{i}", "length")
        shape.append(fixed(sizes[0]) if len(set(sizes)) == 1 else named)
    return Port(name, tuple(shape), arrays[0].dtype.name)


def _called(module: nn.Module, ports: tuple[Port, ...], sizes: Mapping[str, int], seed: int) -> object:
    """Return what a module gives at some sizes; raise BadInput where it fails, or where that is not tensors."""
    import torch

    feeds = feeds_for(ports, Case("probe", sizes), seed)
    try:
        with torch.no_grad():
            outputs = module(*(to_torch(feeds[port.name]) for port in ports))
    except Exception as error:
        shapes = ", ".join(f"{port.name} {port.shape(sizes)}" for port in ports)
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise BadInput(f"the module itself fails on {shapes}: {reason}{advice(ports, sizes)}") from error
    try:
        tensors_of(outputs)
    except TypeError as error:
        raise BadInput(f"the module's {first_line(error)}: leave it out of what forward returns") from error
    return outputs


class _OwnReference:
    """The reference of a module that has none: a copy of it in float64."""

    def __init__(self, copies: Copies, ports: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        self.copies = copies
        self.ports = ports
        self.outputs = outputs

    def __call__(self, feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        """Return the outputs in float64; raise TypeError where the module cannot run in it."""
        wide = numpy_dtype("float64")
        args = [feeds[p.name].astype(wide) if p.dtype in FLOATS else feeds[p.name] for p in self.ports]
        try:
            outputs = call_on_arrays(self.copies.wide(), args)
        except RuntimeError as error:
            raise TypeError(f"the module does not run in float64: {first_line(error)}") from error
        return {port.name: out for port, out in zip(self.outputs, outputs, strict=True)}
