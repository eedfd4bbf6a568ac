"""Written twice in one process, and in another, a file is the same: what its capture says is what is in it."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from helpers.digests import IN_BOTH_MODES, digests, modes_of
from helpers.shared import with_tests
from posenc.scheme import SCHEMES, build
from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.write.formats import Digests, WriteRequest
from posenc_export.write.formats.torchscript import _digests, script
from posenc_export.write.targets.scheme import scheme_target

pytestmark = pytest.mark.exhaustive


def one_of_each_family() -> list[str]:
    """The first scheme of each family: what writes files asks for the family alone."""
    families: dict[str, str] = {}
    for name in SCHEMES:
        encoding = build(name, Spec(modes_of(name)[0], max_len=70), **SCHEMES[name].samples[0])
        families.setdefault(encoding.family, name)
    return sorted({*families.values(), *IN_BOTH_MODES})


@pytest.mark.parametrize("scheme", one_of_each_family())
def test_every_file_is_the_same_again(tmp_path: Path, scheme: str) -> None:
    first = digests(scheme, tmp_path / "first")
    assert first
    assert all(files.keys() >= {"onnx", "torchscript", "pt2"} for files in first.values())
    assert digests(scheme, tmp_path / "second") == first
    code = (
        "import json, sys, pathlib; from helpers.digests import digests; "
        f"print(json.dumps(digests({scheme!r}, pathlib.Path('third'))))"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, env=with_tests(), capture_output=True, check=True)
    assert json.loads(done.stdout) == first


def test_a_file_is_the_same_whatever_was_exported_before(tmp_path: Path) -> None:
    """Both have weights of an axis, and call other methods of them."""

    def scripted(scheme: str) -> Digests:
        target = scheme_target(scheme, Spec("dynamic", max_len=20), SCHEMES[scheme].samples[0], 0)
        return _digests(script(target.encoding, WriteRequest((), 20)))

    first, other, again = map(scripted, ("decomposed_relative", "swin_bias", "decomposed_relative"))
    assert first == again != other


def test_no_file_names_a_folder_of_this_machine(tmp_path: Path) -> None:
    """What TorchScript adds for debugging is the paths of sources: a file would differ by where it was made."""
    target = scheme_target("sinusoidal", Spec(max_len=70), {"d_model": 16}, 0)
    write_bundle(target, ExportOptions(("onnx", "torchscript", "pt2", "header"), validate=False), tmp_path)
    places = [str(Path(module.__file__ or "").parent).encode() for module in (sys.modules["posenc"], torch)]
    for file in (file for file in tmp_path.rglob("*") if file.is_file()):
        contents = [file.read_bytes()]
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                contents += [archive.read(name) for name in archive.namelist()]
        assert not any(place in content for place in places for content in contents), file.name
