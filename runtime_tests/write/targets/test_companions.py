"""What goes with a whole model: its tokenizer and configs are copied, listed and replaced with the bundle."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import transformers

import posenc_export
from helpers.shared import Cli
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.runtime_configs import RUNTIME_CONFIGS
from posenc_export.write.targets import Target
from posenc_models.whole.companions import companion_names

TOKENIZER = ("tokenizer.json", "chat_template.jinja", "additional_chat_templates/tools.jinja")


def model_folder(place: Path) -> Path:
    """A folder with files that go with a model, and with some that do not."""
    for name in ("config.json", *TOKENIZER, "model.safetensors", "own.py", "pytorch_model.bin", "tokenizer (1).json"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{{}} {name}")
    (place / "chat_templates").mkdir()
    return place


def companions(folder: Path) -> Mapping[str, Path]:
    return {name: folder / name for name in companion_names(folder)}


def test_neither_weights_nor_code_go_with_a_model(tmp_path: Path) -> None:
    assert set(companions(model_folder(tmp_path))) == {"config.json", *TOKENIZER}


def test_every_tokenizer_of_transformers_finds_its_files(tmp_path: Path) -> None:
    """Each name by which one of transformers' tokenizers looks for a file goes with a model."""
    place = Path(transformers.__file__).parent / "models"
    files = re.compile(r"^VOCAB_FILES_NAMES\b[^{]*{(.*?)}", re.MULTILINE | re.DOTALL)
    names = {
        name
        for path in place.glob("*/tokenization_*.py")
        for found in files.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r':\s*"([^"]+)"', found)
    }
    assert {"vocab.txt", "merges.txt", "spiece.model"} <= names
    for name in names:
        (tmp_path / name).touch()
    assert names == set(companions(tmp_path))


def with_companions(folder: Path) -> Target:
    target = posenc_export.target("sinusoidal", spec=Spec("dynamic", max_len=8), parameters={"d_model": 4})
    return replace(target, companions=companions(folder))


def test_they_are_copied_listed_and_replaced(tmp_path: Path) -> None:
    """A second export replaces them; a file of somebody else beside them, or a change of one, keeps the folder."""
    folder, out = model_folder(tmp_path / "model"), tmp_path / "out"
    options = ExportOptions(("onnx",), validate=False)
    export_target(lambda: with_companions(folder), options, out)
    listed = {file.file for file in Bundle.open(out).manifest.files}
    assert {"config.json", *TOKENIZER} <= listed
    assert all((out / name).read_bytes() == (folder / name).read_bytes() for name in ("config.json", *TOKENIZER))

    (folder / "chat_template.jinja").unlink()
    export_target(lambda: with_companions(folder), options, out)
    assert not (out / "chat_template.jinja").exists()
    (out / "tokenizer.json").write_text("mine")
    with pytest.raises(BadInput, match=r"holds tokenizer\.json, which was changed after posenc-export wrote it"):
        export_target(lambda: with_companions(folder), options, out)
    export_target(lambda: with_companions(folder), replace(options, force=True), out)
    (out / "additional_chat_templates" / "mine.jinja").touch()
    with pytest.raises(BadInput, match=r"mine\.jinja, which posenc-export did not write"):
        export_target(lambda: with_companions(folder), options, out)


# ---- onnxruntime-genai -----------------------------------------------------------------------------------------------

PORTS = ("input_ids: int64[batch, seq] < 32", "attention_mask: int64[batch, past+seq] mask")
CONFIG = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "eos_token_id": 2,
    "max_position_embeddings": 64,
}


def decoder(*shapes: tuple[int, int], **config: object) -> Target:
    """A target that says of itself what one of a decoder does: heads and features of each part of its cache."""
    parts = [f"{layer}.{part}" for layer in range(len(shapes) // 2) for part in ("key", "value")]
    cached = [
        f"past_key_values.{part}: float32[batch, {heads}, past, {width}]"
        for part, (heads, width) in zip(parts, shapes, strict=True)
    ]
    inputs = parse_ports((*PORTS, *cached))
    outputs = (replace(inputs[0], name="logits"), *(replace(inputs[0], name=f"present.{part}") for part in parts))
    target = posenc_export.target("sinusoidal", spec=Spec("dynamic", max_len=8), parameters={"d_model": 4})
    encoding = replace(target.encoding, inputs=inputs, outputs=outputs)
    return replace(target, encoding=encoding, config={**CONFIG, **config})


def genai(target: Target) -> Mapping[str, Any]:
    made: Mapping[str, Any] = json.loads(json.dumps(RUNTIME_CONFIGS["genai"].made(target, False)))
    return made


def test_the_config_of_genai_says_what_the_graph_has(tmp_path: Path) -> None:
    made = genai(decoder((2, 8), (2, 8), (2, 8), (2, 8)))
    model = made["model"]
    assert {key: model[key] for key in ("type", "vocab_size", "eos_token_id", "context_length")} == {
        **{"type": "decoder", "vocab_size": 32},
        **{"eos_token_id": 2, "context_length": 64},
    }
    inside = model["decoder"]
    sizes = {name: inside[name] for name in inside if isinstance(inside[name], int)}
    assert sizes == {
        **{"head_size": 8, "hidden_size": 16, "num_attention_heads": 4},
        **{"num_hidden_layers": 2, "num_key_value_heads": 2},
    }
    assert inside["inputs"]["past_key_names"] == "past_key_values.%d.key"
    assert inside["outputs"]["present_value_names"] == "present.%d.value"
    assert {"input_ids", "attention_mask"} <= inside["inputs"].keys()
    assert "position_ids" not in inside["inputs"]


def test_what_generation_ends_at_comes_from_its_own_config(tmp_path: Path) -> None:
    """A chat model ends at more tokens than its config.json says; what nothing says is left out."""
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 7], "pad_token_id": null}')
    target = replace(decoder((2, 8), (2, 8), bos_token_id=None), companions=companions(tmp_path))
    assert genai(target)["model"]["eos_token_id"] == [2, 7]
    assert not {"bos_token_id", "pad_token_id"} & genai(target)["model"].keys()


def test_a_target_without_a_cache_of_one_size_has_no_such_config(cli: Cli) -> None:
    refuses = RUNTIME_CONFIGS["genai"].refuses
    assert refuses(decoder((2, 12), (2, 8))) == (
        "onnxruntime-genai takes one size of heads for all keys and values, and these have 2 x 8 and 2 x 12"
    )
    for words, text in (
        (("--dynamic", "-f", "onnx"), "not for sinusoidal: onnxruntime-genai runs text-generation with a cache"),
        (("--dynamic", "-f", "torchscript"), "--runtime-config genai is for ONNX files: give -f onnx with it"),
    ):
        result = cli("export", "--runtime-config", "genai", *words)
        assert (result.exit_code, text in result.output) == (2, True), result.output
