"""What is timed: runtimes on the bundle of a folder, beside a copy of the bytes that it writes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.runtimes import RUNTIMES, Missing

SLOW = ("onnx-reference", "ort-cpp", "ort-cpp-cuda", "libtorch-cpp", "libtorch-cpp-cuda", "aoti-cpp")
"""Runtimes that are timed only where they are named: runners in a process of their own are fed by files."""
COPY = "copy of the same bytes"
PLAIN = "plain Sin/Cos, "
ONE_OP = "one operator, baked cache, "


@dataclass(frozen=True)
class Contender:
    """Something to be timed: a runtime on the bundle in a folder, or, without a runtime, a copy of what that writes."""

    name: str
    runtime: str | None
    folder: Path


def contenders_in(folder: Path, prefix: str, names: Collection[str]) -> list[Contender]:
    """Return a contender for every runtime that reads a bundle and can run here: those named, or all but the slow ones.

    prefix: of their names, before that of the runtime.
    """
    formats = {artifact.format for artifact in Bundle.open(folder).manifest.artifacts}
    chosen = [r for r in RUNTIMES.values() if (r.name in names if names else r.name not in SLOW)]
    return [Contender(prefix + r.name, r.name, folder) for r in chosen if r.format in formats and _runs(r.check)]


def _runs(check: Callable[[], None]) -> bool:
    try:
        check()
    except Missing:
        return False
    return True
