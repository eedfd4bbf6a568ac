"""Assumptions that are tried: a program is run at sizes that break what torch.export assumed of them.

Many branches change no number: a table that is interpolated to its own size, a padding of length 0. Where graph and
module agree, the assumption is a note, and the sizes are among those that every runtime is run at.

torch.export assumes that no computed size is 0 or 1 (no rows left, a single key), and a loaded program refuses calls
that break an assumption. The guards of a scheme's program (pt2, aoti) that valid calls break are removed, after the
graph agreed with the module in such calls, also for one token; where it does not agree, the export fails. Of a user's
module, those are removed that short calls break in which the graph agrees: a token behind an empty cache.
Guards on calls that the module itself refuses stay, and so do all others of a user's module.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from posenc.ports import axes_of
from posenc_export.common.arrays import tensors_of
from posenc_export.common.errors import ExportFailed
from posenc_export.write.formats import WriteRequest, quiet
from posenc_export.write.formats.calls import ModuleCalls, Sizes
from posenc_export.write.formats.guards import Broken, breaking_sizes, in_words, too_narrow

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.export import ExportedProgram

LEFT_OUT = 3
"""Sizes of an axis that an error advises to leave out."""
SHORT = (0, 1, 2, 3)
"""Sizes of short calls."""
SHORT_CALLS = 12
"""Short calls of a user's module that are tried where a program refuses them."""
GRAINS = 64
"""Eps of the scale by which a graph may differ here; on runtimes the tolerances of a module are held."""


def holds_anyway(program: ExportedProgram, calls: ModuleCalls, request: WriteRequest, broken: Broken) -> bool:
    """Return whether a program agrees with the module in every call that was tried and breaks an assumption."""
    import torch

    if request.at is None or not broken.tried:
        return False
    with quiet(), torch.no_grad():
        run = _without_assertions(program)
        return all(agrees(run, calls, request.at(sizes)) for sizes in broken.tried)


def way_out(program: ExportedProgram, calls: ModuleCalls, request: WriteRequest, broken: Broken) -> str:
    """Return how `-i` leaves out the sizes at which a module differs from a program; nothing where they are many.

    A module that takes a stored table as it is at the table's own size differs there alone.
    """
    import torch

    if request.at is None or "!=" not in broken.words:
        return ""
    with quiet(), torch.no_grad():
        run = _without_assertions(program)
        differing = [sizes for sizes in broken.tried if not agrees(run, calls, request.at(sizes))]
    axes = [axis for axis in axes_of(calls.inputs) if axis.is_length]
    sizes = {axis.name: sorted({call[axis.name] for call in differing}) for axis in axes}
    if not sizes or not all(0 < len(several) <= LEFT_OUT for several in sizes.values()):
        return ""
    texts = [
        f"'{axis.name}{f' % {axis.multiple}' * (axis.multiple > 1)}{''.join(f' != {n}' for n in sizes[axis.name])}'"
        for axis in axes
    ]
    words = "that size" if len(differing) == 1 else "such sizes"
    return f"; leave {words} out by {' and '.join(texts)} in -i: the file then holds for all others, and refuses it"


def drop_unneeded_guards(
    program: ExportedProgram, module: nn.Module, calls: ModuleCalls, request: WriteRequest
) -> None:
    """Remove guards that valid calls violate although the results agree.

    Raises ExportFailed where the results differ.
    """
    import torch

    if request.at is None:
        return
    with quiet(), torch.no_grad():
        run = _without_assertions(program)
        for guard, tried in list(too_narrow(program, module, calls, request.max_len)):
            if not all(agrees(run, calls, request.at(sizes)) for sizes in tried):
                raise ExportFailed(str(Broken(in_words(guard, module, calls.inputs), tried[0])))
            program._guards_code.remove(guard)


def loosen(program: ExportedProgram, module: nn.Module, calls: ModuleCalls, sizes: Sequence[Sizes]) -> None:
    """Have a program take calls of sizes that it assumed away, and at which it was seen to be right.

    What is left of its assumptions holds at all of these sizes. Assertions about sizes are removed, and no others.
    """
    from torch.utils._sympy.value_ranges import ValueRanges

    if not sizes:
        return
    guards = program._guards_code
    guards[:] = [guard for guard in guards if not breaking_sizes(guard, module, calls.inputs, sizes)]
    placeholders = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    # parameters and buffers are placeholders, too, before the inputs
    for port, value in zip(calls.inputs, placeholders[len(placeholders) - len(calls.inputs) :], strict=True):
        for index, axis in port.dynamic.items():
            symbol = value.shape[index].node.expr
            bounds = program.range_constraints.get(symbol)
            if bounds is not None:
                taken = [axis.size_in(call) for call in sizes]
                ends = min(int(bounds.lower), *taken), max(bounds.upper, *taken)
                # as wide as what was tried, and no wider
                program.range_constraints[symbol] = ValueRanges(*ends)
    _erase_assertions(program.graph)
    program.graph_module.recompile()


