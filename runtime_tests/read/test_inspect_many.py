"""`posenc inspect` of many files: each is read, one summary, the worst status, and output for programs."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from helpers.graph_files import written
from helpers.longer import ROWS, WIDTH, buffered, sinusoids
from helpers.shared import ROOT, Cli
from posenc_export.read.findings import USUAL, finding_words

NONE = "g (float[b, s, 4] x) => (float[b, s, 4] y) { y = Neg (x) }"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with a file that holds nothing, one that ends, one that is wrong beyond its end, and one in a folder."""
    folder = tmp_path / "models"
    (folder / "inside").mkdir(parents=True)
    (written(tmp_path, NONE)).rename(folder / "none.onnx")
    (buffered(tmp_path)).rename(folder / "inside" / "ends.onnx")
    table = sinusoids(ROWS, WIDTH).astype(np.float32)
    table[17, 3] += 0.25
    buffered(tmp_path, table=table).rename(folder / "wrong.onnx")
    (folder / "notes.txt").write_text("no model")
    return folder


def test_a_folder_is_read_whole_and_the_worst_status_counts(cli: Cli, models: Path) -> None:
    result = cli("inspect", str(models))
    assert result.exit_code == 1, result.output
    blocks = [block.splitlines()[0] for block in result.output.split("\n\n")]
    heads = [line.partition(": ")[0] for line in blocks if line.startswith(str(models))]
    assert heads == [str(models / name) for name in ("inside/ends.onnx", "none.onnx", "wrong.onnx")]
    assert result.output.splitlines()[0] == "3 files: 1 failed, 2 passed"
    (models / "bad.onnx").write_bytes(b"bad")
    result = cli("inspect", str(models))
    assert result.exit_code == 2
    assert result.output.splitlines()[0] == "4 files: 1 failed, 1 not inspected, 2 passed"
    assert result.output.splitlines()[1].startswith(f"{models / 'bad.onnx'}: ")
    assert str(models / "bad.onnx") not in result.output.partition("\n\n")[2]
    wrong = cli("inspect", str(models / "inside"), "--positions", "nope").output.splitlines()
    assert wrong[0] == "1 file: 1 not inspected"
    assert wrong[1].startswith(f"{models / 'inside' / 'ends.onnx'}: --positions: the file has no input 'nope'")
    assert cli("inspect", str(models / "none.onnx"), str(models / "inside")).exit_code == 0
    assert cli("inspect", str(models), "--fail-on", "PE201", "--quiet").exit_code == 2


def test_what_was_not_judged_has_not_passed(cli: Cli, tmp_path: Path) -> None:
    """An answer is right, wrong or not judged, and a file of which nothing is known is none that is right."""
    folder = tmp_path / "models"
    folder.mkdir()
    unknown = """g (float[batch, seq, 16] x) => (float[batch, seq, 16] y) { sh = Shape (x)  len = Gather (sh, one)
        n = Range (zero, len, one)  f = Cast <to = 1> (n)  u = Unsqueeze (f, axis1)
        r = Tanh (u)  h = MatMul (x, w)  %s }"""
    drawn = np.random.default_rng(0).standard_normal
    tables = {"one": np.array(1), "zero": np.array(0), "axis1": np.array([1]), "w": drawn((16, 16)).astype(np.float32)}
    written(folder, unknown % "y = Add (h, r)", tables, name="unknown.onnx")
    result = cli("inspect", str(folder))
    assert result.exit_code == 0, result.output
    assert "no positional encoding was recognised, and positions may be in what was not judged" in result.output
    lines = ["1 file: 1 not judged", f"{folder}/unknown.onnx: not judged: PE212"]
    assert result.output.splitlines()[:2] == lines
    listed = json.loads(cli("inspect", str(folder), "--json").output)["inspections"]
    assert [len(entry["not_judged"]) for entry in listed] == [1]
    rows = {"rows": drawn((64, 16)).astype(np.float32)}
    written(folder, unknown % "k = Add (h, r)  p = Gather (rows, n)  y = Add (k, p)", tables | rows, name="both.onnx")
    written(folder, NONE, name="none.onnx")
    result = cli("inspect", str(folder))
    assert result.output.splitlines()[0] == "3 files: 1 passed, 1 judged in part, 1 not judged"
    assert cli("inspect", str(folder), "--fail-on", "PE212").exit_code == 1
    assert cli("inspect", str(folder), "--fail-above", "1").exit_code == 1


