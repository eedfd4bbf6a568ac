"""The command line: exit codes and texts, for right and for wrong input."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from helpers.shared import Cli, Running, why_missing
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import SCHEMES
from posenc_export.cli import main
from posenc_export.proof.runtimes import RUNTIMES

SMALL = ["-p", "d_model=8", "--max-len", "40"]


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        ([""], 2, "unknown scheme ''"),
        (["--atol", "nan"], 2, "must be"),
        (["--rtol", "inf"], 2, "'--rtol': it must be a number from 0 to 1,000,000,000, got inf"),
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
        (["--opset", "5"], 2, "5 is not in the range 18<=x<=24"),
        (["--dtype", "fp8"], 2, "unknown 'fp8': known: fp32, fp16, bf16, fp64"),
        (["--format", "tflite"], 2, "unknown 'tflite': known: cache, cache-npz, pt2, "),
        (["--runtime", "ort"], 2, "unknown 'ort': did you mean 'ort-cpu'? known: ort-cpu, "),
        (["--runtime", "ort-cpu,ort"], 2, "unknown 'ort': did you mean"),
        (["--require", "ort-cpu,"], 2, "unknown '': known: ort-cpu, "),
        (["--mode", "dinamic"], 2, "unknown 'dinamic': did you mean 'dynamic'? known: baked, dynamic"),
        (["--mode", "dynamic", "--baked"], 2, "--mode dynamic and --baked contradict: give one of them"),
        (["--mode", "baked", "--dynamic"], 2, "--mode baked and --dynamic contradict: give one of them"),
        (["--mode", "baked", "--method", "trig"], 2, "computes angles: give --dynamic with it"),
        (["helpers.broken:Good", "--mode", "baked"], 2, "--baked is for schemes"),
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
    from posenc_export.proof.runtimes import Missing

    def fall_back(*_: object) -> None:
        raise Missing("ONNX Runtime fell back to CPUExecutionProvider")

    monkeypatch.setattr("posenc_export.proof.runtimes.Runtime.open", fall_back)
    assert "ort-cpu" in RUNTIMES
    result = cli("export", *SMALL, "--require", "ort-cpu", "-f", "onnx")
    assert result.exit_code == 3, result.output
    assert "ort-cpu is required and ONNX Runtime fell back" in result.output


def test_a_runtime_that_is_not_available_is_neither_pass_nor_fail(cli: Cli, running: Running) -> None:
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
    assert [s["name"] for s in schemes] == list(SCHEMES)
    assert [s["samples"] for s in schemes] == json.loads(json.dumps([s.samples for s in SCHEMES.values()]))
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
    assert all(f"\n{name}: " in f"\n{text}" for name in SCHEMES)


def test_schemes_lists_the_one_of_a_name(cli: Cli) -> None:
    (rope,) = json.loads(cli("schemes", "rope", "--json").stdout)
    assert rope["name"] == "rope"
    headings = {line.partition(":")[0] for line in cli("schemes", "rope").output.splitlines()} & set(SCHEMES)
    assert headings == {"rope"}
    assert [x for x in cli("schemes", "rope", "--markdown").output.splitlines() if x[:3] == "## "] == ["## rope"]
    result = cli("schemes", "roep")
    assert result.exit_code == 2
    assert "unknown scheme 'roep': did you mean 'rope'?" in result.output
    assert cli("schemes", "--json", "--markdown").exit_code == 2


def completed(*words: str) -> list[str]:
    """What a shell offers in place of the last word."""
    shell = ShellComplete(main, {}, "posenc", "_POSENC_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("command", ["export", "plot", "bench", "schemes"])
def test_a_shell_completes_schemes(command: str) -> None:
    assert set(completed(command, "")) == set(SCHEMES)
    assert set(completed(command, "rope")) == {name for name in SCHEMES if name.startswith("rope")}
    assert completed(command, "nothing") == []


@pytest.mark.parametrize("command", ["export", "plot", "bench"])
def test_a_shell_completes_parameters(command: str) -> None:
    assert completed(command, "-p", "layout=") == ["layout=interleaved", "layout=halves"]
    assert completed(command, "-p", "lay") == ["layout="]
    assert completed(command, "-p", "base=") == []
    assert completed(command, "rope", "-p", "") == [f"{name}=" for name in SCHEMES["rope"].parameters]
    assert completed(command, "rope", "-p", "rope_type=") == [f"rope_type={name}" for name in ROPE_TYPES]
    assert completed(command, "no_such_scheme", "-p", "") == []


@pytest.mark.parametrize("command", [[], *([name] for name in main.commands)])
def test_every_command_has_help(cli: Cli, command: list[str]) -> None:
    result = cli(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "posenc_export", "--help"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert "Usage: python -m posenc_export" in process.stdout
    assert all(f"\n  {name} " in process.stdout for name in main.commands)


@pytest.mark.parametrize(
    ("bug", "args"),
    [
        ("posenc_export.export", ["export", *SMALL]),
        ("posenc_export.proof.exporter.record.record", ["export", *SMALL, "-f", "onnx"]),
        ("posenc_export.validate", ["validate", "."]),
        ("posenc_export.bench", ["bench"]),
        ("posenc_export.show.plots.draw", ["plot", "-o", "a.svg"]),
        ("posenc_export.cli.output.scheme_list.print_schemes", ["schemes"]),
    ],
)
def test_a_bug_in_the_tool_is_one_line_and_status_5(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, bug: str, args: list[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such row\nand much more")

    monkeypatch.setattr(bug, fail)
    result = cli(*args)
    assert result.exit_code == 5, result.output
    assert result.output == "Error: RuntimeError: no such row (-v -v shows where)\n"
    assert list(Path().iterdir()) == []
    if args[0] in ("export", "validate"):
        with pytest.raises(RuntimeError, match="no such row"):
            cli(*args, "-v", "-v")


@pytest.mark.exhaustive
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
    assert max(sizes.values()) <= 9_000_000  # 2,048 rows are stored, 4 MB of them


def test_a_table_is_written_over_no_file_of_others(cli: Cli, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("# What I know\n\n| a | b |\n|---|---|\n")
    result = cli("cuda", "--save", "notes.md")
    assert (result.exit_code, "notes.md is there, and holds no table of posenc cuda" in result.output) == (2, True)
    assert notes.read_text().startswith("# What I know")


def test_a_picture_or_a_page_is_written_over_nothing_that_is_read(cli: Cli, tmp_path: Path) -> None:
    model = tmp_path / "model.png"
    model.write_text("no model")
    for option in (["--plot", "model.png"], ["--html", "model.html", "--config", "model.html", "--force"]):
        (tmp_path / "model.html").write_text("{}")
        result = cli("inspect", "model.png", *option)
        assert (result.exit_code, "is what this command reads" in result.output) == (2, True), result.output
    assert model.read_text() == "no model"
