"""docs/reference/schemes.md: formulas, models and pictures of every scheme."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.shared import ROOT, Cli
from posenc.scheme import SCHEMES
from posenc_export.cli.output.scheme_page import markdown_of
from posenc_export.show.plots import draw_small

PICTURES = ROOT / "docs" / "pictures"
KILOBYTES = 40


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_has_a_formula_models_and_a_small_picture(name: str) -> None:
    assert SCHEMES[name].formula, "give formula= to @scheme"
    assert "\n" not in SCHEMES[name].formula
    assert SCHEMES[name].models, "give models= to @scheme"
    picture = PICTURES / f"{name}.png"
    assert picture.exists(), f"run: posenc schemes {name} --pictures docs/pictures"
    assert picture.stat().st_size < KILOBYTES * 1000


def test_every_picture_is_of_a_scheme() -> None:
    assert {picture.stem for picture in PICTURES.glob("*.png")} == set(SCHEMES)


@pytest.mark.parametrize("name", SCHEMES)
def test_pictures_are_what_is_drawn_now(name: str, tmp_path: Path) -> None:
    from PIL import Image

    draw_small(SCHEMES[name], tmp_path / "now.png")
    there, now = (Image.open(file).convert("RGB") for file in (PICTURES / f"{name}.png", tmp_path / "now.png"))
    assert there.size == now.size
    difference = np.abs(np.asarray(there, np.int64) - np.asarray(now, np.int64))
    assert difference.mean() < 2, f"run: posenc schemes {name} --pictures docs/pictures --force"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.exhaustive) for n in SCHEMES])
def test_every_scheme_is_drawn_by_default(cli: Cli, name: str) -> None:
    result = cli("plot", name, "-o", "picture.png")
    assert result.exit_code == 0, result.output
    assert Path("picture.png").read_bytes()[:4] == b"\x89PNG"


def test_the_page_begins_with_contents_and_says_shared_parameters_once() -> None:
    text = markdown_of(SCHEMES.values())
    contents = text.partition("\n## ")[0]
    assert all(f"* [{name}](#{name}): {SCHEMES[name].summary}\n" in contents for name in SCHEMES)
    assert text.count("`-p beta_fast=`") == 1
    assert text.count("It takes the [parameters of rope types](#parameters-of-rope-types), too.") == 2
    of_one = markdown_of([SCHEMES["rope"]])
    assert "`-p beta_fast=`" in of_one
    assert "too." not in of_one


def test_a_scheme_says_what_it_cannot_be_once_a_reason() -> None:
    text = markdown_of([SCHEMES["mrope"]])
    assert "* Forms: baked and dynamic; positions explicit.\n  * No implicit or offset or mask: each token has" in text
    no_tables = "  * No cache or cache-npz or header or header-c99: queries and keys must be rotated alike"
    assert no_tables in markdown_of([SCHEMES["xpos"]])
    assert "\n    PE[p, 2i] = sin(p / base^(2i/d))" in markdown_of([SCHEMES["sinusoidal"]])


def test_formulas_and_models_are_listed(cli: Cli) -> None:
    (rope,) = json.loads(cli("schemes", "rope", "--json").stdout)
    assert "theta^(-2i/d)" in rope["formula"]
    assert "Llama" in rope["models"]
    assert "used by Llama" in cli("schemes", "rope").output


def test_pictures_go_into_a_folder_or_one_line_says_why_not(cli: Cli) -> None:
    assert cli("schemes", "sinusoidal", "--pictures", "new/folder").exit_code == 0
    assert [file.name for file in Path("new/folder").iterdir()] == ["sinusoidal.png"]
    Path("file").touch()
    result = cli("schemes", "sinusoidal", "--pictures", "file/folder")
    assert (result.exit_code, "cannot make file/folder" in result.output) == (2, True), result.output
    assert cli("schemes", "--json", "--pictures", "new").exit_code == 2