def test_json_of_many_is_a_list_and_of_one_an_inspection(cli: Cli, models: Path) -> None:
    one = json.loads(cli("inspect", str(models / "none.onnx"), "--format", "json").output)
    assert one["file"] == str(models / "none.onnx")
    (models / "bad.onnx").write_bytes(b"bad")
    command = [sys.executable, "-m", "posenc_export", "inspect", str(models), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    many = json.loads(done.stdout)
    assert done.returncode == 2
    assert [entry["file"] for entry in many["inspections"]][1] == one["file"]
    assert [entry["file"] for entry in many["unread"]] == [str(models / "bad.onnx")]
    assert "bad.onnx" in done.stderr


def test_sarif_has_a_rule_for_each_code_and_a_result_for_each_finding(cli: Cli, models: Path) -> None:
    log = json.loads(cli("inspect", str(models), "--format", "sarif").output)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [entry.code for entry in finding_words()]
    read = [json.loads(cli("inspect", str(path), "--json").output) for path in sorted(models.rglob("*.onnx"))]
    expected = [(entry["code"], entry["severity"]) for inspection in read for entry in inspection["findings"]]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == expected
    assert len(expected) >= 2
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (place,) = result["locations"]
        assert Path(place["physicalLocation"]["artifactLocation"]["uri"].removeprefix("file://")).is_file()
    assert set(USUAL.values()) <= {"error", "warning", "note"}, "the levels of SARIF"


def test_github_prints_annotations_alone(cli: Cli, models: Path) -> None:
    lines = cli("inspect", str(models), "--format", "github").output.splitlines()
    assert lines
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--against", "x.onnx"), "--against is for one file: got 3"),
        (("--plot", "x.svg"), "--plot is for one file: got 3"),
        (("--json", "--format", "sarif"), "--json and --format sarif contradict"),
    ],
)
def test_what_is_for_one_file_is_refused_for_many(cli: Cli, models: Path, words: tuple[str, ...], text: str) -> None:
    result = cli("inspect", str(models), *words)
    assert result.exit_code == 2
    assert text in result.output


def test_a_folder_without_files_is_wrong_usage(cli: Cli, tmp_path: Path) -> None:
    result = cli("inspect", str(tmp_path))
    assert result.exit_code == 2
    assert "is a folder without a file that ends in .onnx" in result.output


def test_the_hook_runs_on_the_files_that_it_names(models: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    names = [str(path) for path in sorted(models.rglob("*")) if re.search(hook["files"], str(path))]
    assert len(names) == 3
    program, *words = shlex.split(hook["entry"])
    assert program == "posenc"
    command = [sys.executable, "-m", "posenc_export", *words, *names]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_the_step_of_the_page_writes_a_log(models: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    steps = yaml.safe_load(page.partition('```yaml title="step.yml"\n')[2].partition("```")[0])
    command = steps[0]["run"].replace("posenc ", f"{shlex.quote(sys.executable)} -m posenc_export ", 1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, shell=True, cwd=models.parent, check=False, env=environment)
    assert done.returncode == 1
    assert json.loads((models.parent / steps[1]["with"]["sarif_file"]).read_text())["version"] == "2.1.0"
    hooks = yaml.safe_load(page.partition('```yaml title="hooks.yml"\n')[2].partition("```")[0])
    (known,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks["repos"][0]["hooks"]] == [known["id"]]
