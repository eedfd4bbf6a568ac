"""Lines between a process that works on a stranger's file and the one that started it: a kind, a space, JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import BinaryIO, NoReturn

from posenc_export.errors import BadInput, Overloaded, PosencError, ToolFailed, first_line, one_line
from posenc_export.runtimes.memory_limit import limit_memory
from posenc_export.runtimes.process import end_with_parent

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


def pipe_of_messages() -> BinaryIO:
    """Return what was stdout: from here on libraries print to stderr, and the process ends with its parent."""
    end_with_parent()
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


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
