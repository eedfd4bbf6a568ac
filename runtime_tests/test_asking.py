"""The model itself is asked: what its own code gives is held against what was read, with it and without it."""

import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_export
from conftest import EPS, Cli
from posenc.hf import ModelConfig, read_config
from posenc.hf.asking import CannotAsk, Model, Question, model_of
from posenc.hf.asking.process import Answers, Asking, AskingFailed
from posenc.hf.asking.rotary import layers_of
from posenc.ports import Array, Feeds
from posenc.scheme import build
from posenc.spec import Spec
from posenc_export.bundle.folder import sha256

pytest.importorskip("transformers")

Config = dict[str, Any]
SMALL: Config = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
SMALL |= {"intermediate_size": 32, "vocab_size": 50, "max_position_embeddings": 2048, "rope_theta": 10000.0}
LATENT = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8}
DEEPSEEK: Config = {**SMALL, **LATENT, "model_type": "deepseek_v3", "num_key_value_heads": 4}
SHORT, LONG = [1.0 + i / 8 for i in range(8)], [2.0 + i for i in range(8)]
LONGROPE: Config = {
    **SMALL,
    "model_type": "phi3",
    "pad_token_id": 0,
    "original_max_position_embeddings": 64,
    "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG},
}
CONFIGS: Mapping[str, Config] = {
    "halves": {**SMALL, "model_type": "llama"},
    "neighbours": {**SMALL, "model_type": "cohere"},
    "neighbours, a part of a head": {**SMALL, "model_type": "glm", "head_dim": 16, "pad_token_id": 0},
    "complex numbers": {**SMALL, "model_type": "llama4_text", "head_dim": 16},
    "features swapped": DEEPSEEK,
    "a table of an attention's own": {
        **{"model_type": "gptj", "n_embd": 64, "n_head": 4, "n_layer": 1, "rotary_dim": 8, "vocab_size": 50},
        **{"n_positions": 600},
    },
    "a switch": LONGROPE,
    "positions that the model counts": {**SMALL, "model_type": "dia_encoder", "head_dim": 16},
    "three positions": {
        **{**SMALL, "model_type": "qwen2_vl_text"},
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
    },
}


def question(content: Config, **parameters: object) -> Question:
    reading = read_config(content, overrides=parameters)
    encoding = build(reading.scheme, Spec("dynamic"), **reading.parameters)
    return Question(content, "", None, reading, encoding.inputs, encoding.outputs)


def feeds_of(asked: Question, last: int) -> Feeds:
    """Return random heads at positions up to one."""
    random, width = np.random.default_rng(0), asked.reading.parameters["head_dim"]
    shape = (2, 9) if asked.reading.scheme == "rope" else (3, 2, 9)
    positions = random.integers(0, last + 1, shape)
    positions[..., 0] = last
    heads = (random.standard_normal((2, n, 9, width)).astype(np.float32) for n in (3, 2))
    return {**dict(zip("qk", heads, strict=True)), "positions": positions}


def error(model: Model, asked: Question, feeds: Feeds) -> float:
    """Return by how much a model is off from the float64 reference of what was read: of the largest number."""
    reference = build(asked.reading.scheme, Spec("dynamic"), **asked.reading.parameters).reference(feeds, None)
    outputs = model.call(feeds)
    return max(float(np.abs(outputs[k] - v).max() / np.abs(v).max()) for k, v in reference.items())


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_model_gives_what_was_read(kind: str) -> None:
    asked = question(CONFIGS[kind])
    model = model_of(asked)
    for last in (9, 63, 64, 300):
        assert error(model, asked, feeds_of(asked, last)) < 2 * 4 * EPS * last + 8 * EPS
    assert model.library.startswith("transformers ")
    assert model.words


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("halves", {"layout": "interleaved"}),
        ("halves", {"rope_theta": 20000.0}),
        ("neighbours", {"layout": "halves"}),
        ("features swapped", {"layout": "halves"}),
        ("neighbours, a part of a head", {"rotary_dim": 12}),
        ("three positions", {"sections": (4, 2, 2)}),
    ],
)
def test_another_reading_is_off(kind: str, change: dict[str, object]) -> None:
    asked = question(CONFIGS[kind], **change)
    assert error(model_of(asked), asked, feeds_of(asked, 300)) > 0.1


def test_a_width_that_is_not_the_models_shows_in_the_shape() -> None:
    content = CONFIGS["halves"]
    asked = question(content, head_dim=8)
    assert model_of(asked).call(feeds_of(asked, 9))["q_rotated"].shape[-1] == 16


def test_what_the_model_does_with_features_is_a_permutation() -> None:
    model = model_of(question(DEEPSEEK))
    assert model.permutation == (0, 4, 1, 5, 2, 6, 3, 7)
    assert model_of(question(CONFIGS["neighbours"])).permutation == ()


