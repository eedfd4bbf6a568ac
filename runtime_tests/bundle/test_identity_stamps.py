"""Ids in files: stamps of archives, texts of values, and files of another export."""

import json
import shutil
import zipfile
from pathlib import Path

import onnx
import pytest

from helpers.bundles import edit, put, sign
from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.identity import ID, canonical
from posenc_export.proof.running.integrity import integrity_of_all
from posenc_export.write.cpp.names import literal
from posenc_export.write.formats import FORMATS
from posenc_export.write.formats.archives import MAX_BYTES, stamp_archive, stamped_archive
from posenc_export.write.formats.torchscript import archive_digests

OTHER = "0" * 64


def test_texts_of_values() -> None:
    values: tuple[object, ...] = ("halves", 1e4, 0.5, None, True, (1.0, 2.5), [])
    assert list(map(canonical, values)) == ["halves", "10000", "0.5", "null", "true", "[1, 2.5]", "[]"]
    assert literal('a "b" \\ é?\n') == r'"a \042b\042 \134 \303\251\077\012"'


# ---- archives --------------------------------------------------------------------------------------------------------


def archive(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("model/data.pkl", "data")
    return path


def test_stamps_of_an_archive_are_the_same_bytes_and_none_of_its_digests(tmp_path: Path) -> None:
    one, two = archive(tmp_path / "one.pt"), tmp_path / "two.pt"
    shutil.copy(one, two)
    before = archive_digests(one)
    for path in (one, two):
        stamp_archive(path, {ID: OTHER, "posenc.mode": "baked"})
    assert one.read_bytes() == two.read_bytes()
    assert archive_digests(one) == before
    assert stamped_archive(one, ID) == OTHER
    assert stamped_archive(one, "posenc.none") == ""


def test_a_file_that_is_no_archive_and_a_record_that_is_too_long_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    for content in (b"", b"PK\x03\x04", b"\x80\x02}q\x00."):
        path.write_bytes(content)
        assert stamped_archive(path, ID) == ""
    stamp_archive(archive(path), {ID: "0" * (MAX_BYTES + 1)})
    assert stamped_archive(path, ID) == ""
    path.write_bytes(b"no graph")
    assert FORMATS["onnx"].stamped(path, ID) == ""


# ---- validation ------------------------------------------------------------------------------------------------------


def say(bundle: Path, name: str, text: str) -> None:
    """Have a file of a bundle say another id, or none."""
    if name == "model.onnx":
        model = onnx.load(bundle / name)
        del model.metadata_props[:]
        model.metadata_props.add(key=ID, value=text)
        onnx.save(model, bundle / name)
    else:
        with zipfile.ZipFile(bundle / name) as old:
            records = {record: old.read(record) for record in old.namelist()}
        with zipfile.ZipFile(bundle / name, "w") as new:
            for record, content in records.items():
                new.writestr(record, text if record.endswith(ID) else content)
    sign(bundle, name)


def wrong(bundle: Path) -> dict[str, str]:
    """Return what is wrong with the files of a bundle."""
    return {row.subject: row.detail for row in integrity_of_all(Bundle.open(bundle)) if row.status == "fail"}


@pytest.mark.parametrize(("name", "format_"), [("model.onnx", "onnx"), ("model.pt", "torchscript")])
def test_a_file_of_another_export_is_seen_without_running_it(
    bundle: Path, called: list[str], name: str, format_: str
) -> None:
    assert wrong(bundle) == {}
    say(bundle, name, OTHER)
    own_id = json.loads((bundle / "manifest.json").read_text())["id"]
    words = f"{name} is another graph: its posenc.id is '{OTHER}', the manifest says '{own_id}'"
    assert wrong(bundle) == {format_: words}
    say(bundle, name, "")
    assert wrong(bundle) == {}, "what says nothing says nothing wrong"
    assert called == []


def test_bundles_of_before_have_no_id_and_a_wrong_one_is_a_row(cli: Cli, tmp_path: Path) -> None:
    bundle = tmp_path / "of before"
    # those stored 64 rows, and did not say so
    assert cli("export", "--dynamic", "-p", "d_model=8", "--table-rows", "64", "-q", "-o", str(bundle)).exit_code == 0
    edit(bundle, lambda manifest: [manifest.pop(name) for name in ("id", "facts")])
    assert cli("validate", str(bundle), "--runtime", "ort-cpu").exit_code == 0
    edit(bundle, put(OTHER, "id"))
    assert set(wrong(bundle)) == {"onnx", "torchscript"}
    edit(bundle, put({"scheme": "rope"}, "facts"))
    assert set(wrong(bundle).values()) == {"the id in the manifest is not the digest of its facts"}
    edit(bundle, put("0" * 63, "id"))
    result = cli("validate", str(bundle))
    assert "id must be a SHA-256 of 64 hexadecimal digits, or empty, got" in result.output
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
