"""Bundles that version 0.1 wrote, with manifests of schema version 2, validate."""

import shutil
from pathlib import Path

import posenc_export
from helpers.shared import ROOT

BUNDLE = ROOT / "runtime_tests" / "data" / "bundle_of_0_1"
"""`posenc-export swin_bias -p window=2,3 -p heads=3 -f onnx -f torchscript`, by the last commit of 0.1."""


def test_a_bundle_of_0_1_validates(tmp_path: Path) -> None:
    folder = shutil.copytree(BUNDLE, tmp_path / "bundle")
    found = posenc_export.validate(folder, trust=True, runtimes=("ort-cpu", "torchscript-cpu"))
    assert found.manifest.versions["posenc-export"] == "0.1.0"
    assert found.passed, str(found)
    # The code of a script names the files of modules, which have moved since.
    (tables,) = (one for one in found.verdicts if (one.subject, one.check) == ("torchscript", "tables"))
    assert "written by" in str(tables)
