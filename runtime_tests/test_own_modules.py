"""A user's own module: right ones agree, wrong ones are caught, each in one line and with the right status."""

import json
from pathlib import Path

import pytest

from conftest import Cli
from posenc_export.cli.ports import parse_port

X = "x: float32[batch, seq, 8]"


def test_a_good_module_agrees_and_its_reference_is_named(cli: Cli) -> None:
    result = cli("export", "broken:Good", "-p", "scale=0.5", "-i", X, "--max-len", "50", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["passed"]
    assert report["reference"] == "the module itself in float64 (it has no reference of its own)"
    assert Path("Good-dynamic/model.onnx").is_file()
    manifest = json.loads(Path("Good-dynamic/manifest.json").read_text())
    assert manifest["outputs"] == [{"name": "y", "axes": ["batch", "seq", 8], "dtype": "float32", "end": None}]
    assert manifest["params"] == {"scale": 0.5}


def test_two_outputs_are_named_in_order(cli: Cli) -> None:
    result = cli("export", "broken:TwoOutputs", "-i", X, "--max-len", "50", "-q")
    assert result.exit_code == 0, result.output
    manifest = json.loads(Path("TwoOutputs-dynamic/manifest.json").read_text())
    assert [(p["name"], p["axes"]) for p in manifest["outputs"]] == [
        ("y0", ["batch", "seq", 8]),
        ("y1", ["batch", "seq"]),
    ]


@pytest.mark.parametrize(
    ("factory", "inputs", "status", "text"),
    [
        ("Specialises", [X], 4, "torch.export keeps the graph to seq <= 20, but it must hold up to 50"),
        ("Static", [X], 2, "the module itself fails on x"),
        ("BakedLength", [X], 4, "torch.export"),
        ("GivesNan", [X], 2, "the module itself gives NaN in y"),
        ("raises", [X], 2, "broken:raises raised RuntimeError: no weights here"),
        ("no_module", [X], 2, "broken:no_module returned a int: expected an nn.Module"),
        ("not_callable", [X], 2, "broken:not_callable is a int: expected an nn.Module"),
        ("nothing", [X], 2, "broken has no 'nothing'"),
        ("Needs", [X], 2, "broken:Needs needs width: give -p width=VALUE"),
        ("Good", [], 2, "say what goes in, as -i"),
        ("Good", [X, X], 2, "two inputs are named 'x'"),
        ("Good", ["x: float32[batch, seq, 9]"], 2, "the module itself fails on x"),
    ],
)
def test_what_is_wrong_is_one_line(cli: Cli, factory: str, inputs: list[str], status: int, text: str) -> None:
    flags = [part for port in inputs for part in ("-i", port)]
    result = cli("export", f"broken:{factory}", *flags, "--max-len", "50", "-f", "onnx")
    assert result.exit_code == status, result.output
    assert text in result.output
    assert "Traceback" not in result.output
    assert list(Path().iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize("factory", ["FrozenCache", "warm_cache", "CountsCalls"])
def test_a_module_that_keeps_something_of_a_call_is_caught(cli: Cli, factory: str) -> None:
    result = cli("export", f"broken:{factory}", "-i", X, "--max-len", "50", "-f", "onnx")
    assert result.exit_code in (1, 4), result.output
    assert "a call changed" in result.output or "torch.export" in result.output
    assert not Path(f"{factory}-dynamic").exists()


def test_a_lost_input_is_caught(cli: Cli) -> None:
    result = cli("export", "broken:LostInput", "-i", X, "-i", "start: int64[1]", "--max-len", "50", "-f", "onnx")
    assert result.exit_code == 1, result.output
    assert "input 'start' is not used" in result.output
    assert Path("LostInput-dynamic-failed/report.json").is_file()
    assert not Path("LostInput-dynamic").exists()


def test_an_unknown_module_is_one_line(cli: Cli) -> None:
    result = cli("export", "no_such_package:thing", "-i", X)
    assert result.exit_code == 2
    assert "no module 'no_such_package' in the current folder or installed" in result.output


@pytest.mark.parametrize("option", [["--baked"], ["--method", "trig"], ["--positions", "offset"], ["--dtype", "fp16"]])
def test_options_of_schemes_are_refused_for_modules(cli: Cli, option: list[str]) -> None:
    result = cli("export", "broken:Good", "-i", X, *option)
    assert result.exit_code == 2
    assert f"{option[0]} is for schemes" in result.output


@pytest.mark.parametrize(
    ("text", "caret", "expected"),
    [
        ("x float32[batch]", 2, "':' after the name"),
        ("x: float31[batch]", 3, "a dtype, one of"),
        ("x: float32 batch]", 11, "'[' and the axes"),
        ("x: float32[batch seq]", 17, "',' or ']'"),
        ("x: float32[batch,, seq]", 17, "an axis"),
        ("x: float32[batch, 0]", 18, "a size of at least 1"),
        ("x: float32[batch] junk", 18, "nothing more"),
        ("x: float32[batch] < 5", 18, "no bound"),
        ("x: int64[batch] < 0", 18, "a number above 0"),
        ("", 0, "a name"),
    ],
)
def test_the_caret_is_under_the_place(text: str, caret: int, expected: str) -> None:
    with pytest.raises(ValueError, match="-i: expected") as error:
        parse_port(text)
    first, line, pointer = str(error.value).split("\n")
    assert expected in first
    assert line == f"  {text}"
    assert pointer == "  " + " " * caret + "^"


def test_the_command_line_shows_the_caret(cli: Cli) -> None:
    result = cli("export", "broken:Good", "-i", "x: float32[batch seq]")
    assert result.exit_code == 2
    assert result.output.splitlines()[-2:] == ["  x: float32[batch seq]", "  " + " " * 17 + "^"]


def test_ports_read_as_they_are_written() -> None:
    for text in ("x: float32[batch, seq, 512]", "start: int64[1]", "s: float64[]"):
        assert str(parse_port(text)) == text
    assert parse_port(" ids :int64[ batch,seq ]<256").end == 256
