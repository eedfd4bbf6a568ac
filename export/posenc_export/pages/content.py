"""What a page shows: the result of a validation, and what is read of the bundle for it."""

from __future__ import annotations

from dataclasses import dataclass

from posenc_export.bundle.folder import Bundle
from posenc_export.validation.report.result import ValidateResult


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Args:
        result: The manifest, the verdicts, and what they are based on.
    """

    result: ValidateResult


def content_of(result: ValidateResult, bundle: Bundle) -> Content:
    """Return what a page shows of a bundle that was validated; what cannot be read of it is left out, in words.

    Args:
        result: The result of its validation.
        bundle: The bundle, trusted where this program has written it.
    """
    return Content(result)
