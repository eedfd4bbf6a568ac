"""Lines between a process that works on a stranger's file and the one that started it: a kind, a space, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import BinaryIO, NoReturn

from posenc_export.common.child import Child, Ended, Hung, pipe_of_messages
from posenc_export.common.errors import BadInput, Overloaded, PosencError, ToolFailed, first_line, one_line
from posenc_export.common.memory_limit import limit_memory

ERRORS: dict[str, type[PosencError]] = {kind.__name__: kind for kind in (BadInput, ToolFailed)}
"""The errors that end such a process, by name."""


def run_within_memory(
    memory: int, work: Callable[[BinaryIO], None], overload: Callable[[float, Exception], str]
) -> None:
    """Do the work of such a process, and say how it failed.

    Args:
        memory: bytes that it may take.
        work: what is done; it is given what messages are written to.
        overload: says in words that the limit, in GiB, was too small.
    """
    pipe = pipe_of_messages()
    # no graph is on CUDA here: single kernels run on the CPU
    limit = limit_memory(memory, uses_cuda=False)
    try:
        work(pipe)
    except (MemoryError, Overloaded) as error:
        say(pipe, "error", ["BadInput", overload(limit, error)])
    except PosencError as error:
        say(pipe, "error", named_error(error))
    except Exception as error:
        say(pipe, "error", ["ToolFailed", f"{type(error).__name__}: {first_line(error)}"])


def say(pipe: BinaryIO, kind: str, content: object) -> None:
    """Write a line."""
    pipe.write(kind.encode() + b" " + json.dumps(content, allow_nan=False).encode() + b"\n")
    pipe.flush()


def named_error(error: PosencError) -> list[str]:
    """Return an error as the content of a message."""
    return [("ToolFailed" if error.exit_code == 5 else "BadInput"), error.message]


def raise_error(kind: bytes, content: bytes, prefix: str = "") -> NoReturn:
    """Raise the error of a message, with words before it; ValueError where it is none."""
    said = json.loads(content) if kind == b"error" else None
    if not (isinstance(said, list) and len(said) == 2 and said[0] in ERRORS and isinstance(said[1], str)):
        raise ValueError("no message of an error")
    # names in the file, which anybody may have made, are quoted in these words
    raise ERRORS[said[0]](prefix + one_line(said[1]))


def answer_of(program: Sequence[str], kind: bytes, *, shown: str, doing: str, seconds: float) -> object:
    """Return the one thing that a process of its own says; raise BadInput, in one line, where it fails or is late.

    Args:
        program: what Python runs.
        kind: of the message.
        shown: the file that it works on, as its user gave it.
        doing: what it does to it: "reading", "extending".
        seconds: how long it may take; 0 for any.
    """
    child = Child(program)
    try:
        said, _, content = child.line(seconds or None).partition(b" ")
        if said != kind:
            raise_error(said, content, f"{shown}: ")
        return json.loads(content)
    except Hung:
        raise BadInput(f"{shown}: {doing} it takes longer than {seconds:g} s: give more with --timeout") from None
    except Ended as ended:
        raise BadInput(f"{shown}: the process that is {doing} it {ended}") from None
    except ValueError as error:
        raise ToolFailed(f"{shown}: the process that is {doing} it sent what no such process sends") from error
    finally:
        child.end()
