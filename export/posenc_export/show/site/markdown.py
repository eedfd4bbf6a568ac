"""Markdown as HTML: headings get the anchors of code hosts, programs are coloured, tables scroll by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING

from posenc_export.common.errors import BadInput
from posenc_export.common.install import install_line

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
PLAIN = frozenset(("", "w", "n", "p", "o", "go"))
"""Kinds of words without a colour, by their short names in Pygments: spaces, names, signs, what a command prints."""
FOLDED = re.compile(r"&lt;(/?(?:details|summary))&gt;")
LONG = {"longest": 400, "long": 60}
"""Classes of cells, by how many letters they have more than."""
TITLE = re.compile(r'title="(.*?)"')
Attributes = dict[str, str]


@dataclass(frozen=True)
class Heading:
    """A heading: its level, its anchor and its words."""

    level: int
    anchor: str
    words: str


@dataclass(frozen=True)
class PageSection:
    """What stands below a heading, up to the next one, as words."""

    heading: Heading
    words: str


@dataclass(frozen=True)
class Parsed:
    """The Markdown of a page, parsed.

    Args:
        tokens: What it consists of.
        parts: Its headings, each with the words below it.
    """

    tokens: tuple[Token, ...]
    parts: tuple[PageSection, ...]

    @property
    def title(self) -> str:
        """The words of its first heading."""
        return self.parts[0].heading.words


def check_installed() -> None:
    """Raise BadInput where a package that makes pages or their pictures is not installed."""
    # matplotlib draws what a gallery shows: one line says all that is to be installed
    if any(find_spec(name) is None for name in ("markdown_it", "pygments", "matplotlib")):
        raise BadInput(f"a site needs markdown-it-py, Pygments and matplotlib: {install_line('docs')}")


def parse(text: str) -> Parsed:
    """Return the tokens of a text, whose headings have anchors as code hosts give them, and its parts."""
    tokens = _parser().parse(text)
    headings = [_heading(token, words) for token, words in pairwise(tokens) if _opens(token)]
    anchors = _anchors([heading.words for heading in headings])
    headings = [replace(heading, anchor=anchor) for heading, anchor in zip(headings, anchors, strict=True)]
    for token, heading in zip(filter(_opens, tokens), headings, strict=True):
        token.attrSet("id", heading.anchor)
    return Parsed(tuple(tokens), tuple(_parts(tokens, headings)))


def slug(words: str) -> str:
    """Return the anchor of a heading: in small letters, without punctuation, with - for spaces."""
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def render(parsed: Parsed, link: Callable[[str], str], picture: Callable[[str], Attributes]) -> str:
    """Return a page as HTML.

    Args:
        parsed: The page.
        link: The address of what a link names.
        picture: The attributes of a picture, by what names it.

    """
    # links and pictures are inside the tokens of paragraphs and cells
    for token in (inner for outer in parsed.tokens for inner in outer.children or ()):
        if token.type == "link_open":
            token.attrSet("href", link(str(token.attrs["href"])))
        if token.type == "image":
            token.attrs.update(picture(str(token.attrs["src"])))
    parser = _parser()
    return str(parser.renderer.render(list(parsed.tokens), parser.options, {}))


# ---- headings --------------------------------------------------------------------------------------------------------


def _opens(token: Token) -> bool:
    return token.type == "heading_open"


def _heading(opening: Token, words: Token) -> Heading:
    return Heading(int(opening.tag[1:]), "", _words(words))


def _anchors(headings: Sequence[str]) -> list[str]:
    """Return an anchor for each heading: a second one of the same words ends in -1."""
    anchors: list[str] = []
    seen: dict[str, int] = {}
    for words in headings:
        anchor = slug(words)
        anchors.append(f"{anchor}-{seen[anchor]}" if anchor in seen else anchor)
        seen[anchor] = seen.get(anchor, 0) + 1
    return anchors


def _parts(tokens: Sequence[Token], headings: Sequence[Heading]) -> list[PageSection]:
    """Return what stands below each heading."""
    # what stands before the first heading belongs to no part
    texts: list[list[str]] = [[] for _ in headings]
    number, is_heading = -1, False
    for token in tokens:
        number += _opens(token)
        is_heading = _opens(token) or (is_heading and token.type != "heading_close")
        if number >= 0 and not is_heading:
            texts[number].append(_words(token))
    return [
        PageSection(heading, " ".join(" ".join(text).split())) for heading, text in zip(headings, texts, strict=True)
    ]


def _words(token: Token) -> str:
    """Return the words of a token, without markup."""
    if token.type in ("fence", "code_block", "code_inline", "text"):
        return token.content
    if token.type == "softbreak":
        return " "
    if token.type == "image":  # its alternative text is not read on the page
        return ""
    return "".join(map(_words, token.children or ()))


# ---- HTML ------------------------------------------------------------------------------------------------------------


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    rules = {"fence": _fence, "code_block": _code, "table_open": _table, "table_close": _table_end}
    cells = {"th_open": _head, "th_close": _head_end, "td_open": _cell, "heading_close": _heading_end}
    for name, rule in {**rules, **cells, "html_block": _html, "html_inline": _html}.items():
        parser.add_render_rule(name, rule)
    return parser


Environment = dict[str, object]


def _fence(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    language, _, rest = tokens[index].info.partition(" ")
    title = TITLE.search(rest)
    head = f'<p class="file">{escape(title[1])}</p>' if title else ""
    return f"{head}{_block(tokens[index].content, language)}"


def _code(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    return _block(tokens[index].content, "")


def _block(code: str, language: str) -> str:
    name = escape(language or "plain")
    return f'<pre class="{name}" {_group(f"{name} text")}><code>{_coloured(code, language)}</code></pre>\n'


def _group(name: str) -> str:
    """Return the attributes of what may be wider than a page: keyboards reach it, and scroll it."""
    return f'role="group" aria-label="{name}" tabindex="0"'


def _coloured(code: str, language: str) -> str:
    """Return code as HTML, with a class for each kind of word that has a colour, where the language is known."""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES
    from pygments.util import ClassNotFound

    try:
        tokens = get_lexer_by_name(language, stripnl=False).get_tokens(code)
    except ClassNotFound:
        return escape(code)
    return "".join(_word(STANDARD_TYPES.get(kind, ""), text) for kind, text in tokens)


def _word(kind: str, text: str) -> str:
    return escape(text) if kind in PLAIN else f'<span class="{kind}">{escape(text)}</span>'


def _table(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    ends = next(i for i in range(index, len(tokens)) if tokens[i].type == "thead_close")
    heads = [_words(token) for token in tokens[index:ends] if token.type == "inline" and token.content]
    name = escape(", ".join(heads) or "table")
    return f'<div class="scroll" {_group(name)}><table>\n'


def _table_end(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    return "</table></div>\n"


def _html(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    """Return HTML of a text as it is for what folds; all other HTML is text."""
    # comments mark where scripts write figures, and are for nobody who reads
    return FOLDED.sub(r"<\1>", escape(COMMENT.sub("", tokens[index].content)))


def _head(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    """Return the beginning of a cell of a head: an empty corner is the head of no column."""
    return "<th>" if tokens[index + 1].content else "<td>"


def _head_end(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    return "</th>\n" if tokens[index - 1].content else "</td>\n"


def _cell(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    """Return the beginning of a cell, with a class by which a long text gets a wide column, and no tall one."""
    letters = len(_words(tokens[index + 1]))
    kind = next((name for name, least in LONG.items() if letters > least), "")
    return f'<td class="{kind}">' if kind else "<td>"


def _heading_end(_: object, tokens: Sequence[Token], index: int, options: object, environment: Environment) -> str:
    """Return the end of a heading, with a link to it behind the words."""
    # a heading is three tokens: where it opens, its words, where it closes
    opening, words = tokens[index - 2], escape(_words(tokens[index - 1]))
    link = f' <a class="here" href="#{opening.attrs["id"]}" aria-label="Link to: {words}">#</a>'
    return f"{'' if opening.tag == 'h1' else link}</{opening.tag}>\n"
