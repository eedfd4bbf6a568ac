"""A bundle is input from a stranger: without --trust none of its code is run, and no file outside is touched."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import hostile
import posenc_export.runtimes.cpp
from conftest import Cli, Once, need
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc_export.bundle.folder import Bundle
from posenc_export.cli import main
from posenc_export.errors import BadInput, Unavailable
from posenc_export.formats import FORMATS
from posenc_export.runtimes import RUNTIMES, Missing
from posenc_export.validation.checks import Context
from posenc_export.validation.run import run_checks

REASON = "runs code from the bundle; give --trust"
RUN_CODE = {"torchscript", "pt2", "aoti", "header"}
Hostile = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def every(once: Once) -> Path:
    """A bundle with a file of each format that is quickly written."""
    formats = [word for name in ("onnx", "torchscript", "pt2", "header") for word in ("-f", name)]
    small = ["--dynamic", "--positions", "offset", "-p", "d_model=8", "--max-len", "40", "--runtime", "ort-cpu", "-q"]

    def make(folder: Path) -> None:
        result = CliRunner().invoke(main, ["export", *small, *formats, "-o", str(folder / "b")], catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return once("every-format", make) / "b"


@pytest.fixture
def bundle(every: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(every, tmp_path / "given"))


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The loaders that run code, replaced by what notes that it was called, and fails."""
    import torch
    import torch._inductor
    import torch.export

    names: list[str] = []

    def failing(name: str) -> Callable[..., None]:
        def load(*_: object, **__: object) -> None:
            names.append(name)
            raise AssertionError(f"{name} was called")

        return load

    for owner, name in ((torch.jit, "load"), (torch.export, "load"), (torch._inductor, "aoti_load_package")):
        monkeypatch.setattr(owner, name, failing(name))
    monkeypatch.setattr("posenc_export.runtimes.header._compiled", failing("compile"))
    in_cpp = posenc_export.runtimes.cpp._runner

    def runner(*args: Any, **how: str) -> Any:
        return in_cpp(*args, **how) if how["format_"] == "onnx" else failing("C++ runner")()

    monkeypatch.setattr(posenc_export.runtimes.cpp, "_runner", runner)
    return names


def rows(cli: Cli, bundle: Path, *args: str) -> list[dict[str, Any]]:
    result = cli("validate", str(bundle), "--json", *args)
    assert result.exit_code in (0, 1), result.output
    verdicts: list[dict[str, Any]] = json.loads(result.stdout)["verdicts"]
    return verdicts


# ---- code ------------------------------------------------------------------------------------------------------------


def test_every_format_says_whether_it_runs_code() -> None:
    assert {f.name for f in FORMATS.values() if f.runs_code} == RUN_CODE
    inert = {"ort-cpu", "ort-cuda", "ort-cpp", "ort-cpp-cuda", "onnx-reference"}
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
    with pytest.raises(BadInput, match=REASON):
        posenc_export.validate(bundle, runtimes=["header-cpp"])
    with pytest.raises(Unavailable, match=REASON):
        posenc_export.validate(bundle, require=["header-cpp"])
    with pytest.raises(BadInput, match=REASON):
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


# ---- names and paths -------------------------------------------------------------------------------------------------

PATHS = [
    "../x",
    "../x/y",
    "/x",
    "a/b",
    "a\\b",
    "..",
    ".",
    "",
    "x\ny",
    "x y",
    "x.y",
    "C:x",
    "$x",
    "1x",
    "\u00e9",
    7,
    None,
]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("where", ["port", "output", "axis"])
def test_names_are_identifiers(cli: Cli, bundle: Path, called: list[str], where: str, name: Any) -> None:
    def rename(manifest: dict[str, Any]) -> None:
        port = manifest["outputs" if where == "output" else "inputs"][0]
        (port["axes"][0] if where == "axis" else port)["name"] = name

    before = {p.name for p in bundle.parent.iterdir()}
    hostile.edit(bundle, rename)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert result.output.count("\n") == 1, result.output
    assert f"is named {name!r}: expected letters, digits and _" in result.output
    assert {p.name for p in bundle.parent.iterdir()} == before


