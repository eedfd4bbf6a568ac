"""A bundle's page and its proof in a visitor's browser: served on this machine, or written as static files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.common.doors import door

if TYPE_CHECKING:
    from posenc_export.show.serving.library import find_library
    from posenc_export.show.serving.offer import offer_of
    from posenc_export.show.serving.server import Server, serve_until_stopped
    from posenc_export.show.serving.site import check_site, write_site

__all__ = ["Server", "check_site", "find_library", "offer_of", "serve_until_stopped", "write_site"]
__getattr__ = door(
    __name__,
    {
        "library": "find_library",
        "offer": "offer_of",
        "server": "Server serve_until_stopped",
        "site": "check_site write_site",
    },
)
