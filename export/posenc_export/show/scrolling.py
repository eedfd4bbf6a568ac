"""The style of what scrolls sideways, on the pages of bundles and on those of a site."""

from functools import cache
from importlib.resources import files


@cache
def scrolling() -> str:
    """Return the style, which stands in front of a page's own."""
    return files(__package__).joinpath("scrolling.css").read_text("utf-8")
