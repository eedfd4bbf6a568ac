"""A manifest is input from a stranger: it is validated once, completely, a line a problem with its place."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from helpers.bundles import MANIFEST, Change, edit, put
from helpers.shared import ROOT, Cli
from posenc import ports
from posenc.encoding import Tolerance
from posenc.ports import Axis, Port
from posenc_export.bundle import forms, kinds, manifest, schema
from posenc_export.bundle.carries import port_kinds
from posenc_export.bundle.case import PROBED, Case
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.schema import read_manifest
from posenc_export.common.arrays import DTYPES
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.verdict import Basis, Verdict
from posenc_export.proof.report.report import report_markdown
from posenc_export.write.formats import ROTARY_OPS

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
    (put("up", "cases", 3, "padding"), "cases[3].padding must be 'left', 'right', 'none' or 'holes', got 'up'"),
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
    (put("2*seq", "inputs", 0, "axes", 1, "name"), "name must be a name, or a sum of names and numbers, in an input"),
    (put("-1+5", "inputs", 0, "axes", 1, "name"), "in outputs one of products as 5+height*width, or empty, got '-1+5'"),
    (put("seq*2", "outputs", 0, "axes", 1, "name"), "in outputs one of products as 5+height*width, or empty, got"),
    (put("time", "inputs", 0, "axes", 1, "kind"), "inputs[0].axes[1].kind must be 'batch', 'heads'"),
    (put(0, "inputs", 0, "axes", 1, "multiple"), "inputs[0].axes[1].multiple must be a whole number of at least 1"),
    (put("magic", "inputs", 0, "carries", "what"), "inputs[0].carries must be 'blocks', 'boxes'"),
    (put("x", "inputs", 0, "carries", "low"), "inputs[0].carries.low must be a finite number, or null, got 'x'"),
    (put({"what": "values", "low": 5, "high": 2}, "inputs", 0, "carries"), "must be a range that float32 holds"),
    (put({"what": "size", "of": "no"}, "inputs", 1, "carries"), "must name a dynamic axis of an input, got 'no'"),
    (put("no", "inputs", 1, "carries", "among"), "carries.among must name a dynamic axis of an input, got 'no'"),
    (put("seq+1", "inputs", 1, "carries", "among"), "carries.among must be a name of letters, digits and _"),
    (put("abc", "artifacts", 0, "sha256"), "artifacts[0].sha256 must be a SHA-256 of 64 hexadecimal digits"),
    (put(-1, "artifacts", 0, "bytes"), f"artifacts[0].bytes {COUNT}, got -1"),
    (put("a\x1b[2J", "artifacts", 0, "file"), "artifacts[0].file must be a file's name without control characters"),
    (put("xyz", "rotary_op"), "rotary_op must be 'decomposed', 'onnx', 'microsoft' or 'microsoft-mrope', got 'xyz'"),
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
    monkeypatch.setattr("posenc_export.bundle.folder.MAX_BYTES", 100)
    result = cli("validate", str(bundle))
    assert (result.exit_code, "a manifest has at most 100" in result.output) == (2, True)


def test_the_published_schema_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "reference" / "manifest.schema.json").read_text(encoding="utf-8")
    assert text == schema.json_schema(), (
        "run: python -m posenc_export.bundle.schema > docs/reference/manifest.schema.json"
    )
    assert "manifest.schema.json" in (ROOT / "docs" / "explanation" / "trust.md").read_text(encoding="utf-8")


def test_records_of_posenc_have_their_fields_in_the_schema() -> None:
    pairs: list[tuple[type, Any]] = [
        (forms.CaseJson, Case),
        (forms.PortJson, Port),
        (forms.AxisJson, Axis),
        (forms.ToleranceJson, Tolerance),
    ]
    for typed, made in pairs:
        fields = {field.name for field in dataclasses.fields(made)}
        assert get_type_hints(typed).keys() - {"what"} == fields - set(PROBED), typed
    for kind in port_kinds().values():
        assert kind.fields.keys() == {field.name for field in dataclasses.fields(kind.carries)}, kind.carries
    assert {kind.carries.__name__ for kind in port_kinds().values()} == set(str(ports.Carries).split(" | "))


def test_the_choices_of_the_schema_are_those_of_the_code() -> None:
    assert get_args(kinds.DType) == DTYPES
    assert get_args(get_type_hints(Manifest, vars(manifest), {"forms": forms, "kinds": kinds})["rotary_op"]) == tuple(
        ROTARY_OPS
    )


STEERING = "\x1b[2J\x1b[1Aall 9 checks passed\x07\u202e\x9b"


def steer(m: dict[str, Any]) -> None:
    """Put what steers a terminal wherever a manifest may hold any text."""
    m.update(notes=[f"{STEERING}\nall 9 checks passed"], not_tried=[STEERING], reference=STEERING, scheme=STEERING)
    m.update(params={STEERING: STEERING}, origin={"config": STEERING, STEERING: STEERING}, versions={STEERING: "1"})
    m["opset_reason"] = STEERING


def test_what_steers_a_terminal_is_never_printed_raw(cli: Cli, bundle: Path) -> None:
    edit(bundle, steer)
    result = cli("validate", str(bundle), "--runtime", "ort-cpu", "-v")
    assert result.exit_code == 0, result.output
    assert r"\x1b[2J" in result.output
    assert not set(STEERING) & set(result.output) - set("[2J1Aall 9 checks passed")
    assert "all 9 checks passed" not in result.output.splitlines()
    manifest = read_manifest(json.loads((bundle / MANIFEST).read_text()))
    text = report_markdown(manifest, [Verdict("onnx", "structure", "fail", STEERING)], Basis("0" * 64))
    assert r"\x1b[2J" in text
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    edit(bundle, put(STEERING, "mode"))
    result = cli("validate", str(bundle))
    assert (result.exit_code, "\x1b" in result.output) == (2, False)


@pytest.mark.parametrize("has_lines", [False, True])
def test_errors_do_not_steer_a_terminal(has_lines: bool) -> None:
    error = BadInput(f"names {STEERING}\n  ^")
    error.has_lines = has_lines
    end = "\n" if has_lines else "\\n"
    assert error.format_message() == f"names \\x1b[2J\\x1b[1Aall 9 checks passed\\x07\\u202e\\x9b{end}  ^"


def test_a_key_with_a_line_end_forges_no_line(cli: Cli, bundle: Path) -> None:
    edit(bundle, put({"seq\nonnx  pass  9 checks passed": -1}, "trace"))
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert not [line for line in result.output.splitlines() if line.startswith("onnx")]
    assert "trace.seq\\nonnx" in result.output


def test_a_loose_tolerance_is_named(cli: Cli, bundle: Path) -> None:
    run = ("validate", str(bundle), "--runtime", "ort-cpu")
    assert "tolerance" not in cli(*run).output
    assert json.loads(cli(*run, "--json").output)["tolerance"] == "derived"
    edit(bundle, put(1e9, "cases", 0, "tolerance", "atol"))
    assert "loosest tolerance: atol 1e+09, ulps 0.5 (manifest): an output off by " in cli(*run).output
    edit(
        bundle,
        put({"atol": 0.0, "rtol": 0.5, "ulps": 0, "vector": 0, "bits": False}, "artifacts", 0, "eager_tolerance"),
    )
    edit(bundle, put(0.0, "cases", 0, "tolerance", "atol"))
    assert (
        "loosest tolerance: rtol 0.5 (manifest): an output off by 50% of its largest value passes" in cli(*run).output
    )
    given = "tolerance: atol 0.001 (given, in place of the derived ones)"
    assert given in cli(*run, "--atol", "1e-3").output
    assert json.loads(cli(*run, "--atol", "1e-3", "--json").output)["tolerance"] == given


def test_the_report_names_the_manifest_that_it_is_of(cli: Cli, bundle: Path) -> None:
    digest = hashlib.sha256((bundle / MANIFEST).read_bytes()).hexdigest()
    assert f"* manifest.json: sha256 {digest}" in (bundle / "report.md").read_text()
    assert json.loads((bundle / "report.json").read_text())["manifest_sha256"] == digest
    run = ("validate", str(bundle), "--runtime", "ort-cpu")
    assert digest not in cli(*run).output
    assert f"manifest.json: sha256 {digest}" in cli(*run, "-v").output
    assert json.loads(cli(*run, "--json").output)["manifest_sha256"] == digest
