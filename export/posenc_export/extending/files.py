"""The new file's place: what may be replaced, the scratch folder beside it, and how it is put there whole."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import onnx

from posenc.strict_json import parse
from posenc_export.bundle.out_file import OTHER, check_out
from posenc_export.errors import BadInput, check_machine
from posenc_export.extending.model import locations
from posenc_export.formats.onnx.place import check_file

CONFIG = "genai_config.json"
"""What onnxruntime-genai reads beside a model: it refuses contexts beyond the length there."""


def check_places(file: Path, out: Path, force: bool) -> None:
    """Raise BadInput, in one line, where there is no file, or where the new one may not be put."""
    check_file(file)
    if out.is_file() and os.path.samefile(file, out) and not force:
        raise BadInput(f"{out} is the file that is read: {OTHER}")
    check_out(out, "model.onnx", force)


@contextmanager
def scratch(file: Path, out: Path) -> Iterator[Path]:
    """Make a folder beside the new file's place, in which external data of the file are seen, and remove it after."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=".posenc-extend-", dir=out.parent))
    except OSError as error:
        raise BadInput(f"cannot write beside {out}: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def place_of_work(file: Path, out: Path, folder: Path) -> Path:
    """Return where the new file is made: in a scratch folder with copies of external data, or beside these.

    A link to the data would not do: onnx and ONNX Runtime refuse files with several names.
    """
    try:
        names = locations(onnx.load(str(file), load_external_data=False))
    except Exception:  # the process that reads it says what it is instead
        names = ()
    if names and os.path.samefile(file.parent, out.parent):
        return out.parent / f"{folder.name}.onnx"
    for name in names:
        if (file.parent / name).is_file() and not Path(name).is_absolute() and ".." not in Path(name).parts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.parent / name, folder / name)
    return folder / out.name


def clean(made: Path, tables: str) -> None:
    """Remove what was made beside external data; new tables stay where a model took them in."""
    for place in (*made.parent.glob(f"{made.name}*"), *([made.with_name(tables)] if made.exists() else [])):
        with suppress(OSError):
            place.unlink()


def tables_name(file: Path, out: Path) -> str:
    """Return the name of a file for new tables beside the new one: none that its other data have."""
    number, name = 0, f"{out.name}.tables"
    while (file.parent / name).exists() or (out.parent / name).exists():
        number += 1
        name = f"{out.name}.tables{number}"
    return name


def install(made: Path, out: Path, force: bool) -> None:
    """Put the new file, and the data beside it, in their places: data first, so that no model is without them."""
    try:
        for name in locations(onnx.load(str(made), load_external_data=False)) if made.parent != out.parent else ():
            _put_data(made.parent / name, out.parent / name, force)
        made.replace(out)
    except OSError as error:
        check_machine(error)
        raise BadInput(f"cannot write {out}: {error.strerror}") from error


def _put_data(made: Path, place: Path, force: bool) -> None:
    if place.exists() and not force:
        raise BadInput(f"{place} is there: give another folder with -o, or --force to replace it")
    place.parent.mkdir(parents=True, exist_ok=True)
    made.replace(place)


def fix_config(file: Path, out: Path, max_len: int, force: bool) -> str:
    """Write the length into the configuration of onnxruntime-genai beside the new file, and say so; "" without one."""
    source, place = file.parent / CONFIG, out.parent / CONFIG
    if not source.is_file() or not max_len:
        return ""
    replaced = place.exists() and (not os.path.samefile(source, place) or out.name != file.name)
    if replaced and not force:
        return f"{place} is as it was: --force writes context_length {max_len} and the name {out.name} into it"
    try:
        config = parse(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return f"{source} cannot be read, and was not changed: {error}"
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        return f"{source} has no model in it, and was not changed"
    _lengthen(config, file.name, out.name, max_len)
    partial = place.with_name(f".{CONFIG}.partial")
    try:
        partial.write_text(json.dumps(config, indent=4) + "\n", encoding="utf-8")
        partial.replace(place)
    finally:
        with suppress(OSError):
            partial.unlink()
    return f"{CONFIG}: context_length {max_len}"


def _lengthen(config: dict[str, object], file: str, out: str, max_len: int) -> None:
    """Write a length, and the new file's name, into a configuration."""
    model, search = config["model"], config.get("search")
    assert isinstance(model, dict)
    before = model.get("context_length")
    model["context_length"] = max_len
    if isinstance(search, dict) and search.get("max_length") == before:
        search["max_length"] = max_len
    for part in model.values():
        if isinstance(part, dict) and part.get("filename") == file:
            part["filename"] = out
