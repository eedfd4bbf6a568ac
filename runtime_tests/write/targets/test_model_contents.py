"""A model's folder is a stranger's: one look names every file that is read or copied, before anything is loaded."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

from helpers.model_folders import CONFIG, folder_of, refused_without_torch, saved
from helpers.shared import Cli, Once
from posenc_export.common.errors import BadInput
from posenc_models import ModelFolder
from posenc_models.whole import look
from posenc_models.whole.contents import HARMLESS_SIZE


def at(folder: Path, name: str, text: str = "{}") -> None:
    (folder / name).write_text(text)


def link(folder: Path, name: str, to: str) -> None:
    (folder / name).symlink_to(to)


def sparse(folder: Path, name: str, size: int) -> None:
    with (folder / name).open("wb") as file:
        file.truncate(size)  # takes no room on the disk


def claims(folder: Path, **said: object) -> None:
    at(folder, "config.json", json.dumps({**CONFIG, **said}))


def header(folder: Path, content: object, size: int = 0) -> None:
    head = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(size))


def only(folder: Path, name: str) -> None:
    (folder / "model.safetensors").rename(folder / name)


def adapter(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    at(folder, "adapter_config.json", '{"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.1-8B"}')


def moved_out(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "moved")
    link(folder, name, "../moved")


def part_out(folder: Path) -> None:
    only(folder, "w.safetensors")
    moved_out(folder, "w.safetensors")
    at(folder, "model.safetensors.index.json", '{"weight_map": {"lm_head.weight": "w.safetensors"}}')


def large_index(folder: Path) -> None:
    only(folder, "w.safetensors")
    sparse(folder, "model.safetensors.index.json", 1 << 25)


def pipe_of_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
HOSTILE: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "template out": (
        lambda f: link(f, "chat_template.jinja", "/etc/passwd"),
        r"is a link out of .*, to /etc/passwd: co",
    ),
    "tokenizer out": (
        lambda f: link(f, "tokenizer.json", "../secret"),
        r"tokenizer\.json is a link out of the model's",
    ),
    "link in a circle": (
        lambda f: link(f, "vocab.json", "vocab.json"),
        r"vocab\.json cannot be read: .*(circle|levels)",
    ),
    "link to nothing": (lambda f: link(f, "merges.txt", "nothing"), r"merges\.txt cannot be read: No such file"),
    "config out": (lambda f: moved_out(f, "config.json"), r"config\.json is a link out of the model's folder"),
    "weights out": (lambda f: moved_out(f, "model.safetensors"), r"model\.safetensors is a link out of the model's fo"),
    "part of an index out": (part_out, r"w\.safetensors is a link out of the model's folder"),
    "large generation config": (
        lambda f: sparse(f, "generation_config.json", 6 << 30),
        r"has 6,442,450,944 bytes: at m",
    ),
    "large tokenizer": (
        lambda f: sparse(f, "tokenizer.json", 40 << 30),
        r"tokenizer\.json has 42,949,672,960 bytes: at",
    ),
    "large index": (large_index, r"index\.json has 33,554,432 bytes: at most 16,777,216 are read"),
    "large config": (lambda f: sparse(f, "config.json", 1 << 25), r"config\.json has 33,554,432 bytes"),
    "pipe": (lambda f: os.mkfifo(f / "tokenizer.json"), r"tokenizer\.json is no plain file"),
    "pipe of weights": (pipe_of_weights, r"model\.safetensors is no plain file"),
    "device": (lambda f: link(f, "vocab.txt", "/dev/zero"), r"vocab\.txt is a link out"),
    "many layers": (
        lambda f: claims(f, num_hidden_layers=10**9),
        r"says num_hidden_layers = 1,000,000,000, and they ho",
    ),
    "many words": (
        lambda f: claims(f, vocab_size=10**12),
        r"says vocab_size = 1,000,000,000,000, and they hold 4 numb",
    ),
    "a float of layers": (lambda f: claims(f, num_hidden_layers=1e300), r"says num_hidden_layers = "),
    "a wide tower": (
        lambda f: claims(f, text_config={"hidden_size": 10**10}),
        r"says text_config\.hidden_size = 10,000,000,000",
    ),
    "long header": (lambda f: header(f, b" " * (2**24 + 1)), r"has a header of 16,777,217 bytes: at most 16,777,216"),
    "header beyond the file": (
        lambda f: (f / "model.safetensors").write_bytes((2**40).to_bytes(8, "little")),
        r"it is cut off, or no safetensors",
    ),
    "tensor beyond the file": (lambda f: header(f, {"w": TENSOR}, 15), r"\(w does not fit into it\)"),
    "tensor larger than its bytes": (
        lambda f: header(f, {"w": {**TENSOR, "shape": [10**9, 10**9]}}, 16),
        r"\(w does not fit into it\)",
    ),
    "negative shape": (
        lambda f: header(f, {"w": {**TENSOR, "shape": [-2, -2]}}, 16),
        r"\(its header says no shape and",
    ),
    "tensor without a shape": (lambda f: header(f, {"w": 3}, 16), r"\(its header says no shape and place of w\)"),
    "adapter alone": (adapter, r"holds an adapter, and no model: give that of meta-llama/Llama-3\.1-8B with --model"),
    "gguf alone": (
        lambda f: only(f, "m.Q4_K_M.gguf"),
        r"has m\.Q4_K_M\.gguf, and no model\.safetensors: transformers r",
    ),
    "consolidated alone": (
        lambda f: only(f, "consolidated.safetensors"),
        r"has consolidated\.safetensors, .* their makers",
    ),
    "variant": (
        lambda f: only(f, "model.fp16.safetensors"),
        r"rename it to model\.safetensors, or let .*variant='fp16'",
    ),
    "TensorFlow": (lambda f: only(f, "tf_model.h5"), r"has tf_model\.h5, and no .*from_tf=True"),
    "another name": (
        lambda f: only(f, "weights.safetensors"),
        r"rename it to model\.safetensors if its names are those",
    ),
    "modules that are no JSON": (lambda f: at(f, "modules.json", "{"), r"modules\.json cannot be read"),
    **{
        method: (
            lambda f, method=method: claims(f, quantization_config={"quant_method": method}),  # type: ignore[misc]
            rf"its weights are quantized by {method} \(quantization_config\), which is not exported: take the folder w",
        )
        for method in ("gptq", "awq", "fp8", "bitsandbytes", "compressed-tensors")
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_folder_that_is_not_read_is_said_in_a_line(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    (tmp_path / "secret").write_text('{"token": "secret"}')
    spoil, text = HOSTILE[name]
    spoil(folder)
    with pytest.raises(ValueError, match=text) as caught:
        ModelFolder.load(folder)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value).replace(str(tmp_path / "secret"), "")


def test_it_is_said_before_torch_loads(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    sparse(folder, "tokenizer.json", 40 << 30)
    assert "tokenizer.json has 42,949,672,960 bytes" in refused_without_torch("--model", str(folder))


def test_links_of_the_download_cache_are_followed(once: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """snapshots/REVISION/file leads to blobs/DIGEST; a name of the Hub is found there, and never downloaded."""
    revision, cached = "0a" * 20, tmp_path / "hub" / "models--owner--llama"
    snapshot = cached / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (cached / "blobs").mkdir()
    for path in saved(once, "llama").iterdir():
        shutil.copyfile(path, cached / "blobs" / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    at(cached / "blobs", "digest")
    link(snapshot, "tokenizer.json", "../../blobs/digest")
    assert look(snapshot).companions["tokenizer.json"].read_text() == "{}"

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(
        ValueError, match=r"owner/llama is no folder, and no model of that name .* `hf download owner/ll"
    ):
        ModelFolder.load("owner/llama")
    (cached / "refs").mkdir()
    at(cached / "refs", "main", f"{revision}\n")
    assert ModelFolder.load("owner/llama").path == snapshot
    at(cached / "refs", "main", "../../../etc")
    with pytest.raises(ValueError, match="owner/llama is no folder"):
        ModelFolder.load("owner/llama")
    link(snapshot, "vocab.json", "/etc/passwd")
    with pytest.raises(ValueError, match=r"vocab\.json is a link out"):
        look(snapshot)


def test_transformers_is_given_just_these_files(once: Once, tmp_path: Path) -> None:
    """Nothing that the config names is code, an adapter or a kernel of somebody's."""
    folder = tmp_path / "model"
    shutil.copytree(saved(once, "llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    foreign = {"_attn_implementation": "owner/kernels", "auto_map": {}, "transformers_weights": "own.bin"}
    at(folder, "config.json", json.dumps({**config, **foreign, "nested": [{"attn_implementation": "a/b", "kept": 1}]}))
    at(folder, "adapter_config.json", '{"peft_type": "LORA", "base_model_name_or_path": "a/b"}')
    at(folder, "own.py", "raise SystemExit")
    contents = look(folder)
    with contents.private_folder() as place:
        assert {path.name for path in place.iterdir()} == {"config.json", "generation_config.json", "model.safetensors"}
        said = json.loads((place / "config.json").read_text())
    assert not set(foreign) & set(said)
    assert said["nested"] == [{"kept": 1}]
    assert not place.exists()
    notes = ModelFolder.load(folder).build().notes
    assert "the adapter beside the weights is not in the file: --adapter merges it" in notes


def test_a_config_of_a_larger_model_is_not_built(once: Once, tmp_path: Path) -> None:
    """What its weights lack would be drawn at random, in as much memory as that takes."""
    folder = tmp_path / "model"
    shutil.copytree(saved(once, "llama"), folder)
    config = json.loads((folder / "config.json").read_text())
    at(folder, "config.json", json.dumps({**config, "vocab_size": HARMLESS_SIZE, "num_hidden_layers": 1000}))
    with pytest.raises(ValueError, match=r"config\.json is that of a model of [\d,]+ numbers, and the weights hold"):
        ModelFolder.load(folder).build()


# ---- weights ---------------------------------------------------------------------------------------------------------


def spoiled(once: Once, place: Path, kind: str, weights: Mapping[str, Any]) -> Path:
    """A model's folder with weights beside its own."""
    shutil.copytree(saved(once, kind), place)
    path = place / "model.safetensors"
    save_file({**load_file(path), **weights}, path, metadata={"format": "pt"})
    return place


LAYER = "model.layers.0.self_attn"


@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{LAYER}.{name}"
            for name in ("q_proj.bias", "q_norm.weight", "q_proj.weight_scale_inv", "q_proj.lora_A.weight")
        ),
        *("lm_head.bias", "model.layers.7.mlp.up_proj.weight"),
    ],
)
def test_weights_that_nothing_reads_are_refused(once: Once, tmp_path: Path, name: str) -> None:
    folder = spoiled(once, tmp_path / "model", "llama", {name: np.ones(3, np.float32)})
    with pytest.raises(
        ValueError, match=rf"nothing in LlamaForCausalLM reads {re.escape(name)}; --allow-unused-weights"
    ):
        ModelFolder.load(folder).build()
    notes = ModelFolder.load(folder, allow_unused=True).build().notes
    assert f"weights that LlamaForCausalLM does not read are not in the file: {name}" in notes


