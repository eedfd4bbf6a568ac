"""A manifest is input from a stranger: it is validated once, completely, a line a problem with its place."""

import dataclasses
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from conftest import ROOT, Cli
from posenc import memory
from posenc.encoding import Tolerance
from posenc.ports import Axis, Port
from posenc_export.arrays import DTYPES
from posenc_export.bundle import schema
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import CARRIES, Artifact, Manifest
from posenc_export.formats import ROTARY_OPS

Change = Callable[[dict[str, Any]], object]
MANIFEST = "manifest.json"


def edit(bundle: Path, change: Change) -> None:
    manifest = json.loads((bundle / MANIFEST).read_text())
    change(manifest)
    (bundle / MANIFEST).write_text(json.dumps(manifest))


def put(value: object, *keys: str | int) -> Change:
    """Return what puts a value at a place."""

    def change(manifest: Any) -> None:
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


COUNT, OFF = "must be a whole number of at least 0", "must be a finite number of at least 0"
DAMAGED: list[tuple[Change, str]] = [
    (put(0, "schema_version"), "manifest.json: schema_version must be a whole number of at least 1, got 0"),
    (put(-1, "schema_version"), "schema_version must be a whole number of at least 1, got -1"),
    (put(True, "schema_version"), "schema_version must be a whole number of at least 1, got True"),
    (put("2", "schema_version"), "schema_version must be a whole number of at least 1, got '2'"),
    (put(float("inf"), "cases", 0, "tolerance", "atol"), f"cases[0].tolerance.atol {OFF}, got inf"),
    (put(float("nan"), "cases", 0, "tolerance", "rtol"), f"cases[0].tolerance.rtol {OFF}, got nan"),
    (put([1], "cases", 1, "tolerance", "atol"), f"cases[1].tolerance.atol {OFF}, got [1]"),
    (put(-1e-9, "cases", 1, "eager_tolerance", "ulps"), f"cases[1].eager_tolerance.ulps {OFF}, got -1e-09"),
    (put(True, "cases", 1, "tolerance", "vector"), f"cases[1].tolerance.vector {OFF}, got True"),
    (put(1, "cases", 1, "tolerance", "bits"), "cases[1].tolerance.bits must be true or false, got 1"),
    (put(-5, "cases", 3, "sizes", "seq"), f"manifest.json: cases[3].sizes.seq {COUNT}, got -5"),
    (put(1.5, "cases", 3, "sizes", "seq"), f"cases[3].sizes.seq {COUNT}, got 1.5"),
    (put("a", "cases", 3, "sizes", "seq"), f"cases[3].sizes.seq {COUNT}, got 'a'"),
    (put(2**63, "cases", 3, "sizes", "seq"), f"cases[3].sizes.seq {COUNT}, got 9223372036854775808"),
    (put(2, "cases", 3, "sizes", "heads"), "cases[3].sizes must be those of batch, seq, got batch, heads, seq"),
    (lambda m: m["cases"][3]["sizes"].pop("seq"), "cases[3].sizes must be those of batch, seq, got batch"),
    (put([], "cases", 3, "sizes"), "cases[3].sizes must be an object, got []"),
    (put("yes", "cases", 3, "refused"), "cases[3].refused must be true or false, got 'yes'"),
    (put("up", "cases", 3, "padding"), "cases[3].padding must be 'left', 'right' or 'none', got 'up'"),
    (put("a/b", "cases", 3, "name"), "cases[3].name must be a name of letters, digits and _.+-, got 'a/b'"),
    (lambda m: m["cases"].append(m["cases"][0]), "name must be unlike the names before it, got 'batch1-seq1"),
    (put({}, "cases"), "cases must be a list, got {}"),
    (put("x", "max_len"), "max_len must be a whole number of at least 1, got 'x'"),
    (put(0, "max_len"), "max_len must be a whole number of at least 1, got 0"),
    (put("float8", "dtype"), "dtype must be 'float32'"),
    (put("quick", "method"), "method must be exact, trig or null, got 'quick'"),
    (put({"a": float("inf")}, "params"), "params must be an object without NaN and infinity"),
    (put(7, "notes"), "notes must be a list, got 7"),
    (put([7], "notes"), "notes[0] must be a text, got 7"),
    (lambda m: m.pop("inputs"), "manifest.json: inputs is missing"),
    (put(1, "surprise"), "surprise is not a field of it"),
    (put([], "outputs"), "outputs must hold at least one"),
    (put("x y", "inputs", 0, "name"), "inputs[0].name must be a name of letters, digits and _"),
    (put("float8", "inputs", 0, "dtype"), "inputs[0].dtype must be 'float32'"),
    (put("", "outputs", 0, "axes", 0, "name"), "must have a name or a size, got neither"),
    (put("time", "inputs", 0, "axes", 1, "kind"), "inputs[0].axes[1].kind must be 'batch', 'heads'"),
    (put(0, "inputs", 0, "axes", 1, "multiple"), "inputs[0].axes[1].multiple must be a whole number of at least 1"),
    (put("magic", "inputs", 0, "carries", "what"), "inputs[0].carries must be 'values'"),
    (put("x", "inputs", 0, "carries", "low"), "inputs[0].carries.low must be a finite number, or null, got 'x'"),
    (put({"what": "size", "of": "no"}, "inputs", 1, "carries"), "must name a dynamic axis of an input, got 'no'"),
    (put("abc", "artifacts", 0, "sha256"), "artifacts[0].sha256 must be a SHA-256 of 64 hexadecimal digits"),
    (put(-1, "artifacts", 0, "bytes"), f"artifacts[0].bytes {COUNT}, got -1"),
    (put("a\x1b[2J", "artifacts", 0, "file"), "artifacts[0].file must be a file's name without control characters"),
    (put("xyz", "rotary_op"), "rotary_op must be 'decomposed', 'onnx' or 'microsoft', got 'xyz'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "text"), DAMAGED, ids=[text[-60:] for _, text in DAMAGED])
def test_a_damaged_manifest_is_one_line_with_its_place(cli: Cli, bundle: Path, change: Change, text: str) -> None:
    edit(bundle, change)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert text in result.output
    (line,) = result.output.splitlines()
    assert line.startswith("Error: manifest.json: ")


def test_every_problem_has_a_line_up_to_ten(cli: Cli, bundle: Path) -> None:
    edit(bundle, lambda m: [put("x", "max_len")(m), put(-1, "opset")(m), put(3, "notes")(m)])
    assert cli("validate", str(bundle)).output.count("manifest.json: ") == 3
    edit(bundle, put([7] * 30, "notes"))
    lines = cli("validate", str(bundle)).output.splitlines()
    assert (len(lines), lines[-1]) == (11, "and 22 more")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"schema_version": 2, "mode": "baked", "mode": "dynamic"}', "it says 'mode' twice in one object"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a": ' + "1" * 5000 + "}", "is not JSON"),
        ("\ud800", "is not JSON"),
    ],
    ids=["twice", "deep", "long number", "no UTF-8"],
)
def test_what_is_no_json_is_one_line(cli: Cli, bundle: Path, text: str, reason: str) -> None:
    (bundle / MANIFEST).write_bytes(text.encode("utf-8", "surrogatepass"))
    result = cli("validate", str(bundle))
    assert (result.exit_code, reason in result.output, result.output.count("\n")) == (2, True, 1), result.output


