"""What a user's module gives: its outputs, and whose sizes their axes have, as calls at a few sizes show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.ports import Array, Axis, Port, axes_of, fixed
from posenc_export.arrays import DTYPES, flatten, tensors_of, to_torch
from posenc_export.bundle.case import Case
from posenc_export.errors import BadInput, first_line
from posenc_export.validation.planning.feeds import feeds_for
from posenc_export.validation.planning.sizes import advice, elements, most_terms, other_sizes, trace_sizes

if TYPE_CHECKING:
    from torch import Tensor, nn

Fresh = Callable[[], "nn.Module"]
Sizes = Mapping[str, int]
SMALL = 2**16
"""Elements of an input up to which the longest call shows what outputs are like, too."""


def outputs_of(fresh: Fresh, draft: Encoding, max_len: int, seed: int) -> tuple[Port, ...]:
    """Return the outputs of a module, of which `fresh` makes copies; raise BadInput where it fails at usual sizes.

    Sizes at which modules fail more often (1, the longest, the lengths exchanged) are tried, too: an axis that is
    another one's at most sizes is not always.
    """
    ports = draft.inputs
    usual = probe_sizes(draft, max_len)
    calls = [(sizes, flatten(called(fresh(), ports, sizes, seed))) for sizes in usual]
    for sizes in _unusual_sizes(ports, usual[-1], max_len):
        try:
            calls.append((sizes, flatten(called(fresh(), ports, sizes, seed))))
        except BadInput:
            continue
    return _outputs(ports, [sizes for sizes, _ in calls], [arrays for _, arrays in calls])


def probe_sizes(draft: Encoding, max_len: int) -> list[dict[str, int]]:
    """Return the sizes to trace with, and two more sets, by which the axes of outputs are known."""
    sizes = trace_sizes(draft.inputs, set(), max_len)
    other = other_sizes(draft.inputs, sizes, max_len)
    most = max_len // most_terms(draft.inputs)
    long = {
        axis.name: axis.allowed(2 * sizes[axis.name] + 1, min(most, axis.most or most))
        for axis in axes_of(draft.inputs)
        if axis.is_length
    }
    return [sizes, other, {**other, **long}]


def _unusual_sizes(ports: tuple[Port, ...], sizes: Sizes, max_len: int) -> list[dict[str, int]]:
    """Return the least sizes, the lengths in the opposite order and, where that is a small call, the longest ones."""
    axes, most = axes_of(ports), max_len // most_terms(ports)
    lengths = [axis for axis in axes if axis.is_length]
    least = {axis.name: axis.allowed(1) for axis in axes}
    opposite = {
        axis.name: axis.allowed(sizes[other.name], min(most, axis.most or most))
        for axis, other in zip(lengths, reversed(lengths), strict=True)
    }
    end = {axis.name: axis.allowed(axis.most or most, min(most, axis.most or most)) for axis in lengths}
    sets = [least, {**sizes, **opposite}, {**least, **end}]
    return [one for one in sets if one != sizes and elements(ports, one) <= SMALL]


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


def _output(name: str, arrays: Sequence[Array], axes: Sequence[tuple[tuple[int, ...], Axis]]) -> Port:
    """Return an output whose axes are those of inputs that have its sizes in every call, where there is one alone.

    Any other axis of several sizes has a name of its own.
    """
    taken = {axis.name for _, axis in axes}
    shape = []
    for i, sizes in enumerate(zip(*(array.shape for array in arrays), strict=True)):
        fitting = [axis for all_, axis in axes if all_ == sizes]
        named = fitting[0] if len(fitting) == 1 else Axis(_unlike(f"{name}_axis{i}", taken), "length")
        shape.append(fixed(sizes[0]) if len(set(sizes)) == 1 else named)
    return Port(name, tuple(shape), arrays[0].dtype.name)


def _unlike(name: str, taken: set[str]) -> str:
    return name if name not in taken else _unlike(f"{name}_", taken)


def called(module: nn.Module, ports: tuple[Port, ...], sizes: Mapping[str, int], seed: int) -> object:
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
        tensors = tensors_of(outputs)
    except TypeError as error:
        raise BadInput(f"the module's {first_line(error)}: leave it out of what forward returns") from error
    for number, tensor in enumerate(tensors):
        _check_dtype(tensor, f"output {number}" if len(tensors) > 1 else "output")
    return outputs


def _check_dtype(tensor: Tensor, name: str) -> None:
    """Raise BadInput where a graph's output cannot be of the dtype of a tensor, or of its layout."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_complex():
        raise BadInput(
            f"the module's {name} is {dtype}, and graphs give real numbers: return torch.view_as_real of it, whose "
            "last axis has the real and the imaginary part"
        )
    if dtype not in DTYPES:
        raise BadInput(f"the module's {name} is {dtype}: expected one of {', '.join(DTYPES)}; convert it in forward")
    if str(tensor.layout) != "torch.strided":
        raise BadInput(f"the module's {name} is {str(tensor.layout).removeprefix('torch.')}: return its to_dense()")
