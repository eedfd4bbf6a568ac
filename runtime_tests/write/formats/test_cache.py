"""Caches of cosines and sines for kernels: their numbers and bytes, what is refused, and what a check sees."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

import posenc
from helpers.combinations import run
from helpers.shared import Cli
from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.bundle.folder import MANIFEST, Bundle
from posenc_export.common.arrays import to_numpy
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.verdict import ValidateOptions, Verdict
from posenc_export.proof.running.run import validate_bundle
from posenc_export.write.formats import FORMATS, cache, npz_file, safetensors_file

ROWS = 70
FILE = FORMATS["cache"].file
KINDS = pytest.mark.parametrize("kind", ["cache", "cache-npz"])
"""The formats whose files are caches."""
WRITERS = {"cache": safetensors_file.write, "cache-npz": npz_file.write}
COS_SIN: dict[str, Value] = {"head_dim": 16, "output": "cos_sin"}
TYPES: list[dict[str, Value]] = [
    {"rotary_dim": 8},
    {"layout": "interleaved", "rope_theta": 500000.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 32},
]


def made(folder: Path, spec: Spec, params: dict[str, Value] | None = None, kind: str = "cache") -> Any:
    """Export a cache of a small rope, and validate it."""
    return run("rope", spec, {**COS_SIN, **(params or {})}, folder, formats=(kind,))


def read(path: Path) -> Mapping[str, Array]:
    """Return the arrays of a cache as its users read them."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    # copies: what safetensors reads lies in the file, which a test may write again
    return {name: to_numpy(tensor.clone()) for name, tensor in load_file(path).items()}


def failures(folder: Path) -> list[Verdict]:
    """Return the rows that fail when a bundle from elsewhere is validated."""
    return [row for row in validate_bundle(Bundle.open(folder), ValidateOptions()) if row.status == "fail"]


DTYPES = [("cache", dtype) for dtype in ("fp32", "fp16", "bf16", "fp64")]
DTYPES += [("cache-npz", dtype) for dtype in ("fp32", "fp16", "fp64")]


@pytest.mark.parametrize(("kind", "dtype"), DTYPES)
@pytest.mark.parametrize("positions", ["explicit", "implicit", "offset", "mask"])
def test_a_cache_has_the_bits_of_eager_in_every_dtype(tmp_path: Path, kind: str, dtype: Any, positions: Any) -> None:
    spec = Spec("baked", "exact", positions, ROWS, dtype)
    result = made(tmp_path, spec, kind=kind)
    assert result.passed, result.verdicts
    # whatever a call gives positions by, the cache is the same
    whole = posenc.build("rope", Spec("baked", "exact", "implicit", ROWS, dtype), **COS_SIN).module()
    arrays = read(result.folder / FORMATS[kind].file)
    assert list(arrays) == ["cos_cache", "sin_cache"]
    for array, expected in zip(arrays.values(), map(to_numpy, whole), strict=True):
        assert (array.dtype, array.tobytes()) == (expected.dtype, expected.tobytes())
    words = [row.detail for row in result.verdicts if row.check == "tables"]
    assert words == [f"all {ROWS} rows of both, bit for bit and against float64"]


@pytest.mark.parametrize("params", TYPES)
def test_a_cache_is_that_of_its_rope_type(tmp_path: Path, params: dict[str, Value]) -> None:
    result = made(tmp_path, Spec("baked", "exact", "explicit", ROWS), params)
    assert result.passed, result.verdicts
    assert any(row.check == "refusal" and row.status == "pass" for row in result.verdicts)
    assert not failures(result.folder)


