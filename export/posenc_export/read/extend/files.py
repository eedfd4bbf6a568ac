"""The new file's place: what may be replaced, what lies beside it, and how all of it is put there whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from posenc.strict_json import read_json
from posenc_export.bundle.out_file import check_out
from posenc_export.bundle.place import check_apart
from posenc_export.common.errors import BadInput, check_machine
from posenc_export.write.formats.onnx.place import check_file

CONFIG = "genai_config.json"
"""What onnxruntime-genai reads beside a model: it refuses contexts beyond the length there."""


def check_places(file: Path, out: Path, force: bool) -> None:
    """Raise BadInput, in one line, where there is no file, or where the new one may not be put."""
    check_file(file)
    check_apart(out, [file])
    check_out(out, "model.onnx", force)


def is_beside(file: Path, out: Path) -> bool:
    """Return whether the new file goes to the folder of the old one, whose external data it can share."""
    return os.path.samefile(file.parent, out.parent)


def free_name(file: Path, out: Path, kind: str) -> str:
    """Return a name for data of the new file that nothing has, neither there nor where the old file is."""
    number, name = 0, f"{out.name}.{kind}"
    # a link that leads nowhere is something, too
    while os.path.lexists(file.parent / name) or os.path.lexists(out.parent / name):
        number += 1
        name = f"{out.name}.{kind}{number}"
    return name


def install(made: Path, out: Path, data: Sequence[str], orphans: Sequence[str]) -> None:
    """Put the new file and its data in their places: data first, so that no model is without them.

    Args:
        made: the new file, in a scratch folder.
        out: its place; a file there is replaced.
        data: names of the files of data beside it, of which not each need be there.
        orphans: names of data that the file at that place alone took, and that an extension wrote: they are removed.
    """
    installed: list[Path] = []
    try:
        for path in (made.with_name(name) for name in data if name and made.with_name(name).exists()):
            place = out.parent / path.name
            if os.path.lexists(place):
                raise BadInput(f"{place} has appeared meanwhile: run the command again")
            path.rename(place)
            installed.append(place)
        made.replace(out)
    except BaseException as error:
        for place in installed:
            with suppress(OSError):
                place.unlink()
        if not isinstance(error, OSError):
            raise
        check_machine(error)
        raise BadInput(f"cannot write {out}: {error.strerror}") from error
    for name in orphans:
        with suppress(OSError):
            (out.parent / name).unlink()


def fix_config(file: Path, out: Path, scratch: Path, max_len: int, force: bool) -> str:
    """Write the length into the configuration of onnxruntime-genai beside the new file, and say so; "" without one.

    A configuration that is there keeps all but the length and the file's name. Where there is none, that of the old
    file is the model for it.

    Args:
        file: the file that was read.
        out: the new file, at its place.
        scratch: a folder of this run beside it, where the new text is written first.
        max_len: how many positions the file has now.
        force: whether a configuration may be changed that another file than OUT goes by.
    """
    source, place = file.parent / CONFIG, out.parent / CONFIG
    is_there = os.path.lexists(place)
    if not max_len or not (is_there or source.is_file()):
        return ""
    if is_there and (place.is_symlink() or not place.is_file()):
        return f"{place} is a link or no file, and was not changed"
    is_same_model = is_there and source.is_file() and os.path.samefile(source, place) and out.name == file.name
    if is_there and not is_same_model and not force:
        return f"{place} is as it was: --force writes context_length {max_len} and the name {out.name} into it"
    origin = place if is_there else source
    try:
        config = read_json(origin)
    except (OSError, ValueError) as error:
        return f"{origin} cannot be read, and was not changed: {error}"
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        return f"{origin} has no model in it, and was not changed"
    changes = _lengthen(config, file.name, out.name, max_len)
    try:
        text = json.dumps(config, indent=4, allow_nan=False) + "\n"
        (scratch / CONFIG).write_text(text, encoding="utf-8")
        (scratch / CONFIG).replace(place)
    except (OSError, ValueError) as error:
        return f"{place} was not changed: {error}"
    return f"{CONFIG}: {', '.join(changes)}"


def _lengthen(config: dict[str, object], file: str, out: str, max_len: int) -> list[str]:
    """Write a length, and the new file's name, into a configuration; return what changed, in words."""
    model, search = config["model"], config.get("search")
    assert isinstance(model, dict)
    before = model.get("context_length")
    model["context_length"] = max_len
    if isinstance(search, dict) and search.get("max_length") == before:
        search["max_length"] = max_len
    changes = [f"context_length {max_len}"]
    parts = {name: part for name, part in model.items() if isinstance(part, dict) and "filename" in part}
    # pipelines have a file for each part; a configuration of another model's names none that was read
    meant = [part for part in parts.values() if part["filename"] == file] or [
        part for name, part in parts.items() if name == "decoder" and part["filename"] != out
    ]
    for part in meant:
        changes.append(f"filename {out}, which was {part['filename']}")
        part["filename"] = out
    return changes
