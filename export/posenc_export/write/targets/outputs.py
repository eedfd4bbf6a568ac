"""The outputs of a user's module, and whose sizes their axes have, as calls at a few sizes show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.ports import Array, Axis, Port, axes_of, fixed
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import DTYPES, flatten, tensors_of, to_torch
from posenc_export.common.errors import BadInput, first_line
from posenc_export.common.names import in_runs
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import advice, elements, most_terms, other_sizes, trace_sizes

if TYPE_CHECKING:
    from torch import Tensor, nn

Fresh = Callable[[], "nn.Module"]
Sizes = Mapping[str, int]
SMALL = 2**16
"""Elements of an input up to which the largest call shows its outputs, too."""


def outputs_of(fresh: Fresh, draft: Encoding, max_len: int, seed: int) -> tuple[Port, ...]:
    """Return the outputs of a module; raise BadInput where it fails at usual sizes.

    Sizes at which modules fail more often (1, the largest, the lengths exchanged) are tried, too: an output's axis may
    follow one input's axis at most sizes, and another at these.

    Args:
        fresh: Makes a copy of the module.
        draft: The encoding, without its outputs.
        max_len: The largest length.
        seed: For the numbers that go in.
    """
    ports = draft.inputs
    usual = probe_sizes(draft, max_len)
    calls = [(sizes, flatten(called(fresh(), ports, sizes, seed))) for sizes in usual]
    for sizes in _unusual_sizes(ports, usual[-1], max_len):
        with suppress(BadInput):
            calls.append((sizes, flatten(called(fresh(), ports, sizes, seed))))
    return _outputs(ports, calls)


def probe_sizes(draft: Encoding, max_len: int) -> list[dict[str, int]]:
    """Return the sizes to trace with, and two more sets, by which the axes of outputs are known."""
    sizes = trace_sizes(draft.inputs, set(), max_len)
    unlike = other_sizes(draft.inputs, sizes, max_len)
    longer = {
        axis.name: axis.allowed(2 * sizes[axis.name] + 1, _max_length(axis, draft.inputs, max_len))
        for axis in axes_of(draft.inputs)
        if axis.is_length
    }
    return [sizes, unlike, {**unlike, **longer}]


def _max_length(axis: Axis, ports: tuple[Port, ...], max_len: int) -> int:
    """Return the largest size of a length: a sum of lengths must not be longer than max_len."""
    end = max_len // most_terms(ports)
    return min(end, axis.most or end)


def _unusual_sizes(ports: tuple[Port, ...], sizes: Sizes, max_len: int) -> list[dict[str, int]]:
    """Return the least sizes, the lengths in the opposite order and, where that is a small call, the largest."""
    axes = axes_of(ports)
    lengths = [axis for axis in axes if axis.is_length]
    least = {axis.name: axis.allowed(1) for axis in axes}
    opposite = {
        axis.name: axis.allowed(sizes[mirrored.name], _max_length(axis, ports, max_len))
        for axis, mirrored in zip(lengths, reversed(lengths), strict=True)
    }
    max_lengths = {axis.name: _max_length(axis, ports, max_len) for axis in lengths}
    end = {axis.name: axis.allowed(axis.most or max_lengths[axis.name], max_lengths[axis.name]) for axis in lengths}
    sets: list[dict[str, int]] = [least, {**sizes, **opposite}, {**least, **end}]
    return [unusual for unusual in sets if unusual != sizes and elements(ports, unusual) <= SMALL]


def _outputs(ports: tuple[Port, ...], calls: Sequence[tuple[Sizes, Sequence[Array]]]) -> tuple[Port, ...]:
    """Return the outputs; raise BadInput where they are not as many, of the same ranks and dtypes, in every call."""
    kinds = {tuple((array.ndim, array.dtype) for array in arrays) for _, arrays in calls}
    if len(kinds) > 1:
        raise BadInput("the module returns other outputs at another length: expected the same number, ranks and dtypes")
    axes = {axis.name: axis for port in ports for axis in port.dynamic.values()}
    by_sizes = [
        [(tuple(axis.size_in(sizes) for sizes, _ in calls), axis) for axis in some]
        for some in (axes.values(), _sums(axes))
    ]
    columns = list(zip(*(arrays for _, arrays in calls), strict=True))  # the arrays of one output in every call
    names = ["y"] if len(columns) == 1 else [f"y{i}" for i in range(len(columns))]
    taken = {port.name for port in ports}
    return tuple(_output(_free(name, taken, "_out"), c, by_sizes) for name, c in zip(names, columns, strict=True))


def _sums(axes: Mapping[str, Axis]) -> Iterator[Axis]:
    """Yield the sums of two lengths that no input has: a cache is as long as what was cached and what is new."""
    lengths = [axis for axis in axes.values() if axis.is_length and not axis.is_formula]
    for first, second in combinations(lengths, 2):
        if not {f"{first.name}+{second.name}", f"{second.name}+{first.name}"} & axes.keys():
            yield Axis(f"{second.name}+{first.name}", "length")


def _output(name: str, arrays: Sequence[Array], axes: Sequence[Sequence[tuple[tuple[int, ...], Axis]]]) -> Port:
    """Return an output; its axis is that of an input which alone has its sizes in every call, or a sum of two.

    Any other axis of several sizes has a name of its own.

    Args:
        name: Its name.
        arrays: The output in every call.
        axes: The axes of inputs with their sizes in every call, and their sums.
    """
    taken = {axis.name for some in axes for _, axis in some}
    shape = []
    for i, sizes in enumerate(zip(*(array.shape for array in arrays), strict=True)):
        fits = ([axis for of_inputs, axis in some if of_inputs == sizes] for some in axes)
        fitting = next(filter(None, fits), [])
        named = fitting[0] if len(fitting) == 1 else Axis(_free(f"{name}_axis{i}", taken, "_"), "length")
        # one size in every call: the axis does not depend on the inputs
        shape.append(fixed(sizes[0]) if len(set(sizes)) == 1 else named)
    return Port(name, tuple(shape), arrays[0].dtype.name)


def _free(name: str, taken: set[str], suffix: str) -> str:
    """Return a name that is not taken: with the suffix as often as it takes."""
    return name if name not in taken else _free(f"{name}{suffix}", taken, suffix)


def called(module: nn.Module, ports: tuple[Port, ...], sizes: Sizes, seed: int) -> object:
    """Return the outputs of a module at some sizes; raise BadInput where it fails, or gives something but tensors."""
    import torch

    feeds = feeds_for(ports, Case("probe", sizes), seed)
    try:
        with torch.no_grad():
            outputs = module(*(to_torch(feeds[port.name]) for port in ports))
    except Exception as error:
        by_shape: dict[tuple[int, ...], list[str]] = {}
        for port in ports:
            by_shape.setdefault(port.shape(sizes), []).append(port.name)
        shapes = ", ".join(f"{in_runs(names)} {shape}" for shape, names in by_shape.items())
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
    # 8-bit floats and others that no runtime here takes
    if dtype not in DTYPES:
        raise BadInput(f"the module's {name} is {dtype}: expected one of {', '.join(DTYPES)}; convert it in forward")
    if str(tensor.layout) != "torch.strided":
        raise BadInput(f"the module's {name} is {str(tensor.layout).removeprefix('torch.')}: return its to_dense()")