def test_a_term_of_a_sum_is_an_identifier_too() -> None:
    from dataclasses import replace

    from posenc_export.bundle.manifest import check_names

    check_names([Port("x", (BATCH, replace(SEQ, name="past+seq"), fixed(8)), "float32")])
    for name in ("past+../seq", "past+", "+"):
        with pytest.raises(BadInput, match="an axis of x is named"):
            check_names([Port("x", (replace(SEQ, name=name),), "float32")])


def test_export_gives_no_other_names_either() -> None:
    with pytest.raises(BadInput, match=r"a port is named '\.\./x': expected letters"):
        posenc_export.export(np.ndarray, inputs=[Port("../x", (BATCH, SEQ, fixed(8)), "float32")])


FILES = [
    "../model.onnx",
    "/model.onnx",
    "sub/model.onnx",
    "sub/../model.onnx",
    "./model.onnx",
    "sub\\model.onnx",
    "..",
    "",
    "*/_ORT_MEM_ADDR_/*",
    "model\n.onnx",
    ".hidden.onnx",
    None,
]


@pytest.mark.parametrize("file", FILES)
def test_files_lie_in_the_bundles_own_folder(cli: Cli, bundle: Path, called: list[str], file: Any) -> None:
    (bundle / "sub").mkdir()
    for place in (bundle / "sub", bundle.parent):
        shutil.copy(bundle / "model.onnx", place / "model.onnx")
    hostile.edit(bundle, lambda m: m["artifacts"][0].update(file=file))
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert f"the manifest names {file!r}, which is not a file of the bundle itself" in result.output


@pytest.mark.parametrize("name", ["model.onnx", "model.pt", "golden.npz", "manifest.json"])
def test_links_are_not_files_of_the_bundle(cli: Cli, bundle: Path, called: list[str], name: str) -> None:
    hostile.linked(bundle, name)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    text = "is a link: expected a file of the bundle itself" if "model" not in name else "is not a file of the bundle"
    assert text in result.output
    assert result.output.count("\n") == 1


def test_a_linked_folder_in_a_bundle_leads_nowhere(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    shutil.move(bundle / "model.onnx", tmp_path / "real" / "model.onnx")
    (bundle / "sub").symlink_to(tmp_path / "real")
    hostile.edit(bundle, lambda m: m["artifacts"][0].update(file="sub/model.onnx"))
    result = cli("validate", str(bundle))
    assert (result.exit_code, "'sub/model.onnx', which is not a file" in result.output) == (2, True), result.output


@pytest.mark.parametrize("take", [hostile.weight, hostile.in_a_branch])
@pytest.mark.parametrize("place", ["../secret", "/etc/hostname", "golden.npz", "*/_ORT_MEM_ADDR_/*", ""])
def test_weights_lie_in_files_that_the_manifest_lists(cli: Cli, bundle: Path, place: str, take: Any) -> None:
    (bundle.parent / "secret").write_bytes(bytes(4096))
    hostile.weights_at(bundle, place, take)
    result = cli("validate", str(bundle))
    assert result.exit_code == 2, result.output
    assert f"model.onnx takes weights from {place!r}, which is no file that the manifest lists" in result.output
    assert cli("bench", str(bundle), "--length", "8", "--rounds", "1").exit_code == 2


def test_weights_in_a_listed_file_are_read(cli: Cli, bundle: Path) -> None:
    import onnx

    tensor = onnx.load(bundle / "model.onnx").graph.initializer[0]
    (bundle / "model.onnx.data").write_bytes(onnx.numpy_helper.to_array(tensor).tobytes())
    hostile.add(bundle, "onnx.data", "model.onnx.data")
    hostile.weights_at(bundle, "model.onnx.data")
    found = rows(cli, bundle, "--runtime", "ort-cpu")
    assert {v["status"] for v in found if v["subject"] == "ort-cpu"} == {"pass"}
