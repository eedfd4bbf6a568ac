"""Places that commands write to: what is there stays, unless --force says otherwise; what is read stays in any case."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from helpers.longer import buffered
from helpers.shared import Cli

OLD = b"a picture of somebody's\n"
PLACES: dict[str, tuple[Sequence[str], str, str]] = {
    "plot": (["plot", "sinusoidal", "-p", "d_model=8", "--max-len", "8", "-o", "there.png"], "there.png", "-o"),
    "plot as .svg": (["plot", "sinusoidal", "-p", "d_model=8", "--max-len", "8", "-o", "there.svg"], "there.svg", "-o"),
    "inspect --plot": (["inspect", "g.onnx", "--plot", "there.png"], "there.png", "--plot"),
    "inspect --html": (["inspect", "g.onnx", "--html", "there.html"], "there.html", "--html"),
    "extend": (["extend", "g.onnx", "--max-len", "300", "-o", "there.onnx"], "there.onnx", "-o"),
    "schemes --pictures": (["schemes", "sinusoidal", "--pictures", "."], "sinusoidal.png", "--pictures"),
}
"""The words of a command, the file that it writes, and the option that names its place."""


@pytest.mark.parametrize("name", PLACES)
def test_a_file_that_is_there_is_replaced_by_force_alone(cli: Cli, tmp_path: Path, name: str) -> None:
    words, file, option = PLACES[name]
    buffered(tmp_path)
    (tmp_path / file).write_bytes(OLD)
    before = sorted(entry.name for entry in tmp_path.iterdir())
    refused = cli(*words)
    said = f"{file} is there: give another with {option}, or --force to replace it"
    assert (refused.exit_code, said in refused.output) == (2, True), refused.output
    assert (tmp_path / file).read_bytes() == OLD

    done = cli(*words, "--force")
    assert done.exit_code == 0, done.output
    assert (tmp_path / file).read_bytes() != OLD
    # nothing of the way there is left
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_a_picture_that_cannot_be_drawn_leaves_what_is_there(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "there.png").write_bytes(OLD)
    result = cli("plot", "learned", "--kind", "clock", "-o", "there.png", "--force")
    assert (result.exit_code, "learned has none" in result.output) == (2, True), result.output
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("there.png", OLD)]


def test_a_picture_never_replaces_the_table_that_is_drawn(cli: Cli, tmp_path: Path) -> None:
    table = tmp_path / "table.png"
    np.save(tmp_path / "table.npy", np.zeros((4, 8), np.float32))
    (tmp_path / "table.npy").rename(table)
    before = table.read_bytes()
    result = cli("plot", "learned", "-p", "weights=table.png", "-o", "table.png", "--force")
    assert (result.exit_code, "table.png is what this command reads" in result.output) == (2, True), result.output
    assert table.read_bytes() == before


def test_an_extension_never_replaces_what_it_is_made_of_or_held_against(cli: Cli, tmp_path: Path) -> None:
    model = onnx.load(str(buffered(tmp_path)))
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.onnx", size_threshold=0)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    for words in (["-o", "w.onnx"], ["-o", "g.onnx", "--against", "g.onnx"], ["-o", "m.onnx"]):
        result = cli("extend", "m.onnx", "--max-len", "300", *words, "--force")
        assert (result.exit_code, "is what this command reads" in result.output) == (2, True), result.output
        assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.parametrize("place", ["w.html", "w.svg"])
def test_a_page_or_picture_never_replaces_the_weights_of_the_file(cli: Cli, tmp_path: Path, place: str) -> None:
    model = onnx.load(str(buffered(tmp_path)))
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location=place, size_threshold=0)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    option = "--html" if place.endswith(".html") else "--plot"
    for words in (["m.onnx"], ["g.onnx", "--against", "m.onnx"]):
        result = cli("inspect", *words, option, place, "--force")
        assert (result.exit_code, f"{place} is what this command reads" in result.output) == (2, True), result.output
        assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_a_table_of_times_goes_into_no_file_of_the_bundle_and_into_no_picture(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "manifest.json").write_text("{}")
    (tmp_path / "there.png").write_bytes(b"\x89PNG")
    for place, said in (("bundle/report.md", "lies in the bundle"), ("there.png", "is no text to put a table into")):
        result = cli("bench", "bundle", "--save", place)
        assert (result.exit_code, said in result.output) == (2, True), result.output
    assert (tmp_path / "there.png").read_bytes() == b"\x89PNG"
    assert [entry.name for entry in (tmp_path / "bundle").iterdir()] == ["manifest.json"]
