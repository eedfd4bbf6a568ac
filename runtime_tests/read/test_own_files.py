"""Files of this project's own schemes are read: each is named, or said to be not recognised, with its place."""

import pytest

from helpers.misread import inspected
from helpers.shared import Once, sample_bundle
from posenc.scheme import SCHEMES
from posenc.spec import Mode

FORMS = [(scheme.name, mode) for scheme in SCHEMES.values() for mode in ("dynamic", "baked")]
QUICK = [("t5_bias", "dynamic"), ("fourier_features", "dynamic"), ("swin_bias", "baked")]
"""An encoding that is returned, one of coordinates, and one that is stored whole."""


@pytest.mark.parametrize(
    ("name", "mode"),
    [pytest.param(*form, marks=[] if form in QUICK else [pytest.mark.exhaustive]) for form in FORMS],
)
def test_no_file_of_ours_is_passed_over_in_silence(once: Once, name: str, mode: Mode) -> None:
    if mode in SCHEMES[name].unsupported.modes:
        pytest.skip(f"{name} has no {mode} form")
    made = inspected(sample_bundle(once, f"{name} {mode}") / "model.onnx")
    assert made.encodings or made.not_judged
    assert made.passed
    named = [entry for entry in made.encodings if entry.family != "not recognised"]
    assert [entry.name for entry in named if entry.errors is None and not entry.is_trained] == []