def test_a_manifest_that_is_too_large_is_not_read(cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MOST_BYTES", 100)
    result = cli("validate", str(bundle))
    assert (result.exit_code, "a manifest has at most 100" in result.output) == (2, True)


def test_the_published_schema_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "manifest.schema.json").read_text(encoding="utf-8")
    assert text == schema.json_schema(), "run: python -m posenc_export.bundle.schema > docs/manifest.schema.json"
    assert "manifest.schema.json" in (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")


def test_the_schema_has_the_fields_of_the_dataclasses() -> None:
    pairs: list[tuple[type, Any]] = [
        (schema.ManifestJson, Manifest),
        (schema.CaseJson, Case),
        (schema.ArtifactJson, Artifact),
        (schema.PortJson, Port),
        (schema.AxisJson, Axis),
        (schema.ToleranceJson, Tolerance),
    ]
    carried = (schema.ValuesJson, schema.PositionsJson, schema.MaskJson, schema.SizeJson)
    kinds = [(one, CARRIES[what]) for one in carried for what in get_args(get_type_hints(one)["what"])]
    assert {kind for _, kind in kinds} == set(CARRIES.values())
    for typed, made in pairs + kinds:
        fields = {field.name for field in dataclasses.fields(made)}
        assert get_type_hints(typed).keys() - {"what", "__pydantic_config__"} == fields - {"probe_positions"}, typed


def test_the_choices_of_the_schema_are_those_of_the_code() -> None:
    assert get_args(schema.DType) == DTYPES
    assert get_args(get_type_hints(schema.ManifestJson)["rotary_op"]) == tuple(ROTARY_OPS)


def replace_array(bundle: Path, ending: str, damage: Callable[[Any], Any]) -> None:
    """Put something else into golden.npz in the place of every array whose key ends so; None leaves it out."""
    with np.load(bundle / "golden.npz") as golden:
        arrays = {key: damage(array) if key.endswith(ending) else array for key, array in golden.items()}
    np.savez(bundle / "golden.npz", **{key: array for key, array in arrays.items() if array is not None})


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
    np.savez(bundle / "golden.npz", **arrays, **{f"{key}.rows": np.array(at, np.int64)})
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
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was read"))
    edit(bundle, lambda m: m.update(inputs=[], cases=[{**m["cases"][0], "sizes": {}}]))
    result = cli("validate", str(bundle), "--runtime", "onnx-reference")
    assert result.exit_code == 2, result.output
    assert f"{key} is float32[33554432, 25], expected float32[?, ?, 8]" in result.output


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
        (["--dynamic", "-p", "d_model=1000000000"], "a table of 512 x 1000000000 takes "),
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