@KINDS
def test_a_cache_is_listed_with_its_bytes_and_says_what_it_is(tmp_path: Path, kind: str) -> None:
    result = made(tmp_path, Spec("baked", "exact", "explicit", ROWS), kind=kind)
    path = result.folder / FORMATS[kind].file
    (artifact,) = result.manifest.artifacts
    listed = {"format": kind, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert listed.items() <= vars(artifact).items()
    assert FORMATS[kind].stamped(path, "posenc.id") == result.manifest.id
    assert FORMATS[kind].stamped(path, "posenc.params.head_dim") == "16"


@KINDS
def test_a_number_that_no_case_reads_is_held(tmp_path: Path, kind: str) -> None:
    result = made(tmp_path, Spec("baked", "exact", "explicit", 5000), kind=kind)
    path = result.folder / FORMATS[kind].file
    arrays = read(path)
    cos = arrays["cos_cache"].copy()
    # one number, by its last bit
    cos[4321, 7] = np.nextafter(cos[4321, 7], np.float32(2), dtype=np.float32)
    WRITERS[kind](path, {**arrays, "cos_cache": cos})
    assert "integrity" in [row.check for row in failures(result.folder)]
    # a manifest that says the digest of the changed file, as an attacker would write it
    listed = json.loads((result.folder / MANIFEST).read_text("utf-8"))
    listed["artifacts"][0] |= {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    (result.folder / MANIFEST).write_text(json.dumps(listed), "utf-8")
    (wrong,) = [row for row in failures(result.folder) if row.check == "tables"]
    assert wrong.detail == "row 4321 of cos_cache is not the encoding's"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["rope", "--baked"], "with a cache a kernel rotates queries and keys: give -p output=cos_sin"),
        (["rope", "-p", "output=cos_sin", "--dynamic"], "a cache has a row for each position up to --max-len"),
        (["rope", "-p", "output=cos_sin", "--baked", "-p", "width=full"], "kernels take a column a pair"),
        (["mrope", "-p", "output=cos_sin", "--baked"], "a token has 3; MRotaryEmbedding takes the cache of rope"),
        (["xpos", "--baked"], "queries and keys must be rotated alike"),
        (["sinusoidal", "--baked"], "a cache holds cosines and sines of a rotation; the family additive has none"),
    ],
)
@KINDS
def test_what_is_no_cache_is_refused_in_words(cli: Cli, words: list[str], why: str, kind: str) -> None:
    result = cli("export", *words, "-f", kind)
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())


@pytest.mark.parametrize(("rotary_dim", "pairs"), [(16, 0), (12, 6), (2, 1)])
def test_a_width_that_attention_does_not_take_is_a_note(tmp_path: Path, rotary_dim: int, pairs: int) -> None:
    result = made(tmp_path, Spec("baked", "exact", "explicit", ROWS), {"rotary_dim": rotary_dim})
    assert result.passed, result.verdicts
    line = f"a row has {pairs} pairs: GroupQueryAttention takes multiples of 8 alone"
    assert list(result.manifest.notes) == ([line] if pairs else [])


def test_a_cache_of_more_rows_than_a_file_stores_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 8 pairs of four bytes: as many rows as are asked for
    monkeypatch.setattr(cache, "MOST_BYTES", ROWS * 8 * 4)
    assert made(tmp_path / "fits", Spec("baked", "exact", "explicit", ROWS)).passed
    why = r"a cache of 71 rows is over 2 GiB, which no ONNX file stores: give --max-len 70"
    with pytest.raises(BadInput, match=why):
        made(tmp_path / "over", Spec("baked", "exact", "explicit", ROWS + 1))


def test_a_cache_of_more_rows_than_memory_has_is_refused(cli: Cli) -> None:
    result = cli("export", "rope", "-p", "output=cos_sin", "--baked", "--max-len", "9000000000000", "-f", "cache")
    assert result.exit_code == 2
    assert "a table of 9000000000000 x 128 takes" in " ".join(result.output.split())


def framed(header: str, numbers: int = 0) -> bytes:
    """Return a file with a header, and so many bytes behind it."""
    return len(header).to_bytes(8, "little") + header.encode() + bytes(numbers)


HEADER = '{"cos_cache":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}'
OTHER_FILES = {
    "nothing": (b"", "a header of 0 bytes"),
    "a header of all memory": ((2**62).to_bytes(8, "little"), "expected at most 1,048,576"),
    "a header without an end": ((64).to_bytes(8, "little") + b"{}", "no header of safetensors"),
    "no JSON": (framed("{]"), "Expecting"),
    "no object": (framed("[]"), "no header of safetensors"),
    "a name twice": (framed('{"a":1,"a":2}'), "twice in one object"),
    "numbers that are not there": (framed(HEADER), "ends behind the file"),
    "numbers left over": (framed(HEADER, 8), "its header says"),
    "a negative size": (framed(HEADER.replace("[1,1]", "[-1,-1]"), 4), "expected a matrix"),
    "another dtype": (framed(HEADER.replace("F32", "I64"), 4), "expected a matrix"),
    "a gap": (framed(HEADER.replace("[0,4]", "[4,8]"), 8), "lies elsewhere"),
}


@pytest.mark.parametrize(("content", "words"), OTHER_FILES.values(), ids=OTHER_FILES)
def test_other_files_are_refused_before_numbers_are_read_for_them(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / FILE
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        safetensors_file.read(path)
    assert FORMATS["cache"].stamped(path, "posenc.id") == ""