def test_weights_of_another_head_are_said(once: Once, tmp_path: Path) -> None:
    """BERT's own folders bring a pooler and a head for pairs of sentences beside that for masked words."""
    more = ("cls.seq_relationship.weight", "bert.pooler.dense.weight")
    folder = spoiled(once, tmp_path / "model", "bert", {name: np.ones((2, 16), np.float32) for name in more})
    notes = ModelFolder.load(folder).build().notes
    expected = "weights that BertForMaskedLM does not read are not in the file: bert.pooler.dense.weight, cls.seq_rel"
    assert [note for note in notes if note.startswith(expected)]


@pytest.mark.parametrize("is_sharded", [False, True])
def test_pickled_weights_are_read_without_running_code(once: Once, tmp_path: Path, is_sharded: bool) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved(once, "llama"), folder)
    expected = ModelFolder.load(folder).build().module.state_dict()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    names = sorted(model.state_dict())
    parts = {f"pytorch_model-0000{part}-of-00002.bin": names[part - 1 :: 2] for part in (1, 2)}
    if is_sharded:
        index = {name: file for file, inside in parts.items() for name in inside}
        at(folder, "pytorch_model.bin.index.json", json.dumps({"metadata": {}, "weight_map": index}))
    for file, inside in (parts if is_sharded else {"pytorch_model.bin": names}).items():
        torch.save({name: model.state_dict()[name] for name in inside}, folder / file)
    state = ModelFolder.load(folder).build().module.state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)

    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    torch.save({"lm_head.weight": Code()}, folder / next(iter(parts)) if is_sharded else folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="transformers cannot load"):
        ModelFolder.load(folder).build()
    assert not (tmp_path / "ran").exists()


