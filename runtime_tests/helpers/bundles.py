"""Bundles that are changed: their manifests, and their golden data."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Change = Callable[[dict[str, Any]], object]
MANIFEST = "manifest.json"


def edit(bundle: Path, change: Change) -> None:
    manifest = json.loads((bundle / MANIFEST).read_text())
    change(manifest)
    (bundle / MANIFEST).write_text(json.dumps(manifest))


def put(value: object, *keys: str | int) -> Change:
    """Return what puts a value at a place."""

    def change(manifest: Any) -> None:
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


def replace_array(bundle: Path, ending: str, damage: Callable[[Any], Any]) -> None:
    """Put something else into golden.npz in the place of every array whose key ends so; None leaves it out."""
    with np.load(bundle / "golden.npz") as golden:
        arrays = {key: damage(array) if key.endswith(ending) else array for key, array in golden.items()}
    np.savez(bundle / "golden.npz", **{key: array for key, array in arrays.items() if array is not None})
    sign(bundle, "golden.npz")


def sign(bundle: Path, name: str) -> None:
    """Have the manifest say the size and the digest that a file has now: integrity then passes."""
    content = (bundle / name).read_bytes()

    def change(manifest: dict[str, Any]) -> None:
        entry = next(file for file in (*manifest["files"], *manifest["artifacts"]) if file["file"] == name)
        entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    edit(bundle, change)
