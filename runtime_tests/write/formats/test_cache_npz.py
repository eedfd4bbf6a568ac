"""Caches in files of NumPy: the same bytes each time, what other readers see, and files from elsewhere."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from helpers.combinations import run
from helpers.shared import Cli
from helpers.stored import put_right
from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import ExportFailed
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.running.run import validate_bundle
from posenc_export.write.formats import FORMATS, npz_file

NPZ = FORMATS["cache-npz"]
FILE = NPZ.file
ARRAYS: dict[str, Array] = {
    "cos_cache": np.arange(12, dtype=np.float32).reshape(4, 3),
    "sin_cache": -np.arange(12, dtype=np.float32).reshape(4, 3),
}
SAID = {"posenc.id": "abc", "posenc.scheme": "rope"}
COS_SIN: dict[str, Value] = {"head_dim": 16, "output": "cos_sin"}


def written(folder: Path) -> Path:
    """Return a small file that says what it is."""
    npz_file.write(folder / FILE, ARRAYS)
    npz_file.stamp(folder / FILE, SAID)
    return folder / FILE


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of a cache."""
    spec = Spec("baked", "exact", "explicit", 70)
    folder = tmp_path_factory.mktemp("npz")
    return run("rope", spec, COS_SIN, folder, formats=("cache-npz",), validate=False).folder


def test_the_bytes_are_the_same_on_another_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(tmp_path).read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2e9))
    previous = os.umask(0o077)
    try:
        assert written(tmp_path).read_bytes() == first
    finally:
        os.umask(previous)


