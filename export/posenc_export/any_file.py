"""Functions for files that anybody may have made: inspect and extend for ONNX files, report for bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from posenc_export.common.errors import BadInput, path_of, worded

if TYPE_CHECKING:
    from posenc_export.proof.judging.verdict import ValidateOptions
    from posenc_export.proof.report.result import ValidateResult
    from posenc_export.read.extend.extend import ExtendOptions
    from posenc_export.read.extend.result import Extended
    from posenc_export.read.inspect import InspectOptions
    from posenc_export.read.inspection import Inspection


def in_python(message: str) -> str:
    """Return an error's text with keyword arguments in the place of options; a command prints the text itself."""
    from posenc_export.keywords import in_python

    return in_python(message)


@worded(in_python)
def inspect(
    path: str | PathLike[str],
    *,
    config: str | PathLike[str] | None = None,
    against: str | PathLike[str] | None = None,
    options: InspectOptions | None = None,
    **settings: object,
) -> Inspection:
    """Say what an ONNX file, whoever made it, holds of positions: which encodings, how right, and where they end.

    Nothing of the file is run but small kernels on numbers that follow from positions, in a process with limits.

    Args:
        path: The ONNX file.
        config: A model's config.json, or its folder: the file is held against it, layer by layer.
        against: The ONNX file that it was made of by an optimizer or a quantizer.
        options: Whole, or its fields by name: bound, timeout, memory, begun.
        **settings: Fields of the options.

    Returns the encodings and the findings: `result.passed` says whether none of these is an error.
    Raises BadInput where a file cannot be read, or where reading it takes too long or too much memory.
    """
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.read.inspect import InspectOptions, inspect_file

    held = {name: place for name, place in (("config", config), ("against", against)) if place is not None}
    places = {name: path_of(place, name) for name, place in held.items()}
    chosen = with_fields(options or InspectOptions(), settings)
    return inspect_file(path_of(path, "path"), places.get("config"), places.get("against"), chosen)


@worded(in_python)
def extend(
    file: str | PathLike[str],
    to: str | PathLike[str],
    *,
    parameters: Mapping[str, object] | None = None,
    options: ExtendOptions | None = None,
    **settings: object,
) -> Extended:
    """Write an ONNX file, whoever made it, with more positions, under another rope scaling, or exact, and prove it.

    Args:
        file: The ONNX file, which is left as it is.
        to: Where the new file goes.
        parameters: Those of rope_type, by the names that transformers has for them.
        options: Whole, or its fields by name: max_len, rope_type, encoding, exact, keep_rows, force, timeout, memory.
        **settings: Fields of the options.

    Returns what was rewritten: `result.passed` says whether the length is reached, and outputs are those of before.
    Raises BadInput where nothing can be extended, as learned tables, or where it takes too long or too much memory.
    """
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.read.extend.extend import ExtendOptions, extend_file

    chosen = with_fields(options or ExtendOptions(), settings)
    if parameters is not None and not isinstance(parameters, Mapping):
        raise BadInput(f"parameters must be a mapping of names to values, got {parameters!r}")
    named = replace(chosen, parameters={**chosen.parameters, **(parameters or {})})
    return extend_file(path_of(file, "file"), path_of(to, "to"), named)


@worded(in_python)
def report(
    folder: str | PathLike[str],
    to: str | PathLike[str],
    *,
    trust: bool = False,
    force: bool = False,
    options: ValidateOptions | None = None,
    **settings: object,
) -> ValidateResult:
    """Check a bundle as `validate` does, and write the result as a page in HTML: one file, which loads nothing.

    Args:
        folder: The bundle, which is left as it is; what its own report says is not believed.
        to: The file of the page, which ends in .html; it is written for a bundle that fails, too.
        trust: As for `validate`.
        force: Whether a file is replaced that is there.
        options: As for `validate`.
        **settings: As for `validate`.

    Raises BadInput where the page cannot be written, before any work, and otherwise as `validate` does.
    """
    from posenc_export.proof.exporter.settings import with_fields
    from posenc_export.proof.judging.verdict import ValidateOptions
    from posenc_export.show.pages.write import report_folder

    chosen = with_fields(options or ValidateOptions(), settings)
    return report_folder(path_of(folder, "folder"), path_of(to, "to"), chosen, trust=trust, force=force)
