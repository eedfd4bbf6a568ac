"""A bundle's result as one HTML page: what was proved, and pictures of it; nothing that a bundle says is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.common.doors import door

if TYPE_CHECKING:
    from posenc_export.show.pages.content import content_of
    from posenc_export.show.pages.inspected import inspection_in_notebook, inspection_page
    from posenc_export.show.pages.page import page_of
    from posenc_export.show.pages.write import check_page, report_folder, write_page

__all__ = [
    "check_page",
    "content_of",
    "inspection_in_notebook",
    "inspection_page",
    "page_of",
    "report_folder",
    "write_page",
]
__getattr__ = door(
    __name__,
    {
        "content": "content_of",
        "inspected": "inspection_in_notebook inspection_page",
        "page": "page_of",
        "write": "check_page report_folder write_page",
    },
)
