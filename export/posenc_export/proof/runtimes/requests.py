"""Runtimes that options name: they are made ready, or refused where they cannot run, read no file or lack trust."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from posenc_export.common.errors import BadInput, Unavailable, bad_input
from posenc_export.proof.runtimes import NEEDS_TRUST, NOTHING_TO_PREPARE, RUNTIMES, Missing, Progress


def prepare(names: Iterable[str], required: Sequence[str], progress: Progress) -> None:
    """Prepare the named runtimes; raise Unavailable, before any other work, where one of them cannot run here."""
    with bad_input():
        runtimes = {name: RUNTIMES[name] for name in (*required, *names)}
    # what takes nothing but a look comes before what takes minutes to build
    for is_built in (False, True):
        for name, runtime in runtimes.items():
            if (runtime.prepare is not NOTHING_TO_PREPARE) is is_built:
                runtime.prepare(progress)
                check_available(name, is_required=name in required)


def check_available(name: str, *, is_required: bool) -> None:
    """Raise Unavailable where a runtime that somebody named cannot run here: a proof without it would say nothing."""
    try:
        RUNTIMES[name].check()
    except Missing as missing:
        words = f"{name} is required and not available here" if is_required else f"--runtime {name} cannot run here"
        raise Unavailable(f"{words}: {missing}") from missing


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
