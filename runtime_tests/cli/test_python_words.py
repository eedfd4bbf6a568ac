"""From Python errors speak of keyword arguments, on the command line of options; texts are ports in both."""

from pathlib import Path
from typing import Any

import click
import pytest

import posenc_export
from helpers.broken import Good
from helpers.shared import Cli
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc_export.cli import main
from posenc_export.common.errors import BadInput, PosencError
from posenc_export.keywords import ALONE, KEYWORDS, SWITCHES, in_python
from posenc_export.write.inputs.given import ports_of

X = Port("x", (BATCH, SEQ, fixed(8)), "float32")
OF_TERMINALS = {"-q", "--quiet", "-v", "--verbose", "--json", "--github", "--save", "--version", "--param"}
"""Options that only a command has."""


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("give another with -o, or --force to replace it", "give another with to=, or force=True to replace it"),
        ("say what goes in, as -i 'x: float32[n]'", 'say what goes in, as inputs=["x: float32[n]"]'),
        ("say which in -i, as 'seq % 8'", "say which in inputs=, as 'seq % 8'"),
        ("-i: expected a name", "inputs: expected a name"),
        ("rope needs head_dim: give -p head_dim=VALUE", "rope needs head_dim: give head_dim=VALUE"),
        ("-p layout=halves or -p layout=interleaved", 'layout="halves" or layout="interleaved"'),
        ("it takes --dynamic --method trig", 'it takes mode="dynamic", method="trig"'),
        ("use --positions implicit or offset", 'use positions="implicit" or "offset"'),
        ("give --dtype fp32 or fp64", 'give dtype="fp32" or "fp64"'),
        ("give --max-len 3 or more", "give max_len=3 or more"),
        ("or --max-len asks for more than it has", "or max_len asks for more than it has"),
        ("--rotary-op onnx needs opset 23, got --opset 20", 'rotary_op="onnx" needs opset 23, got opset=20'),
        ("give -f onnx or -f torchscript with it", 'give formats=["onnx"] or formats=["torchscript"] with it'),
        ("--require ort-cpu runs nothing with --no-validate", 'require=["ort-cpu"] runs nothing with validate=False'),
        ("runs code from the bundle; give --trust", "runs code from the bundle; give trust=True"),
        ("give --length 40 or less", "give lengths=[40] or less"),
        ("choose one with --layer N", "choose one with layer=N"),
        ("a folder '--force' and x-o and --forceful", "a folder '--force' and x-o and --forceful"),
    ],
)
def test_what_a_command_calls_an_option_is_a_keyword_argument_in_python(typed: str, said: str) -> None:
    assert in_python(typed) == said


def test_every_option_has_its_word_in_python() -> None:
    known = {*KEYWORDS, *SWITCHES, *ALONE, *OF_TERMINALS}
    for name in ("export", "validate", "bench"):
        options = [one for one in main.commands[name].params if isinstance(one, click.Option)]
        shown = [option for option in options if not option.hidden]
    assert {word for option in shown for word in (*option.opts, *option.secondary_opts)} <= known, name


@pytest.mark.parametrize(
    ("source", "settings", "text"),
    [
        (Good, {}, 'helpers.broken:Good: say what goes in, as inputs=["x: float32[batch, seq, 512]"]'),
        ("sinusoidal", {"inputs": ["x: float32[seq]"]}, "inputs= gives the inputs of package.module:factory"),
        ("rope", {"rope_type": "linear"}, "give factor=VALUE"),
        ("sinusoidal", {"d_model": "auto"}, 'it takes mode="dynamic", method="trig"'),
        ("sinusoidal", {"max_len": 2}, "give max_len=3 or more"),
        ("sinusoidal", {"validate": False, "require": "ort-cpu"}, 'require=["ort-cpu"] runs nothing with validate'),
        ("sinusoidal", {"namespace": "a"}, 'give formats=["header"] or formats=["header-c99"], or cpp=True with it'),
        ("sinusoidal", {"cpp": True, "formats": "pt2"}, 'formats=["torchscript"] or formats=["aoti"] with it'),
        (Good, {"inputs": ["x: float32[batch, seq"]}, "inputs: expected ',' or ']'"),
        (Good, {"inputs": ["x: float32[n]", "x: float32[n]"]}, "inputs: two inputs are named 'x'"),
        (Good, {"inputs": [3]}, "inputs must be ports, or texts as 'x: float32[batch, seq, 512]', got 3"),
        (Good, {"inputs": 3}, "inputs must be ports, or texts as 'x: float32[batch, seq, 512]', got 3"),
    ],
)
def test_an_error_from_python_speaks_python(source: Any, settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        posenc_export.export(source, to=tmp_path / "a", **settings)
    assert text in str(error.value)


def test_what_is_in_the_way_is_replaced_with_force_in_python_and_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").touch()
    with pytest.raises(PosencError) as error:
        posenc_export.export(to=tmp_path / "there")
    assert "give another with to=, or force=True to replace it" in str(error.value)
    assert "give another with -o, or --force to replace it" in cli("export", "-o", "there").output


def test_a_bundle_that_is_missing_is_said_alike(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a bundle"):
        posenc_export.validate(tmp_path)
    with pytest.raises(BadInput, match="is not a bundle"):
        posenc_export.bench(tmp_path)


def test_texts_are_ports() -> None:
    ports, notes = ports_of(["x: float32[batch, seq, 8]", "mask: int64[batch, seq]"])
    assert ports[0] == X
    assert notes == ("mask: carries a mask of 1 and 0, by its name",)
    assert ports_of("x: float32[batch, seq, 8]") == ((X,), ())
    assert ports_of(X) == ((X,), ())
    mixed, _ = ports_of([X, "n: int64[1] size of k", "k: float32[k % 4]"])
    assert [port.name for port in mixed] == ["x", "n", "k"]
    assert mixed[2].axes == (Axis("k", "length", multiple=4),)
    assert posenc_export.target(Good, inputs=["x: float32[batch, seq, 8]"]).encoding.inputs == (X,)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("runtime", "there is no argument 'runtime': did you mean 'runtimes'?"),
        ("format", "there is no argument 'format': did you mean 'formats'?"),
        ("maxlen", "there is no argument 'maxlen': did you mean 'max_len'?"),
        ("dynamic", "there is no argument 'dynamic': did you mean 'mode'?"),
        ("output_folder", "sinusoidal has no parameter 'output_folder': "),
        ("dmodel", "sinusoidal has no parameter 'dmodel': did you mean 'd_model'?"),
    ],
)
def test_a_misspelt_argument_names_the_nearest_of_all(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        posenc_export.export(to=tmp_path / "a", parameters=None, **{name: True})  # type: ignore[arg-type]
    assert text in str(error.value)


def test_a_bundle_to_time_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made").mkdir()
    with pytest.raises(BadInput, match=r"'made' is a folder: give a bundle as pathlib.Path\('made'\)"):
        posenc_export.bench("made")
