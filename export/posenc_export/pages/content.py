"""What a page shows: the result of a validation, and what is read of the bundle for it."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_export.bundle.folder import Bundle
from posenc_export.pages.graph import Inside, inside, inside_apart
from posenc_export.pages.picture import Picture, pictures_of
from posenc_export.validation.report.result import ValidateResult


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
    artifact = bundle.manifest.artifact("onnx")
    read = inside if bundle.trusted else inside_apart
    graph = None if artifact is None else read(bundle.path(artifact))
    pictures, problem = pictures_of(bundle)
    return Content(result, tuple(pictures), problem, graph)
