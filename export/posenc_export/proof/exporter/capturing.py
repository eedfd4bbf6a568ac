"""A module is captured again: after calls, and at other sizes, where it must give the same program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from posenc.encoding import Encoding
from posenc_export.common.errors import ExportFailed
from posenc_export.proof.judging.context import Capture
from posenc_export.write.formats import FORMATS, Digests, WriteRequest
from posenc_export.write.formats.capture import GRAPH


def captured_again(
    seen: Capture, encoding: Encoding, called: Encoding, request: WriteRequest, first: tuple[str, Digests]
) -> Capture:
    """Return what captures of the called module, and of one that was not called, add to what calls showed.

    Args:
        seen: What its calls showed.
        encoding: With an uncalled module.
        called: With the module that was called; the same where calls change nothing.
        request: How the format was written.
        first: The name of a format, and the digests of the first capture.
    """
    format_, digests = FORMATS[first[0]], first[1]

    def capture(module: Encoding, how: WriteRequest = request) -> Digests:
        return format_.digests(format_.capture(module, how))

    # where calls changed nothing, one capture of the called module, at other sizes, answers all three questions
    unchanged = encoding.fresh is not None and not seen.changed
    if unchanged and _captured_elsewhere(partial(capture, called), request, digests)[0] == digests:
        return replace(seen, static=(), same_twice=True, same_after_calls=True)
    elsewhere, static = _captured_elsewhere(partial(capture, encoding.uncalled()), request, digests)
    seen = replace(seen, static=static)
    if encoding.fresh is None:
        # the module itself was called: any capture now is one after calls
        second = elsewhere if elsewhere == digests else capture(encoding)
        return replace(
            seen, same_twice=second == digests or capture(encoding) == second, same_after_calls=second == digests
        )
    after: Digests = {}
    with suppress(ExportFailed):  # what a call has left in the module may keep it from being captured
        after = capture(called)
    same_twice = elsewhere == digests or capture(encoding.uncalled()) == digests
    return replace(seen, same_twice=same_twice, same_after_calls=after == digests)


def _captured_elsewhere(
    capture: Callable[[WriteRequest], Digests], request: WriteRequest, first: Digests
) -> tuple[Digests, tuple[str, ...]]:
    """Capture at other sizes; return its digests, and the names of the constants that differ from the first capture's.

    A constant that differs was made from the sizes traced with. One capture answers two questions: where nothing
    differs, neither the sizes nor an earlier capture matter.
    """
    if request.at is None:
        return {}, ()
    try:
        elsewhere = capture(replace(request, trace=request.at(request.other_sizes)))
    except ExportFailed:  # at those sizes it is another program, if any: guards say that of the first
        return {}, ()
    changed = sorted(k for k in first.keys() | elsewhere.keys() if first.get(k) != elsewhere.get(k))
    return elsewhere, tuple(name for name in changed if name != GRAPH)


def notes_on_calls(captures: Mapping[str, Capture], seen: Capture) -> tuple[str, ...]:
    """Return a note where a user's module keeps something of a call, though no output depends on it.

    Args:
        captures: By format; none where nothing is validated.
        seen: What its calls showed.
    """
    after = all(capture.same_after_calls for capture in captures.values())
    harmful = seen.behaviour.order or seen.behaviour.random
    if harmful or (after and not seen.changed):
        return ()
    names = ", ".join(seen.changed)
    words = f"a call changes {names} of the module" if names else "a called module exports otherwise"
    return (f"{words}: export it before it is called, as was done here",)


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
