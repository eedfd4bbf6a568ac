"""Pages in a real Chromium, on a phone and on a desk, light and dark: silent, legible, and found by the search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.browser import browser
from helpers.opened_pages import Opened, screenshot, watched
from helpers.shared import Cli, Once
from helpers.sites import pages_of, served
from posenc.scheme import SCHEMES
from posenc_export.cli.commands.schemes import write_gallery
from posenc_export.show.site.write import write_site
from scripts.whole_site import whole

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

SCREENS = [((390, 844), "dark"), ((1280, 900), "light")]
LOOKED_AT = (
    "index.html",
    "docs/reference/schemes.html",
    "docs/reference/schemes/rope.html",
    "docs/reference/schemes/interpolated.html",
    "docs/explanation/validation.html",
)


def on(chromium: Browser, screen: tuple[tuple[int, int], str], **how: bool) -> BrowserContext:
    (width, height), scheme = screen
    return chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **how)  # type: ignore[arg-type]


def check_barriers(view: Opened, place: str, width: int, folder: Path) -> None:
    """Nobody is kept out of a page; a picture of it is left for people to look at."""
    assert not view.violations(), place
    screenshot(view, folder, f"site-{place.replace('/', '-')}-{width}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def small(once: Once) -> Path:
    """A gallery of three schemes, of two kinds."""
    chosen = [SCHEMES["rope"], SCHEMES["xpos"], SCHEMES["alibi"]]
    return once("small-gallery", lambda folder: write_gallery(chosen, folder / "gallery")) / "gallery"


def check(view: Opened, address: str, place: str) -> None:
    """Open a page: it says nothing, requests nothing from elsewhere, and only what has a shadow scrolls sideways."""
    view.page.goto(address + place)
    assert not view.said, place
    assert view.asked, place
    assert all(url.startswith(address) for url in view.asked), place
    assert view.overflow() <= 0, place
    assert view.cut() == [], place


def test_a_gallery_on_a_phone_and_on_a_desk(chromium: Browser, small: Path, tmp_path: Path) -> None:
    with served(small) as address:
        for screen in SCREENS:
            with on(chromium, screen) as context:
                view = watched(context.new_page())
                for place in ("index.html", "schemes/rope.html"):
                    check(view, address, place)
                    check_barriers(view, place, screen[0][0], tmp_path)


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_the_search_finds_a_scheme_from_a_server_and_from_a_folder(chromium: Browser, small: Path, scheme: str) -> None:
    with served(small) as address, on(chromium, SCREENS[0]) as context:
        view = watched(page := context.new_page())
        check(view, address if scheme == "http" else f"{small.as_uri()}/", "schemes/alibi.html")
        page.keyboard.press("/")
        page.keyboard.type("rope")
        page.wait_for_selector("#results a")
        assert page.inner_text("#results a strong") == "rope"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_url("**/schemes/rope.html")
        assert page.inner_text("h1") == "rope"
        assert not view.said


def test_the_search_finds_models_and_says_when_it_finds_nothing(chromium: Browser, small: Path) -> None:
    with served(small) as address, on(chromium, SCREENS[1]) as context:
        page = context.new_page()
        page.goto(f"{address}index.html")
        page.fill("#query", "bloom")
        page.wait_for_selector("#results a")
        assert page.inner_text("#results a strong") == "alibi"
        page.fill("#query", "<img src=x onerror=alert(1)>")
        page.wait_for_selector("#results .none")
        assert page.inner_text("#found") == "Nothing found"
        assert page.inner_text("#results") == "Nothing found: <img src=x onerror=alert(1)>"
        page.keyboard.press("Escape")
        assert not page.is_visible("#results")


def test_light_and_dark_are_chosen_and_kept_and_the_menu_opens(chromium: Browser, small: Path) -> None:
    with served(small) as address, on(chromium, SCREENS[0]) as context:
        page = context.new_page()
        page.goto(f"{address}index.html")
        assert page.inner_text("#theme") == "Light"
        page.click("#theme")
        page.goto(f"{address}schemes/rope.html")
        assert page.inner_text("#theme") == "Dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.is_visible("#navigation")
        page.click("#menu")
        page.click("#navigation >> text=xpos")
        page.wait_for_url("**/schemes/xpos.html")


def test_a_page_is_whole_without_its_script(chromium: Browser, small: Path) -> None:
    with served(small) as address, on(chromium, SCREENS[0], java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}schemes/rope.html")
        assert page.is_visible("#navigation >> text=xpos")
        assert not page.is_visible("#menu")
        assert page.is_visible("main table")


@pytest.mark.exhaustive
def test_every_page_of_the_whole_site_is_silent(chromium: Browser, once: Once, tmp_path: Path) -> None:
    folder = once("whole-site", lambda folder: write_site(whole(), folder / "site")) / "site"
    places = [page.relative_to(folder).as_posix() for page in pages_of(folder)]
    assert {*LOOKED_AT} <= {*places}
    with served(folder) as address:
        for screen in SCREENS:
            with on(chromium, screen) as context:
                view = watched(context.new_page())
                for place in places:
                    check(view, address, place)
                    if place in LOOKED_AT:
                        check_barriers(view, place, screen[0][0], tmp_path)


@pytest.mark.exhaustive
def test_the_gallery_of_all_schemes_is_made_by_the_command(cli: Cli) -> None:
    assert cli("schemes", "--site", "gallery").exit_code == 0
    assert {page.stem for page in Path("gallery/schemes").iterdir()} == {*SCHEMES, "parameters-of-rope-types"}
