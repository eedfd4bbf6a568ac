"""Small rotary files in bundles, and what puts other numbers or another graph into them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from safetensors import safe_open

from helpers.combinations import run
from helpers.stored import put_right
from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.write.formats import FORMATS, safetensors_file

BAKED = Spec("baked", "exact", "explicit", 70)
SMALL: dict[str, Value] = {"head_dim": 16}
CACHE = FORMATS["cache"].file


def made(to: Path, params: dict[str, Value], spec: Spec = BAKED, **options: Any) -> Path:
    """Return the folder of an ONNX file of `rope`."""
    return run("rope", spec, {**SMALL, **params}, to, formats=("onnx",), validate=False, **options).folder


def cached(to: Path, params: dict[str, Value]) -> Path:
    """Return the folder of a cache of `rope`."""
    settings = {**SMALL, "output": "cos_sin", **params}
    return run("rope", BAKED, settings, to, formats=("cache",), validate=False).folder


def change_cache(folder: Path, change: Callable[[str, Array], Array]) -> None:
    """Write both arrays of a cache again, as a converter does that keeps what the file says of itself."""
    file = folder / CACHE
    with safe_open(file, "numpy") as opened:
        facts = opened.metadata()
    arrays = safetensors_file.read(file)
    safetensors_file.write(file, {name: np.ascontiguousarray(change(name, array)) for name, array in arrays.items()})
    safetensors_file.stamp(file, facts)
    put_right(folder, CACHE)


def under_the_name_of(folder: Path, file: Path) -> None:
    """Put an ONNX file into a bundle, with what the file in its place says of itself."""
    stamped, model = onnx.load(folder / "model.onnx"), onnx.load(file)
    model.metadata_props.extend(stamped.metadata_props)
    model.ir_version = stamped.ir_version
    onnx.save(model, folder / "model.onnx")
    put_right(folder, "model.onnx")
