"""Documents are what the code makes now: what they show is run, in order, and gives the output shown; links lead on."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

import posenc
from helpers.hosts import any_host
from helpers.pages import blocks, commands, comparable, play, run
from helpers.shared import ROOT, need
from helpers.visits import PATIENCE, visited
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import Mode, Spec
from posenc_export.cli.output.scheme_page import markdown_of
from posenc_export.proof.runtimes.npm import package
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, TRIED
from posenc_export.show.plots.kinds import kind_of
from posenc_export.write.formats import FORMATS
from posenc_export.write.inputs.axis_names import AXIS_KINDS, KINDS, usual_names
from posenc_export.write.inputs.ports import parse_ports
from scripts import options, records

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOP = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/cpp/README.md", "examples/web/README.md"]
PAGES = [*TOP, *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]

TUTORIAL = "docs/tutorial/chat.md"


def test_the_list_of_schemes_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "reference" / "schemes.md").read_text(encoding="utf-8")
    assert text == markdown_of(SCHEMES.values()), "run: posenc schemes --markdown > docs/reference/schemes.md"


def test_the_list_of_options_is_that_of_the_commands() -> None:
    text = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    assert text == options.page(), "run: python runtime_tests/scripts/options.py > docs/reference/options.md"


def test_the_list_of_records_is_that_of_the_schemas() -> None:
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert text == records.page(), "run: python runtime_tests/scripts/records.py > docs/reference/json.md"
    for name, (_, make) in records.FILES.items():
        schema = json.loads(make())
        assert all(f"| `{field}` |" in text for field in schema["properties"]), name


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: in small letters, hyphens for blanks, no other marks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?[^)]*\)", text):
        if "://" not in target:
            place = (ROOT / page).parent / target if target else ROOT / page
            assert place.exists(), f"{page} links to {target}"
            assert not anchor or anchor in anchors_of(place), f"{page} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_begins_with_whom_it_is_for(page: str) -> None:
    title, empty, first, *_ = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert not empty
    assert first.startswith("For those who")


def test_the_list_of_pages_has_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    shown = {f"docs/{link}" for link in re.findall(r"\]\(([^)#]+\.md)\)", text)}
    assert {page for page in PAGES if page.startswith("docs/")} - {"docs/index.md"} <= shown


PROGRAMS = [page for page in PAGES if {"console", "python"} & {block.language for block in blocks(page)}]
RUN_QUICKLY: tuple[str, ...] = ()
ENCODERS = "docs/how-to/encoder-decoder.md"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in RUN_QUICKLY else (pytest.mark.exhaustive,))
        for page in PROGRAMS
        # test_contributing.py puts the programs of CONTRIBUTING.md where they belong, and runs them there
        if page not in ("docs/how-to/cpp.md", ENCODERS, "docs/how-to/browser.md", TUTORIAL, "CONTRIBUTING.md")
    ],
)
def test_what_a_page_shows_is_what_happens(page: str, tmp_path: Path) -> None:
    check(page, tmp_path)


@pytest.mark.exhaustive
def test_what_the_page_on_browsers_shows_is_what_happens(tmp_path: Path) -> None:
    need("onnxruntime-web")
    check("docs/how-to/browser.md", tmp_path)


@pytest.mark.exhaustive
def test_what_the_page_on_encoders_shows_is_what_happens(tmp_path: Path) -> None:
    need("ort-cpp")
    check(ENCODERS, tmp_path)


@pytest.mark.exhaustive
def test_what_the_page_on_cpp_shows_is_what_happens(tmp_path: Path) -> None:
    """Its programs compile against what its commands have written."""
    for runtime in ("ort-cpp", "libtorch-cpp", "aoti-cpp", "header-cpp"):
        need(runtime)
    check("docs/how-to/cpp.md", tmp_path)
    folders = [f"-I {folder}" for folder in ("text-rope/cpp/include", "text-rope/cpp/session/include", "table")]
    shown = [block for block in blocks("docs/how-to/cpp.md") if block.language == "cpp" and not block.title]
    assert len(shown) >= 3
    for block in shown:
        (tmp_path / "shown.cpp").write_text(block.text)
        flags = " ".join(["-std=c++17 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror -x c++", *folders])
        run(["bash", "-c", f"${{CXX:-c++}} {flags} shown.cpp"], tmp_path)


@pytest.mark.exhaustive
def test_the_tutorial_works_from_top_to_bottom(chromium: "Browser", tmp_path: Path) -> None:
    """Its model chats in Python, in C++, in Node.js, and in a page that a browser opens."""
    for runtime in ("ort-cpp", "onnxruntime-web", "browser-wasm"):
        need(runtime)
    check(TUTORIAL, tmp_path)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / PACKAGE).symlink_to(package(PACKAGE, TRIED))
    with any_host(tmp_path) as address, visited(chromium, address) as visit:
        visit.page.locator("#ask").click()
        visit.page.locator("#talk", has_text="I am Alice.").wait_for(timeout=PATIENCE)
        assert visit.said == []
    text = (ROOT / TUTORIAL).read_text(encoding="utf-8")
    assert f"{PACKAGE}@{TRIED}" in text


def check(page: str, folder: Path) -> None:
    for scene in play(page, folder):
        assert not scene.shown.strip() or comparable(scene.printed) == comparable(scene.shown), scene.what


def test_the_readmes_commands_and_its_pages_are_played() -> None:
    shown = [commands(block.text)[0][0] for block in blocks("README.md") if block.language == "console"]
    assert [command.split()[:2] for command in shown] == [
        ["posenc", "inspect"],
        ["posenc", "export"],
        ["posenc-export", "--dynamic"],
    ]
    assert {
        "README.md",
        "docs/tutorial/getting-started.md",
        "docs/how-to/rotary.md",
        "docs/explanation/validation.md",
        "docs/how-to/cpp.md",
    } <= {*PROGRAMS}


def test_the_table_of_formats_says_what_each_can_be() -> None:
    text = (ROOT / "docs" / "reference" / "schemes.md").read_text(encoding="utf-8")
    rows = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if line.startswith("| [")]
    columns = re.findall(r"^\| scheme \| (.*) \|$", text, flags=re.MULTILINE)[0].split(" | ")
    assert set(columns) == set(FORMATS)
    shown = {name: tuple(row[1:]) for row in rows for name in re.findall(r"\[(\w+)\]", row[0])}
    assert shown == {s.name: tuple(", ".join(modes(s, f)) or "no" for f in columns) for s in SCHEMES.values()}


def test_the_readme_names_schemes_under_their_kinds() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w ]+) \| (`.*`) \|$", text, flags=re.MULTILINE)
    shown = {name: kind for kind, names in rows for name in re.findall("`(.*?)`", names)}
    assert shown == {scheme.name: kind_of(scheme) for scheme in SCHEMES.values()}


def modes(scheme: Scheme, format_: str) -> list[str]:
    """The modes in which the smallest sample of a scheme can be a format."""
    if format_ in scheme.unsupported.formats:
        return []
    there = [mode for mode in get_args(Mode) if mode not in scheme.unsupported.modes]
    encodings = {mode: posenc.build(scheme.name, Spec(mode, max_len=70), **scheme.samples[0]) for mode in there}
    return [mode for mode, encoding in encodings.items() if not FORMATS[format_].refuses(encoding)]


def test_the_tables_of_usual_names_are_those_of_the_reader() -> None:
    text = (ROOT / "docs" / "how-to" / "your-own-module.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w, ]+) \| (\w+) \|$", text, flags=re.MULTILINE)
    shown = {name: kind for names, kind in rows for name in names.split(", ") if names != "anything else"}
    assert {n: k for n, k in shown.items() if k in KINDS} == AXIS_KINDS
    assert {n: k for n, k in shown.items() if n in usual_names()} == usual_names()


def test_every_input_that_is_shown_is_read() -> None:
    text = (ROOT / "docs" / "how-to" / "your-own-module.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| `'(.*?)'` \|", text, flags=re.MULTILINE)
    assert len(shown) >= 10
    beside = "x: float32[batch, seq, patches, height, width, frames]"
    for one in shown:
        parse_ports((one, beside) if " of " in one else (one,))
