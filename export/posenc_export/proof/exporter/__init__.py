"""From a target to a bundle on disk, with its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.paths import native_path
from posenc_export.bundle.place import check_target, failed_place, removals
from posenc_export.bundle.replacement import install, staged
from posenc_export.common.arrays import free
from posenc_export.common.errors import own_files
from posenc_export.proof.exporter.embedding import embedded
from posenc_export.proof.exporter.keeping import keep_calls, kept_calls
from posenc_export.proof.exporter.options import ExportOptions, ExportResult, check_options
from posenc_export.proof.exporter.write import write_bundle, write_parts
from posenc_export.proof.judging.verdict import of_part, unmet
from posenc_export.proof.report.basis import basis_of
from posenc_export.proof.report.report import write_report
from posenc_export.proof.running.model import check_has_model
from posenc_export.proof.running.run import steps as validation_steps
from posenc_export.proof.running.run import validate_bundle
from posenc_export.proof.runtimes.requests import prepare
from posenc_export.write.cpp.names import default_name
from posenc_export.write.targets import Target
from posenc_export.write.targets.ending import advised

__all__ = ["ExportOptions", "ExportResult", "export_target", "write_bundle"]


def steps(options: ExportOptions) -> int:
    """Return how many steps an export has."""
    of_validation = validation_steps(options.formats, options.validation) if options.validate else 0
    return 3 + len(options.formats) + of_validation  # loading, recording, writing


Page: TypeAlias = "Callable[[ExportResult, Bundle], str]"


def export_target(
    make: Callable[[], Target],
    options: ExportOptions,
    to: Path | None = None,
    page: Page | None = None,
    reads: Sequence[Path] = (),
) -> ExportResult:
    """Export the target that `make` returns to a bundle at `to`, or at its default place, and validate it.

    A bundle that fails goes to TO-failed, so that it can be looked at and nobody takes it for a good one; one that was
    at `to` stays.

    Args:
        make: Makes the target. A target that was handed over would be kept alive by the caller, with its table, which
            is as large as everything that validation needs.
        options: What is written, and how it is validated.
        to: The folder of the bundle.
        page: Makes the page of the result, for `options.html`: pages lie in a room above this one.
        reads: Files and folders that the target is read from: neither place may be, or hold, any of them.

    Raises ValueError where a page is asked for and nothing makes it; BadInput before any work where either place holds
    files that are not ours to replace; ExportFailed where there is no graph to write.
    """
    check_options(options)
    if options.html and page is None:
        raise ValueError("options.html asks for a page: give `page`, which makes it")
    if to is not None:
        _check_target(to, options, reads)
    validation = options.validation
    prepare(validation.runtimes, validation.required_runtimes, validation.progress)
    validation.progress("loading torch")
    target = make()
    check_has_model(validation.require, target.question is not None)
    if to is None:
        to = Path(target.folder)
        _check_target(to, options, reads)
    with staged(to) as scratch, native_path(scratch) as folder:
        with _advised(target, options):
            parts = write_parts(target, options, folder)
            manifest, captures = write_bundle(target, options, folder, parts)
        del target  # from here on the bundle speaks for itself
        free(sum(artifact.bytes for artifact in manifest.artifacts))
        with own_files():
            bundle = Bundle.open(folder, trusted=True)
            if options.cpp:
                bundle = embedded(bundle, options.namespace or default_name(to), kept_calls(bundle))
            verdicts = validate_bundle(bundle, validation, captures) if options.validate else []
            for part, other in zip(parts, bundle.parts(), strict=True) if options.validate else ():
                found = validate_bundle(other, validation, dict(part.captures))
                verdicts += of_part(part.name, found)
            del parts
            manifest = replace(bundle.manifest, notes=(*bundle.manifest.notes, *keep_calls(bundle)))
        basis = basis_of(folder, validation)
        result = ExportResult(manifest, tuple(verdicts), basis, tuple(unmet(verdicts, validation.require)), to)
        if result.failed:
            # a good bundle that was at `to` stays
            result = replace(result, folder=failed_place(to))
        shown = page(result, bundle) if page and options.html else None
        write_report(folder, result.manifest, result.verdicts, basis, shown)
        validation.progress(f"writing {result.folder}")
        install(scratch, result.folder, options.force)
    return result


def _advised(target: Target, options: ExportOptions) -> AbstractContextManager[None]:
    """Have the error of a user's module that fails for its length alone say up to which length it runs."""
    encoding = target.encoding
    if target.rules.known_end:
        return nullcontext()
    return advised(lambda: encoding.uncalled().module, encoding.inputs, target.spec.max_len, options.seed)


def _check_target(to: Path, options: ExportOptions, reads: Sequence[Path]) -> None:
    """Raise BadInput where no bundle can be put there, and announce which files of others are removed for it."""
    check_target(to, options.force, reads)
    for line in removals(to) if options.force else ():
        options.announce(line)
