"""Bundles: whole or absent, checked when read, valid wherever they lie."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from helpers.bundles import sign
from helpers.shared import Cli


def edit(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    change(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def test_what_a_bundle_holds(small_bundle: Path) -> None:
    graphs, beside = {"model.onnx", "model.pt"}, {"golden.npz", "required_operators.config"}
    names = {*graphs, *beside, "manifest.json", "report.json", "report.md"}
    assert {p.name for p in small_bundle.iterdir()} == names
    manifest = json.loads((small_bundle / "manifest.json").read_text())
    assert manifest["schema_version"] == 2
    assert {"scheme", "params", "mode", "method", "positions", "max_len", "dtype", "opset", "ir_version"} <= set(
        manifest
    )
    x = manifest["inputs"][0]
    anything = {"what": "values", "low": None, "high": None, "strict": False, "probabilities": False}
    assert (x["name"], x["dtype"], x["carries"]) == ("x", "float32", anything)
    axes = [(axis["name"], axis["kind"], axis["size"]) for axis in x["axes"]]
    assert axes == [("batch", "batch", None), ("seq", "length", None), ("", "features", 8)]
    assert {a["format"] for a in manifest["artifacts"]} == {"onnx", "torchscript"}
    with np.load(small_bundle / "golden.npz") as golden:
        case = manifest["cases"][0]["name"]
        assert {f"{case}/x", f"{case}/start", f"{case}/y", f"{case}/y.reference"} <= set(golden)
        assert golden[f"{case}/y.reference"].dtype == np.float64
    props = {p.key: p.value for p in onnx.load(small_bundle / "model.onnx").metadata_props}
    assert props["posenc.scheme"] == "sinusoidal"
    assert props["posenc.mode"] == "dynamic"
    assert props["posenc.params.d_model"] == "8"
    assert props["posenc.id"] == manifest["id"]
    assert 0 < float(props["posenc.worst_error"]) < 1e-6


def test_a_moved_bundle_validates_and_stays_as_it_is(cli: Cli, bundle: Path) -> None:
    before = {p.name: p.read_bytes() for p in bundle.iterdir()}
    result = cli("validate", str(bundle))
    assert result.exit_code == 0, result.output
    assert {p.name: p.read_bytes() for p in bundle.iterdir()} == before


def test_json_is_all_that_is_printed(cli: Cli, bundle: Path) -> None:
    result = cli("validate", str(bundle), "--json", "--runtime", "ort-cpu")
    report = json.loads(result.stdout)
    assert report["passed"]
    assert {v["subject"] for v in report["verdicts"] if v["comparisons"]} == {"ort-cpu"}


def point_outside(m: dict[str, Any]) -> None:
    m["artifacts"][0]["file"] = "../model.onnx"


def point_to_root(m: dict[str, Any]) -> None:
    m["artifacts"][0]["file"] = "/etc/passwd"


def newer(m: dict[str, Any]) -> None:
    m["schema_version"] = 99


def older(m: dict[str, Any]) -> None:
    m["schema_version"] = 1


def lose_ports(m: dict[str, Any]) -> None:
    del m["inputs"]


def no_version(m: dict[str, Any]) -> None:
    del m["schema_version"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (point_outside, "names '../model.onnx', which is not a file of the bundle itself"),
        (point_to_root, "names '/etc/passwd', which is not a file of the bundle itself"),
        (newer, "the bundle has schema version 99, this posenc-export reads 2: upgrade it"),
        (older, "the bundle has schema version 1, this posenc-export reads 2: export the bundle again"),
        (lose_ports, "manifest.json: inputs is missing"),
        (no_version, "manifest.json has no schema_version"),
    ],
)
def test_a_bad_manifest_is_one_line(cli: Cli, bundle: Path, change: Any, text: str) -> None:
    edit(bundle, change)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2
    assert text in result.output


def test_what_is_no_bundle(cli: Cli, tmp_path: Path) -> None:
    result = cli("validate", str(tmp_path / "nowhere"))
    assert (result.exit_code, "is not a bundle" in result.output) == (2, True)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_text("{")
    result = cli("validate", str(tmp_path / "bad"))
    assert (result.exit_code, "is not JSON" in result.output) == (2, True)


def test_a_changed_artifact_fails_its_integrity(cli: Cli, bundle: Path) -> None:
    data = bytearray((bundle / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / "model.onnx").write_bytes(data)
    result = cli("validate", str(bundle))
    assert result.exit_code == 1
    assert "model.onnx is not the file that was exported" in result.output


def test_a_truncated_artifact_fails_even_with_a_matching_manifest(cli: Cli, bundle: Path) -> None:
    import hashlib

    path = bundle / "model.onnx"
    path.write_bytes(path.read_bytes()[:-5000])

    def match(m: dict[str, Any]) -> None:
        m["artifacts"][0].update(bytes=path.stat().st_size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())

    result = cli("validate", str(bundle))
    assert (result.exit_code, "bytes, the manifest says" in result.output) == (1, True)
    edit(bundle, match)
    result = cli("validate", str(bundle))
    assert (result.exit_code, "cannot load model.onnx: it is not an ONNX file" in result.output) == (2, True)
    result = cli("validate", str(bundle), "--trust")
    assert result.exit_code == 1
    assert "cannot load model.onnx" in result.output
    assert "Traceback" not in result.output


def test_a_damaged_golden_file_is_one_line(cli: Cli, bundle: Path) -> None:
    (bundle / "golden.npz").write_bytes(b"PK not a zip")
    sign(bundle, "golden.npz")
    result = cli("validate", str(bundle))
    assert result.exit_code == 2
    assert "golden.npz is damaged" in result.output


def damaged_output(bundle: Path, damage: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> None:
    with np.load(bundle / "golden.npz") as golden:
        arrays = dict(golden)
    arrays = {k: damage(v) if k.endswith("/y") else v for k, v in arrays.items()}
    np.savez(bundle / "golden.npz", **arrays)
    sign(bundle, "golden.npz")


@pytest.mark.parametrize(
    "damage",
    [
        np.zeros_like,
        lambda y: y * np.float32(1000),
        lambda y: y * np.float32(0.5),
        lambda y: y[:, ::-1] + np.float32(1e-6),
        lambda y: np.roll(y, 4, axis=-1),
        lambda y: np.where(np.arange(y.size).reshape(y.shape) == 3, np.float32(np.nan), y),
    ],
)
def test_a_graph_that_gives_something_else_fails(cli: Cli, bundle: Path, damage: Any) -> None:
    damaged_output(bundle, damage)
    result = cli("validate", str(bundle), "--runtime", "ort-cpu")
    assert result.exit_code == 1
    assert "y against eager" in result.output


def test_atol_and_rtol_replace_the_derived_tolerance(cli: Cli, bundle: Path) -> None:
    damaged_output(bundle, lambda y: y + np.float32(1e-4))
    assert cli("validate", str(bundle), "--runtime", "ort-cpu").exit_code == 1
    assert cli("validate", str(bundle), "--runtime", "ort-cpu", "--atol", "1e-3").exit_code == 0
    assert cli("validate", str(bundle), "--runtime", "ort-cpu", "--rtol", "1e-9").exit_code == 1
