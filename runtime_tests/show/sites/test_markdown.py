"""Markdown becomes pages: anchors are those of code hosts, links lead on, and no text becomes markup."""

from pathlib import Path

import pytest

from posenc_export.common.errors import BadInput
from posenc_export.show.site import markdown
from posenc_export.show.site.page import Entry, Page, Site
from posenc_export.show.site.write import rendered

LOUD = """# Title

<script>alert(1)</script> [x](javascript:alert(1)) `<b>` &lt;i&gt;

## `-p a=1`: what, "this"?

| | <b>a</b> |
| --- | --- |
| x \\| y | <img src=x onerror=alert(1)> |

## Again

    plain <code>

## Again

```python title="a<b>.py"
def f(): return "<script>"
```
"""


def site(*pages: Page, **others: object) -> Site:
    return Site("Site", pages, tuple(Entry(page.path, page.path) for page in pages), **others)  # type: ignore[arg-type]


def test_headings_have_the_anchors_of_code_hosts() -> None:
    parsed = markdown.parse(LOUD)
    assert [part.heading.anchor for part in parsed.parts] == ["title", "-p-a1-what-this", "again", "again-1"]
    assert parsed.title == "Title"
    assert parsed.parts[2].words == "plain <code>"


def test_no_text_becomes_markup() -> None:
    page = Page("index.md", LOUD.replace("[x](javascript:alert(1)) ", ""))
    html = rendered(site(page))["index.html"]
    for text in ("<script>alert", "<img", "<b>", "<i>", "<code></code>"):
        assert text not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert '<p class="file">a&lt;b&gt;.py</p>' in html
    assert '<span class="k">def</span>' in html


def test_an_empty_corner_is_the_head_of_no_column() -> None:
    html = rendered(site(Page("index.md", LOUD.replace("[x](javascript:alert(1)) ", ""))))["index.html"]
    assert html.count("<th>") == html.count("</th>") == 1


def test_long_texts_get_wide_columns() -> None:
    table = f"| a | b | c |\n| --- | --- | --- |\n| {'x' * 401} | {'y' * 61} | `{'z' * 60}` |\n"
    html = rendered(site(Page("index.md", f"# T\n\n{table}")))["index.html"]
    assert '<td class="longest">x' in html
    assert '<td class="long">y' in html
    assert "<td><code>z" in html


@pytest.mark.parametrize("link", ["other.md#there", "../docs/other.md#there"])
def test_links_between_files_are_links_between_pages(link: str) -> None:
    first, second = (
        Page("docs/a.md", f"# A\n\n[x]({link}) [y](https://example.org/a.md)"),
        Page("docs/other.md", "# O\n\n## There"),
    )
    html = rendered(site(first, second))["docs/a.html"]
    assert '<a href="other.html#there">x</a> <a href="https://example.org/a.md">y</a>' in html


def test_a_link_to_what_moved_leads_to_its_page() -> None:
    first, second = Page("README.md", "# A\n\n[x](docs/list.md#it)"), Page("docs/list/it.md", "# It")
    html = rendered(site(first, second, moved={"docs/list.md#it": "docs/list/it.md"}))["index.html"]
    assert '<a href="docs/list/it.html">x</a>' in html


@pytest.mark.parametrize("link", ["[x](none.md)", "[x](#none)", "[x](a.md#none)", "![x](none.png)", "[x](../../up.md)"])
def test_a_link_that_leads_nowhere_is_refused_in_one_line(link: str) -> None:
    with pytest.raises(BadInput, match=r"^docs/a\.md (links to|shows) \S+, which is not there$"):
        rendered(site(Page("docs/a.md", f"# A\n\n{link}", source="docs/a.md")))


def test_pictures_have_their_size(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (30, 20)).save(tmp_path / "x.png")
    html = rendered(site(Page("a.md", "# A\n\n![words](x.png)"), files={"x.png": tmp_path / "x.png"}))["a.html"]
    assert '<img src="x.png" alt="words" width="30" height="20" loading="lazy" />' in html
