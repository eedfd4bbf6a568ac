"""A bundle's result as one HTML page: what was proved, and pictures of it; nothing that a bundle says is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.common.doors import door

if TYPE_CHECKING:
    from posenc_export.show.pages.content import content_of
    from posenc_export.show.pages.page import page_of
    from posenc_export.show.pages.write import report_folder

__all__ = ["content_of", "page_of", "report_folder"]
__getattr__ = door(
    __name__,
    {
        "content": "content_of",
        "page": "page_of",
        "write": "report_folder",
    },
)
