"""A user's own module as a target: package.module:factory, a module, its class, or a function of one."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.encoding import CaseLike, Encoding, Tolerance, no_tables
from posenc.parameters import check, check_required, parameters_of
from posenc.ports import Port
from posenc.spec import Spec
from posenc_export.bundle.carries import kind_of, limits_of
from posenc_export.common.errors import BadInput, bad_input, first_line
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets import OWN_FLOAT64, Target
from posenc_export.write.targets.by_patches import in_whole_patches
from posenc_export.write.targets.copies import Copies, copy_of
from posenc_export.write.targets.ending import advised
from posenc_export.write.targets.mask_readings import read_masks
from posenc_export.write.targets.outputs import called, outputs_of, probe_sizes

if TYPE_CHECKING:
    from torch import nn

INPUTS, OUTPUTS = "posenc_inputs", "posenc_outputs"
"""Attributes by which a module says its own ports: texts as -i has them, and names."""
NO_TABLES = no_tables("it takes this package's encodings: what a module of your own stores is not known")


class NoInputs(BadInput):
    """Nobody said what goes into a module."""


@in_whole_patches
def module_target(
    source: object, ports: tuple[Port, ...], spec: Spec, parameters: Mapping[str, object], seed: int
) -> Target:
    """Return a user's module as a target.

    Args:
        source: "package.module:factory", or what such a text names: an nn.Module, its class, or a function that makes
            it.
        ports: What goes in; none where the module says it itself, in `posenc_inputs`, as -i has it. Names of outputs
            are those of its `posenc_outputs`.
        spec: Its max_len alone counts.
        parameters: Keyword arguments of the class or function.
        seed: For random weights and inputs.

    Raises BadInput, in one line, where this cannot be exported.
    """
    import torch

    torch.manual_seed(seed)
    name = source if isinstance(source, str) else name_of(source)
    factory = import_factory(name) if isinstance(source, str) else source
    module, values = _made(name, factory, parameters)
    try:
        ports = ports or parse_ports(getattr(module, INPUTS, ()))
    except ValueError as error:
        raise BadInput(f"{name}: {INPUTS}{str(error).removeprefix('-i')}") from error
    if not ports:
        raise NoInputs(f"{name}: say what goes in, as -i 'x: float32[batch, seq, 512]'")
    names = tuple(getattr(module, OUTPUTS, ()))

    def again() -> nn.Module:
        torch.manual_seed(seed)
        return _made(name, factory, parameters)[0]

    def described(inputs: tuple[Port, ...]) -> Encoding:
        return own_encoding(module, inputs, spec.max_len, seed, again, names=names)

    with advised(Copies(module, again).fresh, ports, spec.max_len, seed):
        ports, notes = read_masks(ports, described, spec.max_len, seed)
        dynamic, encoding = replace(spec, mode="dynamic"), described(ports)
    return Target(name, encoding, dynamic, values, reference=OWN_FLOAT64, notes=tuple(notes))


def name_of(source: object) -> str:
    """Return what a module, a class or a function is called."""
    named = source if inspect.isclass(source) or inspect.isroutine(source) else type(source)
    words = re.findall(r"\w+", named.__name__)
    return f"{named.__module__}:{'_'.join(words)}"


def import_factory(name: str) -> Any:
    """Return what package.module:factory names, in the current folder or installed; raise BadInput if nothing is."""
    module_name, _, attribute = name.partition(":")
    with _current_folder_first():
        part: Any = _imported(name, module_name)
    for step in attribute.split("."):
        if not hasattr(part, step):
            raise BadInput(f"{name}: {module_name} has no {attribute!r}{_near(step, part)}")
        part = getattr(part, step)
    return part


@contextmanager
def _current_folder_first() -> Iterator[None]:
    """Have a module of the current folder found before others of its name; afterwards that folder is searched last.

    What the tool itself imports later must be what is installed, whatever else lies beside a user's module.
    """
    folder = str(Path.cwd())
    if folder in sys.path[:-1]:  # whoever started this program put it there
        yield
        return
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)


def _near(word: str, owner: object) -> str:
    """Return a question that names the attribute of a module or a class that is nearest to a word, if any is near."""
    near = difflib.get_close_matches(word, dir(owner), n=1)
    return f": did you mean {near[0]!r}?" if near else ""


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
        # the caller goes on training this one
        return (copy_of(factory).eval() if factory.training else factory), values
    if not callable(factory):
        raise BadInput(
            f"{name} is {_article(type(factory).__name__)}: expected an nn.Module, its class, or a function of one"
        )
    with bad_input():
        check_required(values, known, name)
    try:
        module = factory(**values)
    except (Exception, SystemExit) as error:  # a script that ends itself would end the tool with its status
        raise BadInput(f"{name} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise BadInput(f"{name} returned {_article(type(module).__name__)}: expected an nn.Module")
    return module.eval(), values


def _article(name: str) -> str:
    """Return the name of a type with its article."""
    return "nothing" if name == "NoneType" else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def own_encoding(
    module: nn.Module,
    ports: tuple[Port, ...],
    max_len: int,
    seed: int,
    again: Callable[[], nn.Module],
    *,
    names: Sequence[str] = (),
    rows: str = "",
    by_weight: bool = False,
) -> Encoding:
    """Describe a user's module: its outputs follow from runs at a few sizes, its reference is itself in float64.

    The module itself is never called.

    Args:
        module: The module.
        ports: What goes in.
        max_len: The longest length.
        seed: For the numbers that go in.
        again: Makes another where the module cannot be copied.
        names: Those of its outputs; by default y, or y0, y1 and so on.
        rows: What the first axis of outputs is called if no input has it; by default it is named after the output.
        by_weight: Whether the reference widens one weight after the other, and does not hold all in float64.
    """
    from posenc_export.write.targets.calling import in_a_row
    from posenc_export.write.targets.float64 import OwnReference

    # outputs and reference are not known before the module ran
    draft = Encoding("module", module, ports, (), lambda *_: {}, _no_tolerance, _no_tolerance, NO_TABLES)
    copies = Copies(module, again, by_weight)
    sizes = probe_sizes(draft, max_len)[0]
    # exporters want inputs by position and tensors in a row
    wrap = in_a_row(copies.fresh(), ports, lambda fresh: called(fresh, ports, sizes, seed))
    if wrap is not None:
        copies = Copies(wrap(module), lambda: wrap(again()), by_weight)
        draft = replace(draft, module=copies.module)
    outputs = outputs_of(copies.fresh, draft, max_len, seed)
    if names and len(names) != len(outputs):
        raise BadInput(f"{OUTPUTS} names {len(names)} outputs, and the module gives {len(outputs)}")
    if names:
        outputs = tuple(replace(port, name=name) for port, name in zip(outputs, names, strict=True))
    if rows:
        known = {axis.name for port in ports for axis in port.axes}
        outputs = tuple(_with_rows(port, rows, known) for port in outputs)
    ends = [end for port in ports if kind_of(port.carries).gives_positions and (end := limits_of(port).end)]
    reference = OwnReference(copies, ports, outputs)
    return replace(draft, outputs=outputs, reference=reference, end=min(ends, default=None), fresh=copies.fresh)


def _with_rows(port: Port, rows: str, known: Collection[str]) -> Port:
    """Return an output whose first axis has a name of its own, if it is dynamic and no input has it."""
    first, *others = port.axes
    own = replace(first, name=rows) if first.is_dynamic and first.name not in known else first
    return replace(port, axes=(own, *others))


def _no_tolerance(case: CaseLike) -> Tolerance:
    """Allow nothing: tolerances of a user's module are measured."""
    return Tolerance()
