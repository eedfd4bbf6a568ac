"""Files of this project's own schemes are read: each is named, or said to be not recognised, with its place."""

from pathlib import Path

import pytest

from helpers.misread import inspected
from helpers.shared import Cli
from posenc.parameters import Value
from posenc.scheme import SCHEMES

FORMS = [(scheme.name, mode) for scheme in SCHEMES.values() for mode in ("dynamic", "baked")]
QUICK = [("t5_bias", "dynamic"), ("fourier_features", "dynamic"), ("swin_bias", "baked")]
"""An encoding that is returned, one of coordinates, and one that is stored whole."""


def in_words(value: Value) -> str:
    """Return a parameter as a command has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


@pytest.mark.parametrize(
    ("name", "mode"),
    [pytest.param(*form, marks=[] if form in QUICK else [pytest.mark.exhaustive]) for form in FORMS],
)
def test_no_file_of_ours_is_passed_over_in_silence(cli: Cli, tmp_path: Path, name: str, mode: str) -> None:
    if mode in SCHEMES[name].unsupported.modes:
        pytest.skip(f"{name} has no {mode} form")
    given = [word for key, value in SCHEMES[name].samples[0].items() for word in ("-p", f"{key}={in_words(value)}")]
    words = [f"--{mode}", *given, "-f", "onnx", "--max-len", "70", "--no-validate", "-o", str(tmp_path / "bundle")]
    result = cli("export", name, *words)
    assert result.exit_code == 0, result.output
    made = inspected(tmp_path / "bundle" / "model.onnx")
    assert made.encodings or made.not_judged
    assert made.passed
