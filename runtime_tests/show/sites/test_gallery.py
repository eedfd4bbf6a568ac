"""`posenc schemes --site`: a page for each scheme, written whole, and only into folders that this tool wrote."""

import os
import sys
from pathlib import Path

import pytest

import posenc
from helpers.shared import Cli
from helpers.sites import dead_links, loaded_from_elsewhere, reached
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.cli.output.gallery import gallery
from posenc_export.cli.output.scheme_page import markdown_of
from posenc_export.common.errors import BadInput
from posenc_export.show.site.write import check_site


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def made(cli: Cli) -> Path:
    """A gallery of one scheme, in a folder with a space in its name."""
    result = cli("schemes", "rope", "--site", "a gallery")
    assert result.exit_code == 0, result.output
    assert (
        result.output == f"{Path('a gallery/index.html')}: open it in a browser, or put the folder on any web server\n"
    )
    return Path("a gallery").resolve()


def test_the_gallery_of_one_scheme_is_whole(made: Path) -> None:
    page = (made / "schemes" / "rope.html").read_text(encoding="utf-8")
    for words in ("theta^(-2i/d)", "Llama", "head_dim", "posenc-export rope --dynamic", "../pictures/rope.png", "yarn"):
        assert words in page
    assert not dead_links(made)
    assert not loaded_from_elsewhere(made)
    assert reached(made) == set(made.rglob("*.html"))


def test_a_gallery_is_replaced_and_anything_else_is_left_alone(cli: Cli, made: Path) -> None:
    assert cli("schemes", "alibi", "--site", str(made)).exit_code == 0
    assert [page.name for page in (made / "schemes").iterdir()] == ["alibi.html"]
    (made / "notes.txt").write_text("mine")
    before = contents(made)
    result = cli("schemes", "rope", "--site", str(made))
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert (
        "holds notes.txt, which posenc-export did not write, and is left alone: give another with --site\n"
        in result.output
    )
    assert contents(made) == before


@pytest.mark.parametrize("name", ["index.html", "site.json"])
def test_a_gallery_that_was_edited_is_left_alone(made: Path, name: str) -> None:
    (made / name).write_text((made / name).read_text() + " ")
    with pytest.raises(BadInput, match=r"give another with --site$"):
        check_site(made)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/gallery", "."):
        result = cli("schemes", "rope", "--site", place)
        assert (result.exit_code, "--site" in result.output) == (2, True), result.output


@pytest.mark.parametrize("module", ["markdown_it", "matplotlib"])
def test_one_line_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    result = cli("schemes", "rope", "--site", "gallery")
    assert (result.exit_code, "pip install 'matplotlib>=3.9' 'markdown-it-py>=3.0'" in result.output) == (2, True), (
        result.output
    )
    assert not os.listdir()


def test_ways_to_show_a_list_exclude_each_other(cli: Cli) -> None:
    assert cli("schemes", "--json", "--site", "gallery").exit_code == 2
    assert cli("schemes", "no such scheme", "--site", "gallery").exit_code == 2
    assert not os.listdir()


def test_pages_have_the_words_of_the_list() -> None:
    schemes = [SCHEMES[name] for name in ("rope", "mrope", "alibi")]
    text, pages = markdown_of(schemes), gallery(schemes).pages
    assert [page.path for page in pages][1:] == [
        *(f"schemes/{name}.md" for name in ("rope", "mrope", "alibi")),
        "schemes/parameters-of-rope-types.md",
    ]
    for page in pages[1:]:
        said = page.text.replace("(parameters-of-rope-types.md)", "(#parameters-of-rope-types)")
        assert f"#{said}" in text


@pytest.mark.parametrize("name", SCHEMES)
def test_every_command_to_export_asks_for_what_there_is(name: str) -> None:
    commands = markdown_of([SCHEMES[name]]).partition("```bash\n")[2].splitlines()
    words = commands[0].split()
    assert words[:2] == ["posenc-export", name]
    mode = {(): "baked", ("--dynamic",): "dynamic"}[tuple(words[2:])]
    posenc.build(name, Spec(mode))  # type: ignore[arg-type]
