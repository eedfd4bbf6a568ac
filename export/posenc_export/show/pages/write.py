"""The page of a bundle that anybody made: the bundle is proved, and the page of that result is written into a file."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.out_file import OUTPUT, PlaceOption, check_out
from posenc_export.common.errors import BadInput, check_machine
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
    try:
        number, name = tempfile.mkstemp(prefix=".posenc-report-", suffix=".html", dir=out.parent)
        try:
            with open(number, "w", encoding="utf-8", newline="\n") as file:
                file.write(page)
            Path(name).chmod(0o666 & ~_umask())
            _put(Path(name), out, force, option)
        finally:
            with suppress(OSError):
                Path(name).unlink()
    except OSError as error:
        check_machine(error)
        raise BadInput(f"cannot write {out}: {error.strerror}") from error


def _put(made: Path, out: Path, force: bool, option: PlaceOption) -> None:
    if force:
        made.replace(out)
        return
    try:
        os.link(made, out)  # unlike a rename, it replaces nothing that another program has put there since
    except FileExistsError:
        raise BadInput(f"{out} is there: {option.another_or_force}") from None
    except OSError:  # a file system without links
        made.replace(out)


def _umask() -> int:
    """Return the permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
