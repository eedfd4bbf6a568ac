"""`page_of`: the result of a validation as one HTML file, which loads nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from posenc_export.show.pages.content import Content
from posenc_export.show.pages.policy import Sources, policy
from posenc_export.show.pages.shown import shown
from posenc_export.show.pages.texts import Room, data_text
from posenc_export.show.scrolling import scrolling

LARGEST = 1_000_000
"""Bytes of a page."""
NOTHING = Markup()


@dataclass(frozen=True)
class Addition:
    """What another page has beside what `page_of` shows: a section of its own, scripts, and what they may load.

    Args:
        title: The section's heading; without one there is no section.
        html: The section below its heading: markup of this tool, in which a bundle's texts are escaped.
        data: Values for its scripts, which find them as JSON in the element `#addition-data`.
        styles: Texts of styles, behind the page's own.
        scripts: Texts of scripts, behind the page's own.
        modules: Whether its scripts are modules.
        sources: What the page may load, by directive of its Content-Security-Policy.
    """

    title: str = ""
    html: Markup = NOTHING
    data: object = None
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    modules: bool = False
    sources: Sources = field(default_factory=dict)


NO_ADDITION = Addition()


def page_of(content: Content, addition: Addition = NO_ADDITION) -> str:
    """Return a page: one HTML file of less than 1 MB that loads nothing but what `addition` says.

    Args:
        content: What is shown.
        addition: What else is in it.
    """
    page = _page(content, addition)
    if len(page.encode("utf-8", "replace")) <= LARGEST or not content.pictures:
        return page
    # texts, rows and points are bounded: pictures are what is left to leave out
    return _page(replace(content, pictures=(), unpictured="it would make the page too large"), addition)


def _page(content: Content, addition: Addition) -> str:
    styles, scripts = (scrolling(), template("page.css"), *addition.styles), (template("page.js"), *addition.scripts)
    room = Room()
    page = environment(room).get_template("page.html.jinja")
    return page.render(
        **shown(content),
        policy=policy(scripts, styles, addition.sources),
        styles=[Markup(text) for text in styles],
        scripts=[Markup(text) for text in scripts],
        addition=addition,
        addition_data=data_text(addition.data),
        data=data_text({"pictures": [picture.data(room.text) for picture in content.pictures]}),
    )


@cache
def template(name: str) -> str:
    """Return the text of a file in templates/."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def environment(room: Room) -> Environment:
    """Return what fills templates: everything that is shown is escaped, and goes through the page's room for texts."""
    return Environment(
        loader=PackageLoader("posenc_export.show.pages"),
        autoescape=True,
        # a name that is misspelled must not become an empty text
        undefined=StrictUndefined,
        # in one place, so that no template can forget it
        finalize=room.text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
