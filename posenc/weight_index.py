"""The index of weights that lie in several files: FILE.safetensors.index.json says which file holds what."""

from __future__ import annotations

from pathlib import Path

from posenc.strict_json import read_json


def weight_map(index: Path) -> dict[str, str]:
    """Return the names of files by those of the tensors that they hold.

    Raises ValueError, in one line, where the index cannot be read, and where a name leads out of its folder.
    """
    try:
        content = read_json(index)
    except (ValueError, OSError) as error:
        raise ValueError(f"{index} is not JSON: {error}") from None
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(map(_is_file_name, files.values())):
        raise ValueError(f"{index} must hold weight_map, an object of file names of its folder")
    return files


def _is_file_name(name: object) -> bool:
    """Whether a name is a file's, and leads nowhere else."""
    return isinstance(name, str) and name == Path(name).name and "\\" not in name and name not in ("", ".", "..")
