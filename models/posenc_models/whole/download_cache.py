"""Where Hugging Face's libraries keep what they download, and the folder of a model there."""

from __future__ import annotations

import os
import re
from os import PathLike
from pathlib import Path

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
"""What names of models on the Hub are made of: an owner and a name."""


def folder_of(path: str | PathLike[str]) -> Path:
    """Return the folder of a path, or of a model's name that is in Hugging Face's download cache.

    Raises ValueError, in one line, for a name that is not there: nothing is downloaded.
    """
    place, name = Path(path), str(path)
    if place.exists() or not HUB_NAME.fullmatch(name):
        return place
    cached = download_cache() / f"models--{name.replace('/', '--')}"
    try:
        revision = (cached / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        revision = ""
    if re.fullmatch(r"[0-9a-f]{4,64}", revision) and (cached / "snapshots" / revision).is_dir():
        return cached / "snapshots" / revision
    raise ValueError(
        f"{name} is no folder, and no model of that name is in {download_cache()}: names of the Hub are not downloaded "
        f"here; `hf download {name}` does it, and prints the folder"
    )


def download_cache() -> Path:
    """Return where Hugging Face's libraries keep what they download."""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")).expanduser()
