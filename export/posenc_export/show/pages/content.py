"""What a page shows: the result of a validation, and what is read of the bundle for it."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.golden import GOLDEN
from posenc_export.proof.report.result import ValidateResult
from posenc_export.show.pages.graph import Inside, inside, inside_apart
from posenc_export.show.pages.picture import Picture, pictures_of

CHANGED = ("integrity", "fail")
"""The check and the status of a file that is not the one which its manifest lists."""
OTHER = "is not the file that its manifest lists: nothing of it is shown"


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Args:
        result: The manifest, the verdicts, and what they are based on.
        pictures: Arrays to look at, of the golden data.
        unpictured: Why there are none.
        graph: What the ONNX file is made of, if the bundle has one.
    """

    result: ValidateResult
    pictures: tuple[Picture, ...] = ()
    unpictured: str = ""
    graph: Inside | None = None


def content_of(result: ValidateResult, bundle: Bundle) -> Content:
    """Return what a page shows of a bundle that was validated; what cannot be read of it is left out, in words.

    Args:
        result: The result of its validation.
        bundle: The bundle, trusted where this program has written it.
    """
    # the page must not show numbers of a file that nobody exported
    changed = {verdict.subject for verdict in result.verdicts if (verdict.check, verdict.status) == CHANGED}
    pictures, problem = ([], f"{GOLDEN} {OTHER}") if GOLDEN in changed else pictures_of(bundle)
    return Content(result, tuple(pictures), problem, _graph(bundle, "onnx" in changed))


def _graph(bundle: Bundle, is_changed: bool) -> Inside | None:
    """Return what the ONNX file is made of; None without one."""
    artifact = bundle.manifest.artifact("onnx")
    if artifact is None:
        return None
    if is_changed:
        return Inside(problem=f"{artifact.file} {OTHER}")
    return (inside if bundle.trusted else inside_apart)(bundle.path(artifact))
