"""report.json and --json hold what docs/reference/report.schema.json says, whatever comes out."""

import json
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from helpers.shared import ROOT, Cli
from posenc_export.proof.judging.verdict import Bin, Comparison, Curve, Verdict
from posenc_export.proof.report import schema
from posenc_export.proof.report.report import SCHEMA_VERSION, verdict_json

SMALL = ["-p", "d_model=8", "--max-len", "40", "-f", "onnx", "--json"]


def report(text: str) -> dict[str, Any]:
    """A report that keeps to the schema: no number of it is NaN or infinite, in the words of JSON."""
    data: dict[str, Any] = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    schema.adapter().validate_python(data)
    assert data["schema_version"] == SCHEMA_VERSION
    return data


def statuses(data: dict[str, Any]) -> set[str]:
    return {verdict["status"] for verdict in data["verdicts"]}


def test_the_published_schema_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "reference" / "report.schema.json").read_text(encoding="utf-8")
    assert text == schema.json_schema(), (
        "run: python -m posenc_export.proof.report.schema > docs/reference/report.schema.json"
    )


def test_it_has_the_fields_of_the_dataclasses_and_the_code_of_each_check() -> None:
    records = json.loads(schema.json_schema())["$defs"]
    for record, more in ((Comparison, set()), (Bin, set()), (Curve, set()), (Verdict, {"code"})):
        described = records[record.__name__]
        assert set(described["properties"]) == {field.name for field in fields(record)} | more
        assert set(described["properties"]) - set(described["required"]) <= {"curves", "part"}


def test_what_passes_and_what_does_not_run(cli: Cli, bundle: Path) -> None:
    """Of a bundle that is not trusted TorchScript does not run, whatever is installed."""
    printed = report(cli("validate", str(bundle), "--json").stdout)
    assert (printed["passed"], statuses(printed)) == (True, {"pass", "skip"})


def test_the_report_of_a_bundle_is_what_is_printed_but_for_its_place(cli: Cli) -> None:
    printed = report(cli("export", *SMALL, "--runtime", "ort-cpu").stdout)
    assert printed.pop("bundle") == "sinusoidal-baked"
    written = report(Path("sinusoidal-baked/report.json").read_text(encoding="utf-8"))
    digests = {name: written.pop(name) for name in ("markdown_sha256", "sha256")}
    assert written == printed
    assert digests["markdown_sha256"] == sha256(Path("sinusoidal-baked/report.md").read_bytes()).hexdigest()


def test_what_fails(cli: Cli) -> None:
    result = cli("export", *SMALL, "--atol", "0", "--runtime", "ort-cpu")
    assert result.exit_code == 1
    data = report(result.stdout)
    assert (data["passed"], "fail" in statuses(data)) == (False, True)
    assert report(Path("sinusoidal-baked-failed/report.json").read_text(encoding="utf-8"))["passed"] is False


def test_what_was_not_validated(cli: Cli) -> None:
    data = report(cli("export", *SMALL, "--no-validate").stdout)
    assert (data["passed"], data["verdicts"], data["headline"]) == (False, [], "not validated")


def test_a_damaged_file_and_a_graph_that_cannot_be_loaded(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posenc_export.proof.runtimes import RunFailed

    def fail(*_: object) -> None:
        raise RunFailed("cannot load model.onnx: no such operator")

    (bundle / "model.pt").write_bytes(b"other bytes")
    monkeypatch.setattr("posenc_export.proof.runtimes.Runtime.open", fail)
    result = cli("validate", str(bundle), "--json")
    assert result.exit_code == 1
    found = {(v["code"], v["subject"]): v["detail"] for v in report(result.stdout)["verdicts"] if v["status"] == "fail"}
    assert "model.pt has 11 bytes" in found["PE101", "torchscript"]
    assert found["PE104", "ort-cpu"] == "cannot load model.onnx: no such operator"


def test_an_error_that_is_no_number_is_null() -> None:
    comparison = Comparison("a", "y", "eager", float("nan"), float("inf"), None, False, "NaN", float("inf"))
    data = verdict_json(Verdict("ort-cpu", "agrees", "fail", "NaN", (comparison,)))
    (written,) = json.loads(json.dumps(data, allow_nan=False))["comparisons"]
    assert (written["max_abs"], written["max_ulp"], written["peak"]) == (None, None, None)
    curves = (Curve("y", "reference", (Bin(3, float("nan"), float("inf")),)),)
    data = verdict_json(Verdict("ort-cpu", "agrees", "fail", "NaN", curves=curves))
    ((written,),) = (curve["bins"] for curve in json.loads(json.dumps(data, allow_nan=False))["curves"])
    assert written == {"position": 3, "error": None, "allowed": None}


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d.pop("headline"),
        lambda d: d.update(more=1),
        lambda d: d["verdicts"][0].update(status="ok"),
        lambda d: d["verdicts"][0].update(code="104"),
        lambda d: d.update(schema_version="1"),
        lambda d: d["verdicts"][0].pop("code"),
    ],
)
def test_what_is_no_report_does_not_pass(cli: Cli, bundle: Path, edit: Any) -> None:
    data = report((bundle / "report.json").read_text(encoding="utf-8"))
    edit(data)
    with pytest.raises(ValidationError):
        schema.adapter().validate_python(data)