def short_calls(program: ExportedProgram, module: nn.Module, calls: ModuleCalls, request: WriteRequest) -> list[Sizes]:
    """Return the sizes of short calls that a program refuses, and in which it gives what the module gives.

    Some are tried, of each length; none are returned where one of them differs. torch.export assumes two of everything:
    of an axis that is a sum, two of each of its terms. A single token behind a cache of one breaks that, and a loaded
    program would refuse it.
    """
    import torch

    if request.at is None:
        return []
    axes = axes_of(calls.inputs)
    # a cache may be empty, which no axis says
    choices = [
        sorted({0 if n == 0 and axis.is_length else axis.allowed(n * axis.multiple) for n in SHORT}) for axis in axes
    ]
    candidates = [dict(zip((axis.name for axis in axes), sizes, strict=True)) for sizes in product(*choices)]
    refused = [sizes for sizes in candidates if _is_refused(program, module, calls, sizes)]
    tried = calls.taken(refused, SHORT_CALLS)
    with quiet(), torch.no_grad():
        run = _without_assertions(program)
        return tried if all(agrees(run, calls, request.at(sizes)) for sizes in tried) else []


def _is_refused(program: ExportedProgram, module: nn.Module, calls: ModuleCalls, sizes: Sizes) -> bool:
    """Return whether a call of these sizes breaks a guard of a program, or is shorter than it takes."""
    placeholders = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    for port, value in zip(calls.inputs, placeholders[len(placeholders) - len(calls.inputs) :], strict=True):
        for index, axis in port.dynamic.items():
            bounds = program.range_constraints.get(value.shape[index].node.expr)
            # a lower end of two is none: a loaded program takes one, too
            if bounds is not None and bounds.lower > 2 and axis.size_in(sizes) < bounds.lower:
                return True
    return any(breaking_sizes(guard, module, calls.inputs, [sizes]) for guard in program._guards_code)


def _without_assertions(program: ExportedProgram) -> torch.fx.GraphModule:
    """Return what a file holds of a program: no assertion about sizes."""
    module = program.module(check_guards=False)
    # the hook checks the inputs against guards and ranges
    module._forward_pre_hooks.clear()
    _erase_assertions(module.graph)
    module.recompile()
    return module


def _erase_assertions(graph: torch.fx.Graph) -> None:
    """Remove assertions about sizes; those about numbers of a tensor are the module's own, and stay."""
    import torch

    for node in list(graph.nodes):
        if "_assert" not in str(node.target) or node.users:
            continue
        of_tensor = any(isinstance(one.meta.get("val"), torch.Tensor) for one in node.all_input_nodes)
        is_own = of_tensor and "_assert_tensor_metadata" not in str(node.target)
        if not is_own and not any(map(_is_number_of_tensor, _made_of(node))):
            graph.erase_node(node)


def _made_of(node: torch.fx.Node) -> set[torch.fx.Node]:
    """Return the nodes whose sizes and numbers, but no tensors, a node is computed of."""
    import torch

    found: set[torch.fx.Node] = set()
    waiting = list(node.all_input_nodes)
    while waiting:
        one = waiting.pop()
        if one not in found and not isinstance(one.meta.get("val"), torch.Tensor):
            found.add(one)
            waiting += one.all_input_nodes
    return found


def _is_number_of_tensor(node: torch.fx.Node) -> bool:
    """Return whether a node takes a number out of a tensor, as `item` does."""
    return any(name in str(node.target) for name in ("_local_scalar_dense", "item"))


def agrees(run: nn.Module, calls: ModuleCalls, inputs: Sequence[Tensor]) -> bool:
    """Return whether a graph gives what the module gives; each gets a copy of the inputs, into which it may write."""
    expected = tensors_of(calls.run([tensor.clone() for tensor in inputs]))
    try:
        actual = tensors_of(run(*(tensor.clone() for tensor in inputs)))
    except Exception:
        return False
    return len(actual) == len(expected) and all(map(_close, actual, expected))


def _close(actual: Tensor, expected: Tensor) -> bool:
    import torch

    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(actual, expected)
    # masks are infinite, and have no part in the scale
    finite = expected[torch.isfinite(expected)].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    atol = GRAINS * torch.finfo(expected.dtype).eps * scale
    return torch.allclose(actual, expected, rtol=0.0, atol=atol, equal_nan=True)
