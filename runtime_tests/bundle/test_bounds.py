"""Nothing is read or made before it is known to fit: arrays of golden data by their headers, tables by their sizes."""

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.bundles import edit, put, replace_array, sign
from helpers.shared import Cli
from posenc import memory
from posenc_export.bundle.headers import GoldenArrays
from posenc_export.bundle.schema import read_manifest
from posenc_export.common.errors import BadInput


@pytest.mark.parametrize(
    ("ending", "damage", "text"),
    [
        ("/y", lambda y: y.swapaxes(1, 2), "/y is float32["),
        ("/y", lambda y: y.astype(np.float16), "/y is float16["),
        ("/y", lambda y: y.astype(object), "/y is object["),
        ("/y", lambda _: None, "There is no item named"),
        ("/x", lambda x: x[..., :4], "/x is float32["),
        ("/start", lambda start: start.astype(np.int32), "/start is int32[1], expected int64[1]"),
        ("/y.reference", lambda y: y.astype(np.float32), "/y.reference is float32["),
        ("/y.reference", lambda y: y[None], "/y.reference is float64["),
    ],
)
def test_arrays_that_are_not_those_of_the_manifest_are_one_line(
    cli: Cli, bundle: Path, ending: str, damage: Callable[[Any], Any], text: str
) -> None:
    replace_array(bundle, ending, damage)
    result = cli("validate", str(bundle), "--runtime", "onnx-reference")
    assert (result.exit_code, text in result.output, result.output.count("\n")) == (2, True, 1), result.output
    assert "golden.npz is damaged" in result.output


@pytest.mark.parametrize(("at", "text"), [([5, 3], "rising"), ([0, 10**9], "below"), ([-1], "rising"), ([], "rising")])
def test_rows_that_no_array_has_are_one_line(cli: Cli, bundle: Path, at: list[int], text: str) -> None:
    with np.load(bundle / "golden.npz") as golden:
        arrays = dict(golden)
    key = next(key for key in arrays if key.endswith("/x"))
    damaged: dict[str, Any] = {**arrays, f"{key}.rows": np.array(at, np.int64)}
    np.savez(bundle / "golden.npz", **damaged)
    sign(bundle, "golden.npz")
    result = cli("validate", str(bundle), "--runtime", "onnx-reference")
    assert (result.exit_code, text in result.output, result.output.count("\n")) == (2, True, 1), result.output


def test_a_small_file_that_unpacks_to_much_is_refused_by_its_header(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(bundle / "golden.npz") as golden:
        key = next(key for key in golden if key.endswith("/y"))
    with (
        zipfile.ZipFile(bundle / "golden.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{key}.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**25, 25)})
        file.write(bytes(2**20))
    sign(bundle, "golden.npz")
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was read"))
    edit(bundle, lambda m: m.update(inputs=[], cases=[{**m["cases"][0], "sizes": {}}]))
    result = cli("validate", str(bundle), "--runtime", "onnx-reference")
    assert result.exit_code == 2, result.output
    assert f"{key} is float32[33554432, 25], expected float32[?, ?, 8]" in result.output


def test_a_header_that_unpacks_to_much_is_not_read(cli: Cli, bundle: Path) -> None:
    size = 2**26
    with np.load(bundle / "golden.npz") as golden:
        key = next(key for key in golden if key.endswith("/y"))
    content = b"\x93NUMPY\x02\x00" + size.to_bytes(4, "little") + b" " * size
    with zipfile.ZipFile(bundle / "golden.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(f"{key}.npy", content)
    sign(bundle, "golden.npz")
    edit(bundle, lambda m: m.update(inputs=[], cases=[{**m["cases"][0], "sizes": {}}]))
    tracemalloc.start()
    try:
        result = cli("validate", str(bundle), "--runtime", "ort-cpu")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.exit_code == 2, result.output
    assert "the header of an array has 67,108,864 bytes, expected at most 10,000" in result.output
    assert most < size / 2


def test_an_array_whose_size_nothing_says_has_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    with zipfile.ZipFile(path, "w") as archive, archive.open("c/y.rows.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (2**28,)})
    with zipfile.ZipFile(path) as archive, pytest.raises(ValueError, match="268,435,456 numbers, expected at most"):
        GoldenArrays(archive).read("c/y.rows", (None,), "int64")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(notes=["a note"] * 10**6), "notes must hold at most 500, got 1,000,000"),
        (lambda m: m.update(cases=m["cases"][:1] * 60_000), "cases must hold at most 2,000, got 60,000"),
        (lambda m: m.update(reference="x" * 10**6), "reference must hold no text of more than 100,000 characters"),
        (lambda m: m.update(params={"a": [["x" * 10**6]]}), "params must hold no text of more than 100,000 characters"),
    ],
    ids=["notes", "cases", "a text", "a text inside"],
)
def test_more_than_a_bundle_may_say_is_one_line(
    small_bundle: Path, change: Callable[[dict[str, Any]], None], text: str
) -> None:
    manifest = json.loads((small_bundle / "manifest.json").read_text())
    change(manifest)
    with pytest.raises(BadInput) as caught:
        read_manifest(manifest)
    assert (text in caught.value.message, "\n" in caught.value.message) == (True, False)


def test_sizes_that_no_memory_holds_are_one_line(cli: Cli, bundle: Path) -> None:
    edit(bundle, put(2**50, "cases", 0, "sizes", "seq"))
    result = cli("validate", str(bundle), "--runtime", "onnx-reference")
    assert result.exit_code == 2
    assert "takes 33,554,432 GiB; " in result.output


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["learned", "--max-len", "2147483648", "-p", "d_model=8"], "a table of 2147483648 x 8 takes 64 GiB; "),
        (["--max-len", "2147483648", "-p", "d_model=8"], "a table of 2147483648 x 8 takes 64 GiB; "),
        (["-p", "d_model=1000000000"], "a table of 2048 x 1000000000 takes 7,629 GiB; "),
        (["--dynamic", "-p", "d_model=1000000000"], "a table of 2048 x 1000000000 takes "),
        (["--dynamic", "--method", "trig", "-p", "d_model=1000000000"], "a call of 64 x 1000000000 takes "),
        (["rope", "-p", "head_dim=1000000000"], "a table of 2048 x 1000000000 takes "),
        (["rope_2d", "-p", "head_dim=1000000000"], "a table of 2048 x 1000000000 takes "),
        (["xpos", "-p", "head_dim=1000000000"], "a table of 2048 x 1000000000 takes "),
    ],
)
def test_a_table_that_no_memory_holds_is_refused_at_once(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, args: list[str], text: str
) -> None:
    monkeypatch.setattr("posenc.memory.free_memory", lambda: 20 * 2**30)
    monkeypatch.setattr(np, "arange", lambda *_, **__: pytest.fail("something was made first"))
    result = cli("export", *args)
    assert result.exit_code == 2, result.output
    assert text in result.output
    assert "; 20 GiB are free" in result.output


def test_free_memory_is_asked_for_where_there_is_no_list_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < memory.free_memory() < 2**50
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    assert 2**20 < memory.free_memory() < 2**50
