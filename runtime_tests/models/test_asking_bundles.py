"""Bundles of configs whose model was asked: in a child, in this process, and not at all."""

import json
import os
import re
import signal
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_export
from helpers.in_process import InProcess
from helpers.models.rotary import CONFIGS, DEEPSEEK, LONGROPE, Config, question
from helpers.shared import Cli
from posenc.ports import Feeds
from posenc.spec import BLOCK_ROWS, TABLE_ROWS
from posenc_export.bundle.folder import sha256
from posenc_export.common.limit import ASK_TIMEOUT
from posenc_models import ModelConfig
from posenc_models.asking.load import INSTALL
from posenc_models.asking.model import CannotAsk
from posenc_models.asking.process import TIMEOUT, Answers, Asking, AskingFailed

pytest.importorskip("transformers")

ONNX: dict[str, Any] = {"formats": ["onnx"], "mode": "dynamic", "runtimes": ["ort-cpu"]}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a config with its model asked in a child."""
    folder = tmp_path_factory.mktemp("asked") / "deepseek"
    result = posenc_export.export(ModelConfig.of(DEEPSEEK), to=folder, **ONNX, require=["model"])
    assert result.passed
    return folder


def test_the_child_answers_and_the_report_says_so(bundle: Path) -> None:
    report = json.loads((bundle / "report.json").read_text(encoding="utf-8"))
    assert report["model"].startswith("against transformers ")
    assert "DeepseekV3RotaryEmbedding, apply_rotary_pos_emb_interleave" in report["model"]
    assert (bundle / "report.md").read_text(encoding="utf-8").splitlines()[4] == report["model"]
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["model"]["permutation"] == [0, 4, 1, 5, 2, 6, 3, 7]
    verdict = next(v for v in report["verdicts"] if v["check"] == "model")
    assert (verdict["code"], verdict["status"]) == ("PE114", "pass")
    cases = {case["name"]: case for case in manifest["cases"]}
    near = {name for name, case in cases.items() if not case["refused"] and case["max_position"] < 4096}
    assert near
    for output in ("q_rotated", "k_rotated", "scores"):
        assert {c["case"] for c in verdict["comparisons"] if c["output"] == output} == near


def not_installed(name: str) -> str:
    raise PackageNotFoundError(name)


def test_golden_data_judge_without_the_library(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_models.asking.load.version", not_installed)
    golden = dict(np.load(bundle / "golden.npz"))
    result = posenc_export.validate(bundle, runtimes=["ort-cpu"], require=["model"])
    assert result.passed
    key = next(key for key in golden if key.endswith("k_rotated.model"))
    golden[key] = golden[key].copy()
    golden[key].flat[0] += 0.01
    original = {name: (bundle / name).read_bytes() for name in ("golden.npz", "manifest.json")}
    try:
        np.savez(bundle / "golden.npz", **golden)
        manifest = json.loads(original["manifest.json"])
        entry = next(file for file in manifest["files"] if file["file"] == "golden.npz")
        entry |= {"bytes": (bundle / "golden.npz").stat().st_size, "sha256": sha256(bundle / "golden.npz")}
        (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        result = posenc_export.validate(bundle, runtimes=["ort-cpu"])
        (wrong,) = [v for v in result.verdicts if v.status == "fail"]
        assert wrong.check == "model"
        assert {c.output for c in wrong.comparisons if not c.passed} == {"k_rotated", "scores"}
    finally:
        for name, data in original.items():
            (bundle / name).write_bytes(data)


def config_file(folder: Path, content: Config) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


EXPORT = ("--dynamic", "-f", "onnx", "--runtime", "ort-cpu")


def test_a_wrong_reading_is_refused_and_what_agrees_is_named(cli: Cli, tmp_path: Path) -> None:
    path = config_file(tmp_path, DEEPSEEK)
    result = cli("export", "--from-hf", path, "-p", "layout=halves", *EXPORT, "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "PE114 ort-cpu model: against transformers " in result.stdout
    assert "the model agrees with -p layout=interleaved" in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
def test_a_wrong_width_is_refused_with_the_shapes(tmp_path: Path) -> None:
    config = ModelConfig.of(CONFIGS["halves"])
    result = posenc_export.export(config, to=tmp_path / "out", **ONNX, head_dim=8)
    wrong = [v for v in result.verdicts if v.status == "fail"]
    assert [v.check for v in wrong] == ["model"]
    assert re.search(r"q_rotated of the model is .* x 16 in \S+, not .* x 8$", wrong[0].detail)
    again = posenc_export.validate(result.folder, runtimes=["ort-cpu"])
    assert [v.check for v in again.verdicts if v.status == "fail"] == ["model"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("positions", ["explicit", "implicit"])
def test_a_table_is_held_where_it_is_meant_to_agree(tmp_path: Path, positions: str) -> None:
    settings = {**ONNX, "mode": "baked", "positions": positions, "output": "cos_sin"}
    result = posenc_export.export(ModelConfig.of(LONGROPE), to=tmp_path / "out", **settings)
    assert result.passed
    asked = [case for case in result.manifest.cases if case.model_tolerance is not None]
    model = result.manifest.model
    assert asked
    assert model is not None
    if positions == "explicit":
        assert all(case.max_position >= 64 for case in asked if case.max_position)
        assert "shorter ones the model's angles are others" in model.note


@pytest.mark.exhaustive
def test_both_sides_of_a_switch_are_asked(tmp_path: Path) -> None:
    content = {**LONGROPE, "original_max_position_embeddings": 1000}
    result = posenc_export.export(ModelConfig.of(content), to=tmp_path / "out", **ONNX)
    assert result.passed
    asked = {case.max_position for case in result.manifest.cases if case.model_tolerance is not None}
    assert {999, 1000} <= asked
    behind_stored = (TABLE_ROWS, TABLE_ROWS + 1, TABLE_ROWS + BLOCK_ROWS + 2)
    lengths = {last + 1 for last in asked} - {2003, *behind_stored}
    assert all(length <= 512 or abs(length - 1000) <= 2 for length in lengths)


def test_without_the_library_the_line_below_the_verdict_says_so(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc_models.asking.load.version", not_installed)
    path = config_file(tmp_path, CONFIGS["halves"])
    result = cli("export", "--from-hf", path, *EXPORT, "--require", "model", "-o", str(tmp_path / "out"))
    assert result.exit_code == 3
    line = "read by posenc's table, not held against the model's code: transformers is not installed: "
    assert result.stdout.splitlines()[1] == line + INSTALL
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert report.splitlines()[4].startswith(line)
    again = cli("validate", str(tmp_path / "out"), "--require", "model", "--runtime", "ort-cpu")
    assert again.exit_code == 3


def test_a_model_is_required_of_configs_alone(cli: Cli, tmp_path: Path) -> None:
    result = cli("export", "rope", "--require", "model", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "--require model needs --from-hf" in result.stderr


def test_a_child_that_is_killed_is_one_line() -> None:
    asking = Asking(question(CONFIGS["halves"]))
    os.kill(asking.process.pid, signal.SIGKILL)
    with pytest.raises(AskingFailed, match=r"the process that asked the model ended with signal 9: .*") as caught:
        asking.answers({})
    assert "\n" not in str(caught.value)
    assert not asking.folder.exists()


def test_a_child_that_computes_too_long_is_ended_and_its_model_not_asked() -> None:
    asking = Asking(question(CONFIGS["halves"]), timeout=0.5)  # importing torch takes longer
    with pytest.raises(CannotAsk, match=r"the model gave no answer within 0.5 s of computing \(--ask-timeout\)"):
        asking.answers({})
    assert asking.process.returncode == -signal.SIGXCPU


def test_a_child_that_hangs_is_ended_and_its_model_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_models.asking.process.PATIENCE", 0.0)
    asking = Asking(question(CONFIGS["halves"]))
    os.kill(asking.process.pid, signal.SIGSTOP)
    with pytest.raises(CannotAsk, match=r"the model gave no answer within 0 s by the clock"):
        asking.answers({})
    assert asking.process.returncode == -signal.SIGKILL


@pytest.mark.exhaustive
@pytest.mark.apart
def test_a_limit_that_ran_out_is_no_disagreement(cli: Cli, tmp_path: Path) -> None:
    assert ASK_TIMEOUT == TIMEOUT
    path = config_file(tmp_path, CONFIGS["halves"])
    limited = (*EXPORT, "--ask-timeout", "0.5", "-o", str(tmp_path / "out"))
    result = cli("export", "--from-hf", path, *limited)
    assert result.exit_code == 0, result.output
    assert "the model gave no answer within 0.5 s of computing" in result.output
    assert cli("export", "--from-hf", path, *limited, "--require", "model").exit_code == 3


@pytest.mark.exhaustive
def test_a_crash_is_a_failed_row_and_never_ends_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: InProcess, cases: Mapping[str, Feeds]) -> Answers:
        raise AskingFailed("the process that asked the model ended with signal 11: no word")

    monkeypatch.setattr(InProcess, "answers", crash)
    config = ModelConfig.of(CONFIGS["halves"])
    result = posenc_export.export(config, to=tmp_path / "out", formats=["onnx"], runtimes=["ort-cpu"])
    assert [(v.subject, v.check) for v in result.verdicts if v.status == "fail"] == [("config", "model")]
    assert result.failed
