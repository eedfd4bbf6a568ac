"""Tables as Markdown, as plain text and as HTML: the text of a cell never becomes markup."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, each row in one line whatever is in its cells."""
    lines = (columns, ["---"] * len(columns), *rows)
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def plain(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()) -> str:
    """Return a table in columns of even width, two spaces apart; `numbers` are flush right."""
    lines = [[cell.replace("\n", "\\n") for cell in line] for line in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    # numbers line up at their last digit
    sides = [str.rjust if column in numbers else str.ljust for column in columns]
    padded = ([pad(cell, width) for cell, width, pad in zip(line, widths, sides, strict=True)] for line in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def html(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML."""
    head, body = _html_row("th", columns), "".join(_html_row("td", row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def html_lines(lines: Iterable[str]) -> str:
    """Return lines as a paragraph of HTML."""
    return f"<p>{'<br>'.join(map(escape, lines))}</p>"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def count_of(noun: str, number: int) -> str:
    """Return a count in words: "no checks", "1 check", "2 checks"."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
