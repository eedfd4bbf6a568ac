"""What more captures of a module show: whether it is the same program again, after calls, and at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from posenc.encoding import Encoding
from posenc_export.bundle.case import GoldenCase
from posenc_export.errors import ExportFailed
from posenc_export.formats import FORMATS, Digests, Request
from posenc_export.formats.capture import GRAPH
from posenc_export.validation.judging.context import Behaviour, Capture


@dataclass(frozen=True)
class Seen:
    """What calls showed: the cases, those that the module itself refuses, the called module, what calls changed.

    unread: the inputs on whose values no output depends. written: those that the module writes into.
    reference: what the cases are held against, in words.
    """

    cases: list[GoldenCase]
    dropped: tuple[str, ...]
    called: Encoding
    changed: tuple[str, ...]
    behaviour: Behaviour
    unread: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    reference: str = ""


def captured_again(seen: Seen, encoding: Encoding, request: Request, name: str, first: Digests) -> Capture:
    """Return what more captures show: of the called module, and of another copy or, where there is none, once more."""
    format_ = FORMATS[name]

    def captured(of: Encoding, how: Request = request) -> Digests:
        return format_.digests(format_.capture(of, how))

    elsewhere, static = _captured_elsewhere(encoding.uncalled(), captured, request, first)
    if encoding.fresh is None:
        second = elsewhere if elsewhere == first else captured(encoding)
        return Capture(second == first or captured(encoding) == second, second == first, seen.changed, static=static)
    after: Digests = {}
    with suppress(ExportFailed):  # what a call has left in the module may keep it from being captured
        after = captured(seen.called)
    same = elsewhere == first or captured(encoding.uncalled()) == first
    return Capture(same, after == first, seen.changed, seen.behaviour, static)


def _captured_elsewhere(
    encoding: Encoding, captured: Callable[[Encoding, Request], Digests], request: Request, first: Digests
) -> tuple[Digests, tuple[str, ...]]:
    """Capture at other sizes; return its digests, and the names of the constants that differ from the first capture's.

    A constant that differs was made from the sizes traced with. One capture answers two questions: where nothing
    differs, neither the sizes nor an earlier capture matter.
    """
    if request.at is None:
        return {}, ()
    try:
        elsewhere = captured(encoding, replace(request, trace=request.at(request.other)))
    except ExportFailed:  # at those sizes it is another program, if any: guards say that of the first
        return {}, ()
    changed = sorted(k for k in first.keys() | elsewhere.keys() if first.get(k) != elsewhere.get(k))
    return elsewhere, tuple(name for name in changed if name != GRAPH)


def notes_on_calls(seen: Seen, captures: Mapping[str, Capture]) -> tuple[str, ...]:
    """Return a note where a module of somebody's own keeps something of a call, though no output depends on it."""
    after = all(capture.same_after_calls for capture in captures.values())
    harmful = seen.behaviour.order or seen.behaviour.random
    if seen.called.fresh is None or harmful or (after and not seen.changed):
        return ()
    what = (
        f"a call changes {', '.join(seen.changed)} of the module"
        if seen.changed
        else "a called module exports otherwise"
    )
    return (f"{what}: export it before it is called, as was done here",)


def unread_inputs(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on each input whose values nothing depends on."""
    return tuple(
        f"{name} is read for its shape, dtype or device alone: no output depends on its values" for name in names
    )


def notes_on_writes(written: Sequence[str]) -> tuple[str, ...]:
    """Return a note where a module writes into its inputs."""
    if not written:
        return ()
    names = ", ".join(written)
    return (f"the module writes into {names}, in place: the ONNX graph does not, and what is compared are its outputs",)