def test_a_class_that_is_half_of_a_model_is_the_one_that_is_named(tmp_path: Path) -> None:
    """T5's encoder is a model of its own; its config is that of both halves."""
    config = transformers.T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)
    transformers.T5EncoderModel(config).save_pretrained(tmp_path)
    folder = ModelFolder.load(tmp_path)
    whole = folder.build()
    assert (folder.task.name, whole.outputs) == ("feature-extraction", ("last_hidden_state",))
    assert [text.partition(":")[0] for text in whole.inputs] == ["input_ids", "attention_mask"]


# ---- adapters --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lora(once: Once, tmp_path: Path) -> Path:
    """The folder of a LoRA of the small Llama, with numbers that change what it says."""
    import peft

    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_pretrained(saved(once, "llama"))
    settings = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(model, settings).save_pretrained(str(tmp_path / "lora"))
    return tmp_path / "lora"


def test_an_adapter_is_merged_as_peft_merges_it(once: Once, tmp_path: Path, lora: Path) -> None:
    import peft

    base = transformers.AutoModelForCausalLM.from_pretrained(saved(once, "llama"))
    expected = peft.PeftModel.from_pretrained(base, lora).merge_and_unload().state_dict()
    whole = ModelFolder.load(saved(once, "llama"), adapter=lora).build()
    state = whole.module.model.state_dict()  # type: ignore[union-attr]
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    assert "the adapter of lora is merged into the weights: 8 tensors" in whole.notes
    plain: Any = ModelFolder.load(saved(once, "llama")).build().module
    assert not torch.equal(plain.model.state_dict()[f"{LAYER}.q_proj.weight"], expected[f"{LAYER}.q_proj.weight"])


