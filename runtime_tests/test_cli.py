"""The command line: exit codes and texts, for right and for wrong input."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Cli, running, why_missing

SMALL = ["-p", "d_model=8", "--max-len", "40"]


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (["-p", "d_model=abc"], 2, "d_model must be int or auto, got 'abc'"),
        (["-p", "d_model=0"], 2, "d_model must be at least 1, got 0"),
        (["-p", "d_model=-4"], 2, "d_model must be at least 1, got -4"),
        (["-p", "d_modle=8"], 2, "sinusoidal has no parameter 'd_modle': did you mean 'd_model'?"),
        (["-p", "d_model"], 2, "-p d_model: expected KEY=VALUE"),
        (["-p", "d_model=8", "-p", "d_model=9"], 2, "-p d_model is given twice"),
        (["-p", "layout=thirds"], 2, "layout must be interleaved or halves, got 'thirds'"),
        (["-p", "strict_even=maybe"], 2, "strict_even must be true or false, got 'maybe'"),
        (["-p", "base=nan"], 2, "base must be a finite number above 1, got nan"),
        (["-p", "d_model=auto"], 2, "it takes --dynamic --method trig"),
        (["--max-len", "0"], 2, "0 is not in the range x>=1"),
        (["--max-len", "2"], 2, "max_len 2 leaves no length to vary: give --max-len 3 or more"),
        (["--opset", "5"], 2, "5 is not in the range 18<=x<=23"),
        (["--dtype", "fp8"], 2, "'fp8' is not one of 'fp32', 'fp16', 'bf16', 'fp64'"),
        (["--format", "tflite"], 2, "'tflite' is not one of"),
        (["--runtime", "ort"], 2, "'ort' is not one of"),
        (["--method", "trig"], 2, "--method chooses how a dynamic graph computes angles: give --dynamic with it"),
        (["-i", "x: float32[seq]"], 2, "-i gives the inputs of package.module:factory"),
        (["--atol", "-1"], 2, "-1.0 is not in the range x>=0"),
        (["sinusodial"], 2, "unknown scheme 'sinusodial': did you mean 'sinusoidal'?"),
        (["learned", "--dynamic"], 2, "learned has no dynamic form"),
        (["learned", "-p", "weights=none.npy"], 2, "weights: no such file: none.npy"),
    ],
)
def test_wrong_usage_is_one_clear_line(cli: Cli, args: list[str], status: int, text: str) -> None:
    result = cli("export", *args)
    assert result.exit_code == status, result.output
    assert text in result.output
    assert "Traceback" not in result.output
    assert list(Path().iterdir()) == []


def test_a_required_runtime_that_is_missing_is_status_3(cli: Cli, small_bundle: Path) -> None:
    if not why_missing("ort-cuda"):
        assert cli("export", *SMALL, "--require", "ort-cuda", "-q").exit_code == 0
        return
    for args in (["export", *SMALL], ["validate", str(small_bundle)]):
        result = cli(*args, "--require", "ort-cuda")
        assert result.exit_code == 3, result.output
        assert "ort-cuda is required and not available here: " in result.output
        assert list(Path().iterdir()) == []


def test_a_required_runtime_that_falls_back_while_loading_is_status_3(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posenc_export.runtimes import RUNTIMES, Missing

    def fall_back(*_: object) -> None:
        raise Missing("ONNX Runtime fell back to CPUExecutionProvider")

    monkeypatch.setattr("posenc_export.runtimes.Runtime.open", fall_back)
    assert "ort-cpu" in RUNTIMES
    result = cli("export", *SMALL, "--require", "ort-cpu", "-f", "onnx")
    assert result.exit_code == 3, result.output
    assert "ort-cpu is required and ONNX Runtime fell back" in result.output


def test_a_runtime_that_is_not_available_is_neither_pass_nor_fail(cli: Cli) -> None:
    here = running(("onnx", "torchscript"))
    result = cli("export", *SMALL, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    rows = {v["subject"]: v for v in report["verdicts"] if v["check"] == "agrees"}
    for name, row in rows.items():
        assert row["status"] == ("pass" if name in here else "skip")
        assert row["detail"]


def test_quiet_verbose_and_no_validate(cli: Cli) -> None:
    assert cli("export", *SMALL, "-q").output == ""
    verbose = cli("export", *SMALL, "-v", "--runtime", "ort-cpu", "-f", "onnx").output
    assert "batch1-seq40" in verbose
    result = cli("export", *SMALL, "--no-validate")
    assert result.exit_code == 0
    assert "not validated" in result.output
    assert json.loads(Path("sinusoidal-baked/report.json").read_text())["passed"] is False


def test_a_mismatch_is_status_1_and_says_where(cli: Cli) -> None:
    result = cli("export", *SMALL, "--atol", "0")
    assert result.exit_code == 1
    assert "against float64" in result.output
    assert "expected at most 0" in result.output
    assert Path("sinusoidal-baked-failed/report.md").is_file()


def test_schemes_lists_parameters(cli: Cli) -> None:
    schemes = json.loads(cli("schemes", "--json").stdout)
    assert [s["name"] for s in schemes] == ["learned", "mrope", "rope", "rope_2d", "sinusoidal", "xpos"]
    by_name = {s["name"]: {p["name"]: p for p in s["parameters"]} for s in schemes}
    parameters = by_name["sinusoidal"]
    assert parameters["d_model"]["default"] == 512
    assert parameters["layout"]["type"] == "interleaved or halves"
    assert by_name["rope"]["short_factor"]["type"] == "a list of float"
    assert by_name["mrope"]["sections"]["default"] == [16, 24, 24]
    assert all(p["help"] for s in schemes for p in s["parameters"])
    text = cli("schemes").output
    assert "-p d_model=512" in text
    assert "-p original_max_position_embeddings= " in text
    assert "no dynamic" in text


@pytest.mark.parametrize("command", [[], ["export"], ["validate"], ["schemes"], ["plot"], ["bench"]])
def test_every_command_has_help(cli: Cli, command: list[str]) -> None:
    result = cli(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_two_exports_give_the_same_bytes_in_two_processes(tmp_path: Path) -> None:
    code = "from posenc_export.cli import export; export()"
    for name in "ab":
        args = ["--dynamic", *SMALL, "--no-validate", "-q", "-o", f"{name}/bundle"]
        subprocess.run([sys.executable, "-c", code, *args], cwd=tmp_path, check=True)
    for file in ("model.onnx", "model.pt", "golden.npz"):
        assert (tmp_path / "a/bundle" / file).read_bytes() == (tmp_path / "b/bundle" / file).read_bytes(), file


def test_the_main_job_is_quick_and_silent_when_not_on_a_terminal(tmp_path: Path) -> None:
    start = time.monotonic()
    code = "from posenc_export.cli import export; export()"
    process = subprocess.run(
        [sys.executable, "-c", code, "--dynamic"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    print(f"posenc-export --dynamic took {time.monotonic() - start:.1f} s")
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    assert "checks passed" in process.stdout
    sizes = {p.suffix: p.stat().st_size for p in (tmp_path / "sinusoidal-dynamic").glob("model.*")}
    assert max(sizes.values()) <= 2_500_000