def test_other_readers_find_two_arrays_that_are_not_compressed(tmp_path: Path) -> None:
    path = written(tmp_path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        kinds = [(member.filename, member.compress_type, member.date_time[0]) for member in archive.infolist()]
        archive.extractall(tmp_path / "out")
    assert kinds == [("cos_cache.npy", zipfile.ZIP_STORED, 1980), ("sin_cache.npy", zipfile.ZIP_STORED, 1980)]
    for name, array in ARRAYS.items():
        assert np.array_equal(np.load(tmp_path / "out" / f"{name}.npy", allow_pickle=False), array)
        assert np.array_equal(npz_file.read(path)[name], array)
    assert {key: npz_file.stamped(path, key) for key in SAID} == SAID


def test_a_member_of_two_gigabytes_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # from this size on, a zip says sizes elsewhere
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    path = written(tmp_path)
    monkeypatch.undo()
    assert [*npz_file.read(path)] == [*ARRAYS]
    assert npz_file.stamped(path, "posenc.id") == "abc"


def test_what_a_zip_cannot_say_of_itself_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(ExportFailed, match="the comment of a zip has at most 65,535: give -f cache"):
        npz_file.stamp(path, {"posenc.params.long_factor": "1" * 70_000})
    assert npz_file.stamped(path, "posenc.id") == "abc"


def test_numpy_has_no_bfloat16(cli: Cli) -> None:
    words = ["rope", "--baked", "--dtype", "bf16", "-p", "output=cos_sin", "-f", "cache-npz"]
    result = cli("export", *words)
    assert result.exit_code == 2
    assert "NumPy has no bfloat16" in (said := " ".join(result.output.split()))
    assert "give -f cache, or another --dtype" in said


def header(shape: str, dtype: str = "<f4", order: str = "False") -> bytes:
    """Return the beginning of a .npy file that claims a shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


Write = Callable[[zipfile.ZipFile], None]


def cos(content: bytes) -> Write:
    """Return what writes one member with this content."""
    return lambda archive: archive.writestr("cos_cache.npy", content)


def pickled(archive: zipfile.ZipFile) -> None:
    """Write an array of objects, which NumPy reads by pickle."""
    with archive.open("cos_cache.npy", "w") as file:
        np.save(file, np.array([[{}]], dtype=object), allow_pickle=True)


def twice(archive: zipfile.ZipFile) -> None:
    """Write a member of one name twice."""
    write = cos(header("(1, 1)") + bytes(4))
    write(archive)
    with pytest.warns(UserWarning, match="Duplicate name"):
        write(archive)


def bomb(archive: zipfile.ZipFile) -> None:
    """Write a member that unpacks to a thousand times its size."""
    content = header("(250000, 4)") + bytes(4_000_000)
    archive.writestr("cos_cache.npy", content, zipfile.ZIP_DEFLATED)


def followed(archive: zipfile.ZipFile) -> None:
    """Write a small array, and bytes that belong to no member."""
    cos(header("(1, 1)") + bytes(4))(archive)
    assert archive.fp is not None
    archive.fp.seek(archive.start_dir)
    archive.fp.write(bytes(200_000))
    archive.start_dir = archive.fp.tell()


MEMBERS: dict[str, tuple[Write, str]] = {
    "pickled objects": (pickled, r"cos_cache is \|O \[1, 1\], expected a matrix of float16, float32, float64"),
    "a name twice": (twice, "holds 'cos_cache.npy', expected a .npy file of each array"),
    "another member": (lambda archive: archive.writestr("run.sh", "x"), "holds 'run.sh', expected a .npy file"),
    "a bomb": (bomb, "holds more than arrays without compression"),
    "bytes between members": (followed, "holds more than arrays without compression"),
    "no magic": (cos(b"nothing"), "is damaged"),
    "no header": (cos(b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16), "is not one that NumPy writes of numbers"),
    "a long header": (cos(b"\x93NUMPY\x02\x00\xff\xff\xff\x7f"), "expected at most 10,000"),
    "a long number": (cos(header(f"({'1' * 5000}, 1)")), "is not one that NumPy writes of numbers"),
    "numbers that are not there": (cos(header("(1000000, 1000000)")), "its header says 4,000,000,000,000"),
    "numbers left over": (cos(header("(1, 1)") + bytes(8)), "has 8 bytes of numbers, its header says 4"),
    "a row alone": (cos(header("(4,)") + bytes(16)), r"is <f4 \[4\], expected a matrix"),
    "no rows": (cos(header("(0, 4)")), r"is <f4 \[0, 4\], expected a matrix"),
    "the other end first": (cos(header("(1, 1)", ">f4") + bytes(4)), "is >f4"),
    "column by column": (cos(header("(2, 2)", order="True") + bytes(16)), "row by row"),
    "another dtype": (cos(header("(1, 1)", "<i8") + bytes(8)), "is <i8"),
}


@pytest.mark.parametrize(("write", "words"), MEMBERS.values(), ids=MEMBERS)
def test_other_members_are_refused_in_one_line(tmp_path: Path, write: Write, words: str) -> None:
    path = tmp_path / FILE
    with zipfile.ZipFile(path, "w") as archive:
        write(archive)
    with pytest.raises(ValueError, match=words) as refusal:
        npz_file.read(path)
    assert str(refusal.value).startswith(f"{FILE} is damaged: ")
    assert "\n" not in str(refusal.value)
    assert NPZ.stamped(path, "posenc.id") == ""


def test_damage_is_seen_wherever_it_is(tmp_path: Path) -> None:
    content = written(tmp_path).read_bytes()
    path = tmp_path / "damaged.npz"
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        arrays: dict[str, Array] = {}
        with suppress(ValueError):
            arrays = npz_file.read(path)
        # times, systems and the comment are passed over by readers
        assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items() if name in arrays)
    for end in (0, 1, 30, len(content) // 2):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"damaged\.npz is damaged: "):
            npz_file.read(path)
        assert NPZ.stamped(path, "posenc.id") == ""


def replaced(path: Path, arrays: dict[str, Array]) -> None:
    """Write other arrays into a bundle's file, which says of itself what it said before."""
    with zipfile.ZipFile(path) as archive:
        comment = archive.comment
    npz_file.write(path, arrays)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment


OTHERS: dict[str, tuple[Callable[[dict[str, Array]], dict[str, Array]], str]] = {
    "one array": (lambda a: {"cos_cache": a["cos_cache"]}, f"{FILE} holds cos_cache, expected cos_cache and sin_cache"),
    "three": (lambda a: {**a, "more": a["cos_cache"]}, "holds cos_cache, sin_cache, more, expected"),
    "fewer rows": (lambda a: {n: x[:-1] for n, x in a.items()}, "float32[69, 8]"),
    "another dtype": (lambda a: {n: x.astype(np.float64) for n, x in a.items()}, "float64[70, 8]"),
}


@pytest.mark.parametrize(("change", "words"), OTHERS.values(), ids=OTHERS)
def test_other_arrays_in_a_bundle_are_refused_in_one_line(
    bundle: Path, tmp_path: Path, change: Callable[[dict[str, Array]], dict[str, Array]], words: str
) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "copy"))
    replaced(folder / FILE, change(npz_file.read(folder / FILE)))
    put_right(folder, FILE)
    rows = {row.check: row for row in validate_bundle(Bundle.open(folder), ValidateOptions()) if row.status == "fail"}
    # the runtime and the comparison of all rows see it, each by itself
    assert {"tables", "agrees"} <= set(rows), rows
    for check in ("tables", "agrees"):
        assert words in rows[check].detail
        assert "\n" not in rows[check].detail
