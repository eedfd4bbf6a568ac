"""The script that inspects files of packages says of a file whether what is named is what it holds."""

import zipfile
from pathlib import Path

import posenc_export
from helpers.foreign_files import ROWS, embedding_file
from scripts.package_files import Held, is_right, unpacked


def test_only_the_onnx_files_of_a_wheel_are_unpacked_and_not_where_their_names_point(tmp_path: Path) -> None:
    wheel, place = tmp_path / "a-1-py3-none-any.whl", tmp_path / "inside" / "files"
    place.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("a/model.onnx", b"graph")
        packed.writestr("../../escaped.onnx", b"elsewhere")
        packed.writestr("a/__init__.py", b"raise SystemExit")
    assert [name for name, _ in unpacked(wheel, place)] == ["../../escaped.onnx", "a/model.onnx"]
    assert sorted(path.name for path in place.iterdir()) == ["0.onnx", "1.onnx"]
    assert not list(tmp_path.glob("*.onnx"))


def test_a_row_is_right_where_family_rows_and_end_are(tmp_path: Path) -> None:
    inspection = posenc_export.inspect(str(embedding_file(tmp_path / "model.onnx")))
    assert is_right(inspection, Held("learned", ROWS, ROWS))
    for held in (Held("sinusoidal", ROWS, ROWS), Held("learned", ROWS + 1, ROWS), Held("learned", ROWS, None), None):
        assert not is_right(inspection, held), held
