"""Which input of a file is which input of a target, and which output: by name, by `-i FILE=TARGET`, else by order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from posenc.encoding import Encoding
from posenc.ports import Port
from posenc_export.common.arrays import FLOATS, INTEGERS
from posenc_export.common.errors import BadInput
from posenc_export.proof.foreign.derived import identifier
from posenc_export.write.formats.onnx.foreign import FileValue, ForeignFile

WHOLE = (*INTEGERS, "bool")
"""Dtypes that are converted into one another: a caller of the file would do that, too."""
Names = Mapping[str, str]
"""Names of inputs, or outputs, of a file, and the target's names for them."""


@dataclass(frozen=True)
class Pair:
    """A port of the target, and what it is in the file; None where the file has dropped an input."""

    port: Port
    value: FileValue | None

    @property
    def is_converted(self) -> bool:
        """Whether the dtypes differ."""
        return self.value is not None and self.value.is_other(self.port.dtype)


@dataclass(frozen=True)
class Match:
    """How a file and a target fit: a pair for each port of the target, in its order."""

    inputs: tuple[Pair, ...]
    outputs: tuple[Pair, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the report, on what is not as the file has it."""
        pairs = [(pair.port, pair.value) for pair in (*self.inputs, *self.outputs) if pair.value is not None]
        renamed = ", ".join(f"{value.name} is {port.name}" for port, value in pairs if value.name != port.name)
        words = [f"names of the file: {renamed}"] if renamed else []
        words += [f"{p.name}: {v.dtype} in the file, converted to {p.dtype}" for p, v in pairs if v.is_other(p.dtype)]
        return (*words, *(f"the file has no input {pair.port.name}" for pair in self.inputs if pair.value is None))


def match(file: ForeignFile, target: str, encoding: Encoding, names: Names) -> Match:
    """Match a file to a target; raise BadInput, in one line, where they do not fit.

    Args:
        file: The file.
        target: The target's name, for errors.
        encoding: Its ports.
        names: What the user says of names.
    """
    _check_names(file, target, encoding, names)
    inputs = tuple(_inputs(file, target, encoding, names))
    outputs = tuple(_outputs(file, target, encoding.outputs, names))
    for kind, pair in (*(("input", pair) for pair in inputs), *(("output", pair) for pair in outputs)):
        if pair.value is not None and (wrong := _misfit(pair.port, pair.value)):
            raise BadInput(
                f"{file.path.name}: {kind} {pair.value.name} is {pair.value}, {target} has {pair.port}: {wrong}"
            )
    return Match(inputs, outputs)


def with_heads_of(file: ForeignFile, encoding: Encoding, names: Names) -> Encoding:
    """Return an encoding whose heads are as many as a file has, where the file has their number fixed.

    A model has a number of heads; a scheme takes any. A file of a model is no less right for that.
    """
    by_port = _only_one_left(_by_own_name(file.inputs, encoding.inputs, names), encoding.inputs)
    heads: dict[str, int] = {}
    for port in encoding.inputs:
        sizes = by_port[port.name].axes if port.name in by_port else None
        for axis, size in zip(port.axes, sizes or (), strict=False):
            if axis.kind == "heads" and axis.is_dynamic and isinstance(size, int) and size > 0:
                heads.setdefault(axis.name, size)

    def fixed(port: Port) -> Port:
        axes = (replace(a, size=heads[a.name]) if a.is_dynamic and a.name in heads else a for a in port.axes)
        return replace(port, axes=tuple(axes))

    if not heads:
        return encoding
    return replace(encoding, inputs=tuple(map(fixed, encoding.inputs)), outputs=tuple(map(fixed, encoding.outputs)))


def _check_names(file: ForeignFile, target: str, encoding: Encoding, names: Names) -> None:
    """Raise BadInput for a name that the file or the target does not have."""
    theirs = [value.name for value in (*file.inputs, *file.outputs)]
    ours = [port.name for port in (*encoding.inputs, *encoding.outputs)]
    for name, own in names.items():
        for side, known, said in ((file.path.name, theirs, name), (target, ours, own)):
            if said not in known:
                raise BadInput(f"-i '{name}={own}': {side} has no {said!r}: it has {', '.join(known)}")


def _inputs(file: ForeignFile, target: str, encoding: Encoding, names: Names) -> Iterator[Pair]:
    """Yield a pair for each input of the target; raise BadInput for an input of the file that the target lacks."""
    ports = encoding.inputs
    # the names of the target, as far as the user has said them
    by_port = _by_own_name(file.inputs, ports, names)
    known = {port.name for port in ports}
    by_port = _only_one_left(by_port, ports)
    for name, value in by_port.items():
        if name not in known:
            raise BadInput(_unknown_input(file, target, encoding, value, by_port))
    for port in ports:
        yield Pair(port, by_port.get(port.name))


def _only_one_left(by_port: dict[str, FileValue], ports: Sequence[Port]) -> dict[str, FileValue]:
    """Return values by the target's names, where one input is left on either side and they fit, as that one."""
    known = {port.name for port in ports}
    theirs = [(name, value) for name, value in by_port.items() if name not in known]
    ours = [port for port in ports if port.name not in by_port]
    if len(theirs) != 1 or len(ours) != 1 or _misfit(ours[0], theirs[0][1]):
        return by_port
    (name, value), port = theirs[0], ours[0]
    return {port.name if own == name else own: value if own == name else v for own, v in by_port.items()}


def _by_own_name(values: Sequence[FileValue], ports: Sequence[Port], names: Names) -> dict[str, FileValue]:
    """Return values of a file by the target's names: as the user says, else the same, with _ for dots and slashes."""
    known = {port.name for port in ports}
    plain = {value.name: value.name if value.name in known else identifier(value.name) for value in values}
    return {
        names.get(name, own if own in known else name): v for (name, own), v in zip(plain.items(), values, strict=True)
    }


def _unknown_input(
    file: ForeignFile, target: str, encoding: Encoding, value: FileValue, by_port: Mapping[str, FileValue]
) -> str:
    """Return what to do about an input of a file of which nobody has said what it is."""
    free = [port for port in encoding.inputs if port.name not in by_port]
    known = {port.name for port in encoding.inputs}
    unknown = [theirs for name, theirs in by_port.items() if name not in known]
    takes = f"{file.path.name} takes {value.name}: {value}, which {target} has not"
    if not free:
        return f"{takes}: prove it against what takes it too"
    fitting = [port for port in free if _is_alike(value, port)]
    if not fitting:
        takes = f"no input of {target} fits {value.name} ({value.dtype})"
    # data cannot be left out, and no name of an input makes one output two
    lacking = [port for port in free if port.dtype in FLOATS and not any(_is_alike(one, port) for one in unknown)]
    fewer = len(file.outputs) < len(encoding.outputs)
    if not fitting or lacking or fewer:
        ours = "; ".join(map(str, free if not fitting else lacking or encoding.outputs))
        return f"{takes}: {file.path.name} lacks {ours}. Is {target} the right TARGET?"
    expected = "; ".join(map(str, free))
    return f"{takes}: it has {expected}, which the file has not; say which it is: -i '{value.name}={fitting[0].name}'"


def _is_alike(value: FileValue, port: Port) -> bool:
    """Return whether a value of a file may be what a port says, if parameters of the target are other ones."""
    return _is_converted(value, port) and (value.axes is None or len(value.axes) == len(port.axes))


def _outputs(file: ForeignFile, target: str, ports: Sequence[Port], names: Names) -> Iterator[Pair]:
    """Yield a pair for each output of the target: by name where the file has all names, else by order."""
    by_name = _by_own_name(file.outputs, ports, names)
    if all(port.name in by_name for port in ports):
        yield from (Pair(port, by_name[port.name]) for port in ports)
        return
    if len(ports) != len(file.outputs):
        theirs, ours = (", ".join(known) for known in (by_name, [port.name for port in ports]))
        raise BadInput(
            f"{file.path.name} gives {len(file.outputs)} outputs ({theirs}), {target} gives {len(ports)} ({ours}): "
            "expected as many, or all of the target's names among the file's"
        )
    known = {port.name for port in ports}
    # those that a name settles are what it says, the others follow in the file's order
    left = iter([value for name, value in by_name.items() if name not in known])
    yield from (Pair(port, by_name[port.name] if port.name in by_name else next(left)) for port in ports)


def _is_converted(value: FileValue, port: Port) -> bool:
    """Return whether a value of a file has the dtype of a port, or one that is converted to it."""
    return value.dtype in ("", port.dtype) or {value.dtype, port.dtype} <= set(WHOLE)


def _misfit(port: Port, value: FileValue) -> str:
    """Return what to do where a value of a file cannot be what a port says, or nothing."""
    if not _is_converted(value, port):
        return f"only integers and flags are converted; give it as {value.dtype}, by -i or --dtype"
    if value.axes is None:
        return ""
    if len(value.axes) != len(port.axes):
        return f"expected {len(value.axes)} axes, as the file has"
    unlike = [
        (axis.size, size)
        for axis, size in zip(port.axes, value.axes, strict=True)
        if axis.size is not None and isinstance(size, int) and size != axis.size
    ]
    return "" if not unlike else f"expected an axis of {unlike[0][1]}, as the file has"
