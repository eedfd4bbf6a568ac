"""Contenders: runtimes on the bundle in a folder, and a copy of the bytes that it writes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import NEEDS_TRUST, RUNTIMES, Missing, Runtime

SLOW = ("onnx-reference", "ort-cpp", "ort-cpp-cuda", "libtorch-cpp", "libtorch-cpp-cuda", "aoti-cpp")
"""Runtimes that are timed only by name: a runner in a process of its own gets its inputs by files."""
COPY = "copy of the same bytes"
BASELINE = "baseline Sin/Cos, "
ONE_OP = "one operator, baked cache, "


@dataclass(frozen=True)
class Contender:
    """A runtime on the bundle in a folder; without a runtime, a copy of the outputs.

    Args:
        trusted: whether code in the bundle may be run.
    """

    name: str
    runtime: str | None
    folder: Path
    trusted: bool = False


def contenders_in(bundle: Bundle, prefix: str, names: Collection[str]) -> list[Contender]:
    """Return a contender for every runtime that reads a bundle and can run here.

    Args:
        bundle: what is timed.
        prefix: begins the names of the contenders, before the name of the runtime.
        names: the runtimes to time; an empty collection stands for all but the slow ones.

    """
    chosen = [r for r in _reading(bundle, names) if (bundle.trusted or not r.runs_code) and _runs(r.check)]
    return [Contender(prefix + r.name, r.name, bundle.folder, bundle.trusted) for r in chosen]


def not_run(bundle: Bundle, names: Collection[str]) -> tuple[str, ...]:
    """Return a line on runtimes that are not timed because they run code of an untrusted bundle, if there are any."""
    untrusted = [r.name for r in _reading(bundle, names) if r.runs_code and not bundle.trusted]
    return (f"not run: {', '.join(untrusted)}: {NEEDS_TRUST}",) if untrusted else ()


def _reading(bundle: Bundle, names: Collection[str]) -> list[Runtime]:
    formats = {artifact.format for artifact in bundle.manifest.artifacts}
    chosen = [r for r in RUNTIMES.values() if (r.name in names if names else not (r.slow or r.name in SLOW))]
    return [r for r in chosen if r.format in formats and r.runs]


def _runs(check: Callable[[], None]) -> bool:
    try:
        check()
    except Missing:
        return False
    return True
