"""Packages of npm, and Node.js, which runs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from posenc_export.proof.runtimes import Missing


def node() -> str:
    """Return the path of Node.js; raise Missing where there is none."""
    path = shutil.which("node")
    if path is None:
        raise Missing("node is not found: install Node.js 20 or newer")
    return path


def package(name: str, tried: str) -> Path:
    """Return the folder of an npm package in NODE_PATH; raise Missing, with the version that tests run, without it."""
    # Node's own search goes up from the current folder, and would run a package that lies beside a bundle.
    places = filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep))
    folder = next((Path(place, name) for place in places if Path(place, name, "package.json").is_file()), None)
    if folder is None:
        install = f"npm install --prefix DIR {name}@{tried}, and set NODE_PATH=DIR/node_modules"
        raise Missing(f"the npm package {name} is not found in NODE_PATH: {install}")
    return folder.resolve()
