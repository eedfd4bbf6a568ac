"""Static pages made of Markdown, with a search: read from a folder or any server, nothing comes from another host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.common.doors import door

if TYPE_CHECKING:
    from posenc_export.show.site.markdown import slug
    from posenc_export.show.site.page import Entry, Page, Site
    from posenc_export.show.site.write import check_site, write_site

__all__ = ["Entry", "Page", "Site", "check_site", "slug", "write_site"]
__getattr__ = door(
    __name__,
    {
        "markdown": "slug",
        "page": "Entry Page Site",
        "write": "check_site write_site",
    },
)
