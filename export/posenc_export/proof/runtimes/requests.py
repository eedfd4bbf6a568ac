"""Runtimes that options name: they are made ready, or refused where they cannot run, read no file or lack trust."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from posenc_export.common.errors import BadInput, Unavailable, bad_input
from posenc_export.proof.runtimes import NEEDS_TRUST, RUNTIMES, Missing, Progress


def prepare(names: Iterable[str], required: Sequence[str], progress: Progress) -> None:
    """Prepare the named runtimes; raise Unavailable, before any other work, where a required runtime cannot run."""
    with bad_input():
        runtimes = [RUNTIMES[name] for name in dict.fromkeys((*names, *required))]
    for runtime in runtimes:
        runtime.prepare(progress)
    check_available(required)


def check_available(required: Iterable[str]) -> None:
    """Raise Unavailable where a required runtime cannot run here."""
    for name in required:
        try:
            RUNTIMES[name].check()
        except Missing as missing:
            raise Unavailable(f"{name} is required and not available here: {missing}") from missing


def check_readable(option: str, names: Iterable[str], formats: Sequence[str]) -> None:
    """Raise BadInput where a runtime that an option names reads none of the formats of a bundle."""
    for name in names:
        with bad_input():
            runtime = RUNTIMES[name]
        if runtime.format not in formats:
            raise BadInput(f"{option} {name} needs {runtime.format}: here is only {', '.join(formats)}")


def check_trusted(names: Iterable[str], required: Sequence[str]) -> None:
    """Refuse, of a bundle that is not trusted, runtimes that run its code: Unavailable if required, else BadInput."""
    for name in dict.fromkeys((*names, *required)):
        with bad_input():
            refused = RUNTIMES[name].runs_code
        if refused and name in required:
            raise Unavailable(f"{name} is required and {NEEDS_TRUST}")
        if refused:
            raise BadInput(f"--runtime {name} {NEEDS_TRUST}")
