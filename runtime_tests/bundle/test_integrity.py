"""Every file that a manifest lists is looked at, and what a manifest may list: golden data, paths in the bundle."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.bundles import MANIFEST, Change, edit, put, sign
from helpers.shared import Cli
from posenc_export.bundle.folder import Bundle, file_of, sha256
from posenc_export.bundle.seal import read_sealed, sealed_text
from posenc_export.common.errors import BadInput
from posenc_export.proof.running.integrity import check_known, integrity_of_all

RUN = ("--runtime", "ort-cpu")


def move_references(bundle: Path) -> None:
    """Move every reference a little, as whoever would have a wrong graph pass."""
    with np.load(bundle / "golden.npz") as golden:
        arrays = {key: array + 0.25 if key.endswith("/y") else array for key, array in golden.items()}
    np.savez(bundle / "golden.npz", **arrays)


def test_references_that_were_moved_are_no_fault_of_a_runtime(cli: Cli, bundle: Path) -> None:
    move_references(bundle)
    done = cli("validate", str(bundle), *RUN)
    assert done.exit_code == 1
    assert "PE101 golden.npz integrity: golden.npz" in done.output
    assert "PE104" not in done.output
    assert "not run: ort-cpu: nothing to compare with: golden.npz" in done.output
    done = cli("bench", str(bundle), "--length", "8", "--rounds", "1", *RUN)
    assert (done.exit_code, "is damaged: golden.npz" in done.output, done.output.count("\n")) == (2, True, 1)


def test_golden_data_have_a_row_that_passes(cli: Cli, bundle: Path) -> None:
    rows = json.loads(cli("validate", str(bundle), *RUN, "--json").stdout)["verdicts"]
    assert [row["status"] for row in rows if (row["subject"], row["check"]) == ("golden.npz", "integrity")] == ["pass"]


def list_file(bundle: Path, name: str) -> None:
    """Have the manifest list a file that is there."""
    entry = vars(file_of(bundle, bundle / name))
    edit(bundle, lambda m: m["files"].append(entry))


def test_every_other_file_is_looked_at_too(bundle: Path) -> None:
    (bundle / "cpp").mkdir()
    (bundle / "cpp" / "example.cpp").write_text("int main() {}\n")
    list_file(bundle, "cpp/example.cpp")
    assert {v.subject: v.status for v in integrity_of_all(Bundle.open(bundle))}["other files"] == "pass"
    (bundle / "cpp" / "example.cpp").write_text("int main() {} \n")
    changed = next(v for v in integrity_of_all(Bundle.open(bundle)) if v.status == "fail")
    assert (changed.subject, changed.detail) == ("other files", "cpp/example.cpp has 15 bytes, the manifest says 14")


def test_a_folder_that_is_a_link_leads_nowhere(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.cpp").write_text("secret")
    (bundle / "cpp").symlink_to(tmp_path / "outside")
    list_file(bundle, "cpp/a.cpp")
    changed = next(v for v in integrity_of_all(Bundle.open(bundle)) if v.status == "fail")
    assert changed.detail == "cpp/a.cpp, which the manifest lists, is no file of the bundle"


def test_a_path_that_cannot_be_opened_is_a_row(bundle: Path) -> None:
    edit(bundle, put("a" * 300, "files", 1, "file"))
    changed = next(v for v in integrity_of_all(Bundle.open(bundle)) if v.status == "fail")
    assert (changed.subject, changed.detail) == ("other files", f"{'a' * 300} cannot be read: File name too long")


PATHS = [
    "../../../etc/passwd",
    "/etc/passwd",
    "a/../b",
    "./a",
    "a//b",
    "a/",
    "..",
    "C:\\a",
    "a\\b",
    "a\nb",
    "\x1b[2J",
    "",
]


@pytest.mark.parametrize("name", PATHS)
def test_a_path_that_leaves_the_bundle_is_one_line(cli: Cli, bundle: Path, name: str) -> None:
    edit(bundle, put(name, "files", 0, "file"))
    done = cli("validate", str(bundle))
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "files[0].file must be the path of a file in the bundle, with slashes, got" in done.output


def no_golden(m: dict[str, Any]) -> None:
    m["files"] = [file for file in m["files"] if file["file"] != "golden.npz"]


def other_format(m: dict[str, Any]) -> None:
    m["artifacts"] = [{**m["artifacts"][0], "format": "tflite"}]


def weights_alone(m: dict[str, Any]) -> None:
    m["artifacts"] = [{**m["artifacts"][0], "format": "onnx.data"}]


ONE_LINE: list[tuple[Change, str]] = [
    (put([], "files"), "manifest.json: files must list golden.npz, which outputs are compared with"),
    (no_golden, "manifest.json: files must list golden.npz"),
    (lambda m: m["files"].extend(m["files"][:1] * 10_001), "manifest.json: files must hold at most 10,000"),
    (put({"head_dim": "a"}, "origin"), "manifest.json: origin must be empty, or an object of texts with 'config'"),
    (put({"config": 7}, "origin"), "manifest.json: origin must be empty, or an object of texts with 'config'"),
    (other_format, "the bundle holds no graph of a known format, only tflite: expected one or more of "),
    (weights_alone, "the bundle holds no graph of a known format, only onnx.data"),
]


@pytest.mark.parametrize(("change", "text"), ONE_LINE, ids=[text[:60] for _, text in ONE_LINE])
def test_what_a_manifest_lacks_is_one_line(cli: Cli, bundle: Path, change: Change, text: str) -> None:
    edit(bundle, change)
    done = cli("validate", str(bundle))
    assert (done.exit_code, text in done.output, done.output.count("\n")) == (2, True, 1), done.output


def test_an_unknown_format_beside_a_known_one_is_not_run(cli: Cli, bundle: Path) -> None:
    edit(bundle, put("tflite", "artifacts", 1, "format"))
    done = cli("validate", str(bundle), *RUN)
    assert done.exit_code == 0
    assert "not run: tflite: this posenc-export does not know the format" in done.output
    with pytest.raises(BadInput, match=r"only a, b, c, \.\.\.: expected"):
        check_known(["a", "b", "c", "d"])


def test_a_manifest_without_any_of_its_fields_is_refused_in_lines(cli: Cli, bundle: Path) -> None:
    whole = json.loads((bundle / MANIFEST).read_text())
    for name in whole:
        (bundle / MANIFEST).write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        done = cli("validate", str(bundle), "--runtime", "onnx-reference", "-q")
        # without facts it is one of before, which stored fewer rows: the file disagrees
        assert done.exit_code in ((1,) if name == "facts" else (0, 2)), (name, done.output)


# ---- seals -----------------------------------------------------------------------------------------------------------


def test_a_report_knows_its_manifest_and_itself(bundle: Path) -> None:
    data = read_sealed(bundle / "report.json")
    assert data["manifest_sha256"] == sha256(bundle / MANIFEST)
    assert data["markdown_sha256"] == sha256(bundle / "report.md")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"passed": true', '"passed": false'),
        lambda text: text + " \n",
        lambda text: text.replace('"a"', '"b"'),
        lambda text: "{}",
        lambda text: "",
        lambda text: text[:-90],
    ],
)
def test_a_seal_breaks_with_any_change(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "report.json"
    path.write_text(sealed_text({"passed": True, "é": ["a"], "x": 1e-7}), encoding="utf-8")
    assert dict(read_sealed(path)) | {"sha256": ""} == {"passed": True, "é": ["a"], "x": 1e-7, "sha256": ""}
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert read_sealed(path) == {}


def test_a_signed_change_of_golden_data_is_the_runtimes_to_see(cli: Cli, bundle: Path) -> None:
    move_references(bundle)
    sign(bundle, "golden.npz")
    done = cli("validate", str(bundle), *RUN)
    assert (done.exit_code, "PE104 ort-cpu agrees" in done.output) == (1, True)
