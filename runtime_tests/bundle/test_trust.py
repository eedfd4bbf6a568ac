"""A bundle is input from a stranger: without --trust none of its code is run, and no file outside is touched."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import posenc_export
from helpers import hostile
from helpers.hostile import rows
from helpers.shared import Cli, Once, need
from posenc_export.bundle.folder import Bundle
from posenc_export.cli import main
from posenc_export.common.errors import BadInput, Unavailable
from posenc_export.proof.checks import Context
from posenc_export.proof.running.run import run_checks
from posenc_export.proof.runtimes import RUNTIMES, Missing
from posenc_export.write.formats import FORMATS

REASON = "runs code from the bundle; give --trust"
IN_PYTHON = "runs code from the bundle; give trust=True"
RUN_CODE = {"torchscript", "pt2", "aoti", "header", "header-c99"}
Hostile = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def every(once: Once) -> Path:
    """A bundle with a file of each format that is quickly written."""
    formats = [word for name in ("onnx", "torchscript", "pt2", "header", "header-c99") for word in ("-f", name)]
    small = ["--dynamic", "--positions", "offset", "-p", "d_model=8", "--max-len", "40", "--runtime", "ort-cpu", "-q"]

    def make(folder: Path) -> None:
        result = CliRunner().invoke(main, ["export", *small, *formats, "-o", str(folder / "b")], catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return once("every-format", make) / "b"


@pytest.fixture
def bundle(every: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(every, tmp_path / "given"))


def test_every_format_says_whether_it_runs_code() -> None:
    assert {f.name for f in FORMATS.values() if f.runs_code} == RUN_CODE
    inert = {
        "ort-cpu",
        "ort-cuda",
        "cuda-placement",
        "ort-cpp",
        "ort-cpp-cuda",
        "onnx-reference",
        "openvino",
        "onnxruntime-web",
        "tract",
        "mnn",
        "numpy-cache",
        "numpy-cache-npz",
        "browser-wasm",
        "browser-webgpu",
        "browser-jsep",
    }
    assert {r.name for r in RUNTIMES.values() if not r.runs_code} == inert


@pytest.mark.parametrize("make", [hostile.in_header, hostile.in_torchscript, hostile.in_pt2, hostile.in_aoti])
def test_no_code_of_a_stranger_is_run(cli: Cli, bundle: Path, called: list[str], make: Hostile, tmp_path: Path) -> None:
    make(bundle, tmp_path / "outside")
    format_ = make.__name__.removeprefix("in_")
    found = rows(cli, bundle)
    of_format = {
        v["subject"]: v for v in found if v["subject"] in {r.name for r in RUNTIMES.values() if r.format == format_}
    }
    assert of_format
    assert {(v["check"], v["status"], v["detail"]) for v in of_format.values()} == {("agrees", "skip", REASON)}
    assert {v["status"] for v in found if v["subject"] in ("onnx", "ort-cpu")} == {"pass"}
    assert called == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("make", [hostile.in_header, hostile.in_torchscript, hostile.in_pt2])
def test_these_bundles_do_run_code_where_they_are_trusted(
    cli: Cli, bundle: Path, make: Hostile, tmp_path: Path
) -> None:
    if make is hostile.in_header:
        need("header-cpp")
    make(bundle, tmp_path / "outside")
    format_ = make.__name__.removeprefix("in_")
    runtime = next(r.name for r in RUNTIMES.values() if r.format == format_ and r.device == "cpu")
    rows(cli, bundle, "--trust", "--runtime", runtime)
    assert (tmp_path / "outside").exists()


def test_checks_that_load_such_a_file_are_not_run(cli: Cli, bundle: Path, called: list[str]) -> None:
    (row,) = (v for v in rows(cli, bundle) if (v["subject"], v["check"]) == ("torchscript", "lost-input"))
    assert (row["status"], row["detail"]) == ("skip", REASON)
    assert called == []


@pytest.mark.parametrize("name", [r.name for r in RUNTIMES.values() if r.format in RUN_CODE])
def test_no_runtime_or_check_loads_it_from_python_either(bundle: Path, called: list[str], name: str) -> None:
    opened, runtime = Bundle.open(bundle), RUNTIMES[name]
    path = bundle / FORMATS[runtime.format].file
    with pytest.raises(Missing, match=REASON):
        runtime.open(path, opened.manifest)
    artifact = opened.manifest.artifact(runtime.format)
    if artifact is not None:
        context = Context(opened.manifest, artifact, path)
        verdicts = run_checks(runtime.format, "artifact", context)
        assert all((v.status, v.detail) == ("skip", REASON) for v in verdicts)
    assert called == []


def test_to_name_such_a_runtime_is_wrong_usage_and_to_require_it_is_status_3(
    cli: Cli, bundle: Path, called: list[str]
) -> None:
    for command in ("validate", "bench"):
        result = cli(command, str(bundle), "--runtime", "torchscript-cpu")
        assert (result.exit_code, result.output) == (2, f"Error: --runtime torchscript-cpu {REASON}\n")
    for more in ([], ["--runtime", "ort-cpu"]):
        result = cli("validate", str(bundle), "--require", "pt2-cpu", *more)
        assert (result.exit_code, result.output) == (3, f"Error: pt2-cpu is required and {REASON}\n")
    with pytest.raises(BadInput, match=IN_PYTHON):
        posenc_export.validate(bundle, runtimes=["header-cpp"])
    with pytest.raises(Unavailable, match=IN_PYTHON):
        posenc_export.validate(bundle, require=["header-cpp"])
    with pytest.raises(BadInput, match=IN_PYTHON):
        posenc_export.bench(bundle, lengths=[8], rounds=1, runtimes=["pt2-cpu"])
    assert called == []


@pytest.mark.exhaustive
def test_bench_of_a_strangers_bundle_says_what_it_does_not_time(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    hostile.in_torchscript(bundle, tmp_path / "outside")
    result = cli("bench", str(bundle), "--length", "8", "--rounds", "1")
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.output.splitlines() if line.startswith("not run: "))
    assert "torchscript-cpu" in line
    assert REASON in line
    assert not (tmp_path / "outside").exists()
    trusted = posenc_export.bench(bundle, trust=True, lengths=[8], rounds=1, runtimes=["header-cpp"])
    assert "header-cpp" in trusted.lengths[0].milliseconds
    (bundle / "model.onnx").write_bytes(b"other bytes")
    result = cli("bench", str(bundle), "--length", "8", "--rounds", "1")
    assert (result.exit_code, "is damaged: model.onnx has 11 bytes" in result.output) == (2, True)


def test_a_script_that_is_called_onnx_is_not_loaded_as_a_script(
    cli: Cli, bundle: Path, called: list[str], tmp_path: Path
) -> None:
    hostile.script_as_onnx(bundle, tmp_path / "outside")
    result = cli("validate", str(bundle))
    assert (result.exit_code, "cannot load model.onnx: it is not an ONNX file" in result.output) == (2, True)
    (bundle / "model.onnx").rename(bundle / "script.pt")
    hostile.edit(bundle, lambda m: m["artifacts"][0].update(file="script.pt"))
    result = cli("validate", str(bundle))
    assert (result.exit_code, "'script.pt' as ONNX: expected a name that ends in .onnx" in result.output) == (2, True)
    assert called == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.exhaustive
def test_trusted_bundles_have_the_verdicts_of_their_export(cli: Cli, bundle: Path) -> None:
    with_trust = rows(cli, bundle, "--trust")
    assert {v["status"] for v in with_trust} <= {"pass", "skip"}
    passed = {v["subject"] for v in with_trust if v["check"] == "agrees" and v["status"] == "pass"}
    assert {"ort-cpu", "torchscript-cpu", "pt2-cpu"} <= passed
    assert ("torchscript", "lost-input", "pass") in {(v["subject"], v["check"], v["status"]) for v in with_trust}
    assert REASON not in {v["detail"] for v in with_trust}
    assert posenc_export.validate(bundle, trust=True, require=["torchscript-cpu"]).passed


def test_what_export_has_just_written_is_proved_as_before(small_bundle: Path) -> None:
    verdicts = json.loads((small_bundle / "report.json").read_text())["verdicts"]
    passed = {(v["subject"], v["check"]) for v in verdicts if v["status"] == "pass"}
    assert {("torchscript-cpu", "agrees"), ("torchscript", "lost-input")} <= passed
    assert REASON not in {v["detail"] for v in verdicts}
