"""What an export reads: no place that it writes to may be, or hold, any of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_models import ModelConfig, ModelFolder


def reads_of(source: str | ModelConfig | ModelFolder | object, parameters: Iterable[object] = ()) -> list[Path]:
    """Return the files and folders that an export of a source reads.

    Args:
        source: as `posenc_export.export` takes it.
        parameters: values of parameters, or texts as -p takes them: those that are paths of something are read.
    """
    from posenc_models import ModelConfig, ModelFolder

    reads: list[Path] = []
    if isinstance(source, ModelFolder):
        reads += [source.contents.root, *source.contents.files, *([source.adapter] if source.adapter else [])]
    elif isinstance(source, ModelConfig):
        reads += [Path(source.path)] if source.path else []
    elif isinstance(source, str):
        reads += _code_of(source.partition(":")[0]) if ":" in source else []
    else:
        reads += _code_of((source if isinstance(source, type) else type(source)).__module__)
    values = (str(value).partition("=")[2] if "=" in str(value) else str(value) for value in parameters)
    return [*reads, *(path for path in map(Path, filter(None, values)) if _is_there(path))]


def _code_of(module: str) -> Iterator[Path]:
    """Yield where the code of a module lies: its file, or the folder of its package."""
    top = module.partition(".")[0]
    if not top or top in sys.builtin_module_names:
        return
    try:
        found = PathFinder.find_spec(top, [str(Path.cwd()), *sys.path])
    except (ImportError, ValueError, OSError):
        return
    if found is not None and found.submodule_search_locations:
        yield from map(Path, found.submodule_search_locations)
    elif found is not None and found.origin:
        yield Path(found.origin)


def _is_there(path: Path) -> bool:
    try:
        return path.expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
