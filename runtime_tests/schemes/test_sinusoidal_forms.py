"""Forms of sinusoids: what is refused, what headers hold, and every format."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import posenc
from helpers.combinations import run
from helpers.shared import Cli
from helpers.sinusoids import FAIRSEQ
from posenc.encoding import NoTables
from posenc.ports import Array
from posenc.sincos.angle_addition import END
from posenc.spec import Spec
from posenc_export.write.formats import FORMATS


@pytest.mark.parametrize(
    ("spec", "params", "text"),
    [
        (Spec(), {"d_model": 1, "spacing": "half"}, "d_model must be at least 2 with spacing=half, got 1"),
        (Spec("dynamic", "trig"), {"d_model": "auto", "spacing": "half"}, "give a number with spacing=half"),
        (
            Spec(max_len=40),
            {"padding_row": 40},
            "padding_row must be at least 0 and below the end of the positions, 40",
        ),
        (Spec("dynamic"), {"padding_row": END}, f"below the end of the positions, {END}, got {END}"),
        (Spec("dynamic", "trig"), {"padding_row": -1}, "padding_row must be at least 0, got -1"),
        (Spec(), {"scale": 0.0}, r"scale must be a finite number other than 0, got 0\.0"),
        (Spec(), {"scale": math.inf}, "scale must be a finite number other than 0, got inf"),
        (Spec(), {"scale_x": math.nan}, "scale_x must be a finite number other than 0, or sqrt, got nan"),
        (Spec(), {"scale_x": "root"}, "scale_x must be float or sqrt, got 'root'"),
        (Spec(), {"scale_x": "sqrt", "output": "rows"}, "scale_x multiplies x, which output=rows does not have"),
        (Spec("dynamic", "trig"), {"scale_x": "sqrt", "d_model": "auto"}, "scale_x=sqrt needs the number that d_model"),
        (Spec(), {"key": "alpha"}, "key names a tensor in a file: give weights=FILE beside key=alpha"),
        (Spec(), {"weights": "a.npy", "scale": 2.0}, r"scale is read from a\.npy: leave scale=2\.0 out"),
        (Spec(), {"weights": "none.npy"}, r"weights: no such file: none\.npy"),
    ],
)
def test_what_is_refused(spec: Spec, params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised:
        posenc.build("sinusoidal", spec, **params)
    assert "\n" not in str(raised.value)


def test_what_is_no_scale_is_refused(tmp_path: Path) -> None:
    def refused(array: Array, text: str) -> None:
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(ValueError, match=text):
            posenc.build("sinusoidal", weights=str(tmp_path / "a.npy"))

    refused(np.ones((2, 3)), r"weights must be one number, a float, got torch\.float64 \(2, 3\)")
    refused(np.array(2), r"weights must be one number, a float, got torch\.int64 \(\)")
    refused(np.array(np.nan), "scale must be a finite number other than 0, got nan")
    save_file({"a": torch.ones(1), "b": torch.ones(())}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="holds 2 tensors and no key was given; key is one of a, b"):
        posenc.build("sinusoidal", weights=str(tmp_path / "a.safetensors"))


def test_a_header_has_no_column_of_zeros_unless_it_stores_one() -> None:
    params: dict[str, Any] = {"d_model": 9, "spacing": "half"}
    with pytest.raises(NoTables, match="an odd width has a column of zeros, which digits do not make: give --baked"):
        posenc.build("sinusoidal", Spec("dynamic"), **params).tables()
    assert posenc.build("sinusoidal", Spec(max_len=40), **params).tables().kind == "rows"


@pytest.mark.exhaustive
def test_from_the_command_line(cli: Cli) -> None:
    words = ["export", "--dynamic", "--positions", "mask", "--position-offset", "2", "-f", "onnx", "-f", "header"]
    settings_ = [part for name, value in FAIRSEQ.items() for part in ("-p", f"{name}={value}")]
    result = cli(*words, *settings_, "-p", "d_model=8", "-p", "scale_x=sqrt", "-o", "m2m", "-q")
    assert result.exit_code == 0, result.output


def test_a_spacing_that_there_is_not_is_one_line(cli: Cli) -> None:
    result = cli("export", "-p", "spacing=third", "-o", "bad")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "spacing must be paper or half, got 'third'" in result.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("params", [{"padding_row": 64, "scale": -3.0}, {"spacing": "half", "scale_x": 0.5}])
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize("d_model", [8, 9])
def test_in_every_format(tmp_path: Path, mode: Any, params: dict[str, Any], d_model: int) -> None:
    spec = Spec(mode, "exact", "explicit", 70)
    held = not (mode == "dynamic" and d_model == 9 and "spacing" in params)
    formats = [
        name for name in FORMATS if not name.startswith(("aoti", "cache") if held else ("aoti", "cache", "header"))
    ]
    result = run("sinusoidal", spec, {"d_model": d_model, **params}, tmp_path, formats=tuple(formats))
    assert result.passed, [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"]
