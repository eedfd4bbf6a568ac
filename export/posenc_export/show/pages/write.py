"""The page of a bundle that anybody made: the bundle is proved, and the page of that result is written into a file."""

from __future__ import annotations

import os
from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.out_file import OUTPUT, PlaceOption, check_out, whole_file
from posenc_export.common.errors import BadInput
from posenc_export.proof.apart.parent import validate_folder
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.report.result import ValidateResult
from posenc_export.show.pages.content import content_of
from posenc_export.show.pages.page import page_of

SUFFIXES = (".html", ".htm")


def report_folder(
    folder: Path, out: Path, options: ValidateOptions, *, trust: bool = False, force: bool = False
) -> ValidateResult:
    """Validate a bundle and write the page of the result; what its own reports say is not looked at.

    Args:
        folder: The bundle, which is left as it is.
        out: The file of the page.
        options: Which runtimes, and how.
        trust: Whether code in the bundle may be run.
        force: Whether a file is replaced that is there.

    Raises BadInput, before any work, where the file cannot be written or is there, and as `validate_folder` does.
    """
    check_page(out, force, folder)
    result = validate_folder(folder, options, trust)
    options.progress(f"writing {out}")
    # even where its code may run, the graph is parsed in a process of its own
    write_page(page_of(content_of(result, Bundle.read(folder))), out, force)
    return result


def check_page(out: Path, force: bool, folder: Path | None = None, option: PlaceOption = OUTPUT) -> None:
    """Raise BadInput, in one line, where the page may not be put.

    Args:
        out: The file of the page.
        force: Whether a file is replaced that is there.
        folder: The bundle that the page is of, which is left as it is; None for a page of something else.
        option: The option that names the file.
    """
    if out.suffix.lower() not in SUFFIXES:
        raise BadInput(f"give the page a name that ends in .html: got {out}")
    try:
        if folder is not None and out.parent.resolve().is_relative_to(folder.resolve()):
            raise BadInput(f"{out} lies in the bundle, which is left as it is: {option.another}")
        check_out(out, "report.html", force, option)
        if not os.access(out.parent, os.W_OK | os.X_OK):
            raise BadInput(f"cannot write into {out.parent}: give another file with {option.name}")
    except (OSError, RuntimeError) as error:  # a name that is too long, a loop of links
        raise BadInput(f"cannot write {out}: {getattr(error, 'strerror', None) or error}") from error


def write_page(page: str, out: Path, force: bool, option: PlaceOption = OUTPUT) -> None:
    """Put a page into its place whole: a kill leaves the old file or the new one. `option` names the file in advice."""
    with whole_file(out, force, option) as made:
        made.write_text(page, encoding="utf-8", newline="\n")