def test_an_adapter_of_another_model_is_refused(once: Once, lora: Path, tmp_path: Path) -> None:
    for kind in ("gpt2", "bloom", "qwen2"):
        with pytest.raises(ValueError, match=r"lora does not fit the model: is it an adapter of this one\?"):
            ModelFolder.load(saved(once, kind), adapter=lora).build()
    said = json.loads((lora / "adapter_config.json").read_text())
    at(lora, "adapter_config.json", json.dumps({**said, "peft_type": "PREFIX_TUNING"}))
    with pytest.raises(
        ValueError, match=r"an adapter of peft_type PREFIX_TUNING has no weights to merge: expected LORA"
    ):
        ModelFolder.load(saved(once, "llama"), adapter=lora)
    with pytest.raises(ValueError, match=r"has no adapter_config\.json: expected the folder of an adapter"):
        ModelFolder.load(saved(once, "llama"), adapter=tmp_path)


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "text"),
    [
        ("model", r"model is what this command reads: give another with -o, as model/onnx"),
        ("alias/model", r"alias/model is what this command reads"),
        ("above", r"above holds .*, which this command reads"),
        (
            "model/tokens",
            r"model/tokens lies in model, which this command reads, and holds mine, which posenc-export did",
        ),
    ],
)
def test_no_place_is_what_the_command_reads(once: Once, cli: Cli, tmp_path: Path, to: str, text: str) -> None:
    """--force removed the only weights of the model that was being exported."""
    above = tmp_path / "above"
    shutil.copytree(saved(once, "llama"), above / "model")
    (above / "model" / "tokens").mkdir()
    at(above / "model" / "tokens", "mine")
    (tmp_path / "model").symlink_to("above/model")
    (tmp_path / "alias").symlink_to("above")
    before = {path: path.read_bytes() for path in above.rglob("*") if path.is_file()}
    result = cli("export", "--model", "model", "-o", to, "--force", "--no-validate")
    assert result.exit_code == 2
    assert re.search(text, result.output), result.output
    assert {path: path.read_bytes() for path in above.rglob("*") if path.is_file()} == before


def test_a_failed_bundle_does_not_go_to_what_is_read_either(once: Once, cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(saved(once, "llama"), tmp_path / "out-failed")
    result = cli("export", "--model", "out-failed", "-o", "out", "--force", "--no-validate")
    assert (result.exit_code, "out-failed is what this command reads" in result.output) == (2, True)


def test_a_config_and_tables_are_not_replaced(cli: Cli, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "config", {**CONFIG, "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4})
    np.save(tmp_path / "config" / "table.npy", np.zeros((8, 4), np.float32))
    for words in (["--from-hf", str(folder)], ["learned", "-p", f"weights={folder / 'table.npy'}"]):
        result = cli("export", *words, "-o", "config", "--force", "--no-validate")
        assert (result.exit_code, "which this command reads" in result.output) == (2, True), result.output
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "table.npy"]


def test_the_package_of_a_module_is_not_replaced(cli: Cli, tmp_path: Path) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("import torch\nmake = torch.nn.Identity\n")
    result = cli("export", "mine:make", "-i", "x: float32[b, 4]", "-o", "mine", "--force")
    assert (result.exit_code, "mine is what this command reads" in result.output) == (2, True), result.output
    assert (package / "__init__.py").is_file()


def test_a_bundle_beside_the_weights_touches_nothing_else(once: Once, cli: Cli, tmp_path: Path) -> None:
    """optimum and transformers.js keep files there, too; a second export replaces the first."""
    shutil.copytree(saved(once, "llama"), tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    for _ in range(2):
        words = ("-f", "onnx", "--no-validate", "--proof", "one")
        result = cli("export", "--model", "model", "-o", "model/onnx", *words)
        assert result.exit_code == 0, result.output
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir() if path.is_file()} == before
    assert (tmp_path / "model" / "onnx" / "model.onnx").is_file()


def test_a_caller_from_python_is_refused_as_well(once: Once, tmp_path: Path) -> None:
    import posenc_export

    shutil.copytree(saved(once, "llama"), tmp_path / "model")
    with pytest.raises(BadInput, match="model is what this command reads"):
        posenc_export.export(ModelFolder.load(tmp_path / "model"), to=tmp_path / "model", force=True)
