"""Parts of pages that scripts make: what stands between the comments `<!-- NAME -->` and `<!-- /NAME -->`."""

from pathlib import Path


def part_of(page: Path, name: str) -> str:
    """Return the text of a part of a page."""
    return _split(page, name)[1]


def put_part(page: Path, name: str, text: str) -> None:
    """Put a text into a part of a page."""
    before, _, after = _split(page, name)
    page.write_text(f"{before}<!-- {name} -->\n{text}<!-- /{name} -->\n{after}", encoding="utf-8")


def _split(page: Path, name: str) -> tuple[str, str, str]:
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    part, end, after = rest.partition(f"<!-- /{name} -->\n")
    if not begin or not end:
        raise ValueError(f"{page} has no part {name}")
    return before, part, after
