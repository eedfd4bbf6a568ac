"""Digests of what is in the files of a scheme."""

from pathlib import Path
from typing import get_args

from helpers.file_contents import digest_of
from posenc.scheme import SCHEMES
from posenc.spec import Mode, Spec
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.write.formats import FORMATS
from posenc_export.write.targets.scheme import scheme_target

WRITTEN = ("onnx", "torchscript", "pt2", "header", "header-c99")
"""An AOTInductor package is not among them: it holds the sources that were compiled, with names of scratch folders."""
IN_BOTH_MODES = ("rope", "sinusoidal")


def modes_of(scheme: str) -> list[Mode]:
    """The mode that a scheme is tried in, dynamic if it can be, or both: of families, one is enough."""
    there: list[Mode] = [mode for mode in get_args(Mode) if mode not in SCHEMES[scheme].unsupported.modes]
    return there if scheme in IN_BOTH_MODES else there[-1:]


def digests(scheme: str, folder: Path) -> dict[str, dict[str, str]]:
    """Write a scheme's smallest sample in every format that it has; return a digest of each file's content, by mode."""
    folder.mkdir()
    return {mode: digests_of(scheme, mode, folder / mode) for mode in modes_of(scheme)}


def digests_of(scheme: str, mode: Mode, folder: Path) -> dict[str, str]:
    """Write the files of one mode, and return a digest of each."""
    target = scheme_target(scheme, Spec(mode, max_len=70), SCHEMES[scheme].samples[0], 0)
    formats = [f for f in WRITTEN if f not in SCHEMES[scheme].unsupported.formats]
    formats = [f for f in formats if not FORMATS[f].refuses(target.encoding)]
    folder.mkdir()
    write_bundle(target, ExportOptions(tuple(formats), validate=False), folder)
    return {name: digest_of(folder / FORMATS[name].file) for name in formats}