def test_layers_are_asked_one_by_one() -> None:
    content = {**CONFIGS["complex numbers"], "num_hidden_layers": 5}
    layers = layers_of(question(content))
    assert [layer.like for layer in layers] == [0, 0, 0, None, 0]
    assert "layers 3 do not rotate" in model_of(question(content)).note
    with pytest.raises(CannotAsk, match="layer 3 does not rotate"):
        model_of(replace(question(content), layer=3))
    with pytest.raises(CannotAsk, match="has layers 0 to 4, not 5"):
        model_of(replace(question(content), layer=5))


def test_lists_of_other_modules_are_no_layers() -> None:
    """Gemma 3n has lists of projections before its layers."""
    content = {
        **{**SMALL, "model_type": "gemma3n_text", "head_dim": 16, "num_hidden_layers": 5, "num_kv_shared_layers": 0},
        **{"vocab_size_per_layer_input": 50, "hidden_size_per_layer_input": 8, "laurel_rank": 4},
        "layer_types": [*["sliding_attention"] * 4, "full_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "activation_sparsity_pattern": [0.0] * 5,
    }
    reading = read_config(content, "full_attention")
    encoding = build("rope", Spec("dynamic"), **reading.parameters)
    asked = Question(content, "", None, reading, encoding.inputs, encoding.outputs, layer_type="full_attention")
    assert [layer.like for layer in layers_of(asked)] == [0, 0, 0, 0, 4]
    assert error(model_of(asked), asked, feeds_of(asked, 300)) < 1e-3


def test_a_layer_type_chooses_a_layer() -> None:
    content = {
        **{**SMALL, "model_type": "gemma3_text", "head_dim": 16, "rope_local_base_freq": 100.0},
        "layer_types": ["sliding_attention", "full_attention"],
    }
    for layer_type, base in (("sliding_attention", 100.0), ("full_attention", 10000.0)):
        reading = read_config(content, layer_type)
        encoding = build("rope", Spec(), **reading.parameters)
        asked = Question(content, "", None, reading, encoding.inputs, encoding.outputs, layer_type=layer_type)
        assert reading.parameters["rope_theta"] == base
        assert error(model_of(asked), asked, feeds_of(asked, 300)) < 1e-3


def test_sizes_of_cosines_and_sines_are_ours() -> None:
    for layout, width in (("halves", "half"), ("interleaved", "full")):
        kind = "halves" if layout == "halves" else "neighbours"
        asked = question(CONFIGS[kind], output="cos_sin", width=width)
        feeds = {"positions": np.arange(300)[None]}
        assert error(model_of(asked), asked, feeds) < 4 * EPS * 300


REFUSED: list[tuple[Config, str]] = [
    ({**SMALL, "model_type": "nosuch"}, r"transformers \S+ has no model type 'nosuch'$"),
    ({**SMALL, "model_type": "nosuch", "auto_map": {"AutoModel": "x.Y"}}, r"\(auto_map\) is never run$"),
    ({**SMALL, "model_type": ["llama"]}, "no model_type"),
    ({**SMALL, "model_type": "llama", "num_hidden_layers": 2**40}, "num_hidden_layers is 1,099,511,627,776: a model"),
    ({**SMALL, "model_type": "llama", "vocab_size": 2**40}, "vocab_size is 1,099,511,627,776: a model"),
    ({**SMALL, "model_type": "llama", "hidden_size": "wide"}, "LlamaConfig of transformers .* refuses the config: "),
    ({**SMALL, "model_type": "llama", "hidden_size": 66}, "refuses the config: "),
]


@pytest.mark.parametrize(("content", "words"), REFUSED)
def test_what_cannot_be_asked_is_one_line(content: Config, words: str) -> None:
    asked = replace(question(CONFIGS["halves"]), content=content)
    with pytest.raises(CannotAsk, match=words) as caught:
        model_of(asked)
    assert "\n" not in str(caught.value)


class InProcess(Asking):
    """Asks in this process: what the child would answer."""

    def __init__(self, question: Question) -> None:
        self.question = question

    def answers(self, cases: Mapping[str, Feeds]) -> Answers:
        model = model_of(self.question)
        outputs: dict[str, Mapping[str, Array]] = {name: model.call(feeds) for name, feeds in cases.items()}
        words = (model.words, model.library, model.note)
        return Answers(*words, model.amplitude, model.permutation, outputs, model.atol)


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
    assert (bundle / "report.md").read_text(encoding="utf-8").splitlines()[2] == report["model"]
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["model"]["permutation"] == [0, 4, 1, 5, 2, 6, 3, 7]
    verdict = next(v for v in report["verdicts"] if v["check"] == "model")
    assert (verdict["code"], verdict["status"]) == ("PE114", "pass")
    cases = {case["name"]: case for case in manifest["cases"]}
    compared = {c["case"] for c in verdict["comparisons"]}
    near = {name for name, case in cases.items() if not case["refused"] and case["max_position"] < 512}
    assert compared == near != set()


def not_installed(name: str) -> str:
    raise PackageNotFoundError(name)


def test_golden_data_judge_without_the_library(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc.hf.asking.load.version", not_installed)
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
        assert [v.check for v in result.verdicts if v.status == "fail"] == ["model"]
    finally:
        for name, data in original.items():
            (bundle / name).write_bytes(data)


def config_file(folder: Path, content: Config) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


EXPORT = ("--dynamic", "-f", "onnx", "--runtime", "ort-cpu")


def test_a_wrong_reading_is_refused_and_what_agrees_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc_export.exporter.asking.Asking", InProcess)
    path = config_file(tmp_path, DEEPSEEK)
    result = cli("export", "--from-hf", path, "-p", "layout=halves", *EXPORT, "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "PE114 ort-cpu model: against transformers " in result.stdout
    assert "the model agrees with -p layout=interleaved" in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
def test_a_wrong_width_is_refused_with_the_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.exporter.asking.Asking", InProcess)
    config = ModelConfig.of(CONFIGS["halves"])
    result = posenc_export.export(config, to=tmp_path / "out", **ONNX, head_dim=8)
    wrong = [v for v in result.verdicts if v.status == "fail"]
    assert [v.check for v in wrong] == ["model"]
    assert re.search(r"q_rotated of the model is .* x 16 in \S+, not .* x 8$", wrong[0].detail)
    again = posenc_export.validate(result.folder, runtimes=["ort-cpu"])
    assert [v.check for v in again.verdicts if v.status == "fail"] == ["model"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("positions", ["explicit", "implicit"])
def test_a_table_is_held_where_it_is_meant_to_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, positions: str
) -> None:
    monkeypatch.setattr("posenc_export.exporter.asking.Asking", InProcess)
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
def test_both_sides_of_a_switch_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.exporter.asking.Asking", InProcess)
    content = {**LONGROPE, "original_max_position_embeddings": 1000}
    result = posenc_export.export(ModelConfig.of(content), to=tmp_path / "out", **ONNX)
    assert result.passed
    asked = {case.max_position for case in result.manifest.cases if case.model_tolerance is not None}
    assert {999, 1000} <= asked
    assert all(last < 512 or abs(last + 1 - 1000) <= 2 or last + 1 == 2003 for last in asked)


def test_without_the_library_the_first_line_says_so(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc.hf.asking.load.version", not_installed)
    path = config_file(tmp_path, CONFIGS["halves"])
    result = cli("export", "--from-hf", path, *EXPORT, "--require", "model", "-o", str(tmp_path / "out"))
    assert result.exit_code == 3
    line = "read by posenc's table, not held against the model's code: transformers is not installed: "
    assert result.stdout.splitlines()[0] == line + "pip install 'posenc-export[transformers]'"
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert report.splitlines()[2].startswith(line)
    again = cli("validate", str(tmp_path / "out"), "--require", "model", "--runtime", "ort-cpu")
    assert again.exit_code == 3


def test_a_model_is_required_of_configs_alone(cli: Cli, tmp_path: Path) -> None:
    result = cli("export", "rope", "--require", "model", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "--require model is of what a model's config says" in result.stderr


def test_a_child_that_is_killed_is_one_line() -> None:
    asking = Asking(question(CONFIGS["halves"]))
    os.kill(asking.process.pid, signal.SIGKILL)
    with pytest.raises(AskingFailed, match=r"the process that asked the model ended with signal 9: .*") as caught:
        asking.answers({})
    assert "\n" not in str(caught.value)
    assert not asking.folder.exists()


def test_a_child_that_hangs_is_ended() -> None:
    asking = Asking(question(CONFIGS["halves"]), timeout=0.0)
    with pytest.raises(AskingFailed, match="the model gave no answer within 0 s"):
        asking.answers({})
    assert asking.process.returncode == -signal.SIGKILL


@pytest.mark.exhaustive
def test_a_crash_is_a_failed_row_and_never_ends_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: InProcess, cases: Mapping[str, Feeds]) -> Answers:
        raise AskingFailed("the process that asked the model ended with signal 11: no word")

    monkeypatch.setattr(InProcess, "answers", crash)
    monkeypatch.setattr("posenc_export.exporter.asking.Asking", InProcess)
    config = ModelConfig.of(CONFIGS["halves"])
    result = posenc_export.export(config, to=tmp_path / "out", formats=["onnx"], runtimes=["ort-cpu"])
    assert [(v.subject, v.check) for v in result.verdicts if v.status == "fail"] == [("config", "model")]
    assert result.failed
