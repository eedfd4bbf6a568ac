"""Whole models of each task in optimum's class and in that of transformers.js: run by hand, not by pytest.

python task_loaders.py --python PYTHON --npm DIR           exports each model, and prints what came of it
python task_loaders.py --python PYTHON --npm DIR --write   puts the table into docs/reference/measured/models.md

PYTHON and DIR are as for loaders.py; with sentence-transformers in PYTHON, its `backend="onnx"` is tried, too. A class
gets the inputs of a recorded call, and must give what eager gave there; or it writes, and must write eager's tokens.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf.task_models import save_task_model
from helpers.made_parts import put_part
from helpers.model_folders import MODELS
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.common.markdown import table
from posenc_models import ModelFolder
from scripts.loaders import PAGE, PROGRAMS, Loaders

LARGEST_ERROR = 1e-4
"""Of the largest number of an output, in float32."""
TOKENS = 20
HEAD = ("task", "class", "optimum", "transformers.js")


class Example(NamedTuple):
    """A model of a task, and the classes of others that run it; "" where there is none.

    Args:
        model: the class of transformers, or the type of a small model in helpers.model_folders.
        optimum: the class of optimum.
        js: that of transformers.js.
    """

    model: str
    optimum: str = ""
    js: str = ""


EXAMPLES = (
    Example("BertModel", "ORTModelForFeatureExtraction", "AutoModel"),
    Example("BertForMaskedLM", "ORTModelForMaskedLM", "AutoModelForMaskedLM"),
    Example("BertForSequenceClassification", "ORTModelForSequenceClassification", "AutoModelForSequenceClassification"),
    Example("BertForTokenClassification", "ORTModelForTokenClassification", "AutoModelForTokenClassification"),
    Example("BertForQuestionAnswering", "ORTModelForQuestionAnswering", "AutoModelForQuestionAnswering"),
    Example("BertForMultipleChoice", "ORTModelForMultipleChoice"),
    Example("ViTForImageClassification", "ORTModelForImageClassification", "AutoModelForImageClassification"),
    Example("ViTModel", "ORTModelForFeatureExtraction", "AutoModel"),
    Example("SegformerForSemanticSegmentation", "ORTModelForSemanticSegmentation", "AutoModelForSemanticSegmentation"),
    Example("YolosForObjectDetection", "", "AutoModelForObjectDetection"),
    Example("DepthAnythingForDepthEstimation", "", "AutoModelForDepthEstimation"),
    Example("Swin2SRForImageSuperResolution", "ORTModelForImageToImage", "AutoModelForImageToImage"),
    Example("clip", "ORTModelForZeroShotImageClassification", "AutoModel"),
    Example("HubertForSequenceClassification", "ORTModelForAudioClassification", "AutoModelForAudioClassification"),
    Example(
        "WavLMForAudioFrameClassification",
        "ORTModelForAudioFrameClassification",
        "AutoModelForAudioFrameClassification",
    ),
    Example("WavLMForXVector", "ORTModelForAudioXVector", "AutoModelForXVector"),
    Example("wav2vec2", "ORTModelForCTC", "AutoModelForCTC"),
    Example("t5", "ORTModelForSeq2SeqLM", "AutoModelForSeq2SeqLM"),
    Example("bart", "ORTModelForSeq2SeqLM", "AutoModelForSeq2SeqLM"),
    Example("whisper", "ORTModelForSpeechSeq2Seq", "AutoModelForSpeechSeq2Seq"),
    Example("trocr", "ORTModelForVision2Seq", "AutoModelForVision2Seq"),
)


def save_model(name: str, folder: Path) -> None:
    """Write the folder of a small model."""
    if name == "trocr":
        save_reader(folder)
    elif name in MODELS:
        MODELS[name].save(folder)
    else:
        save_task_model(name, folder)


def save_reader(folder: Path) -> None:
    """Write the folder of an encoder of images and a decoder of text."""
    torch.manual_seed(0)
    encoder = transformers.ViTConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4
    )
    decoder = transformers.TrOCRConfig(
        vocab_size=32,
        d_model=16,
        decoder_layers=2,
        decoder_attention_heads=2,
        decoder_ffn_dim=24,
        cross_attention_hidden_size=16,
        max_position_embeddings=64,
        use_learned_position_embeddings=True,
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    model = transformers.VisionEncoderDecoderModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)


def recorded(bundle: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return what goes in, and what eager gave, in the largest call of a bundle's golden data that is there whole."""
    calls = [
        golden
        for golden in Bundle.open(bundle).golden()
        if not (golden.case.refused or golden.case.hard or golden.rows or golden.masked)
    ]
    call = max(calls, key=lambda each: sum(array.size for array in each.feeds.values()))
    return dict(call.feeds), dict(call.eager)


def written(folder: Path, auto: str) -> tuple[dict[str, Array], list[list[int]]]:
    """Return what goes into a model that writes, and the tokens that eager writes."""
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    model.generation_config.eos_token_id = None
    draw = torch.Generator().manual_seed(0)
    name = model.main_input_name
    if name == "input_ids":
        ids = torch.randint(3, 32, (2, 7), generator=draw)
        given = {name: ids, "attention_mask": torch.ones_like(ids)}
    else:
        config = model.config
        # transformers.js writes one text of a sound
        sound = (1, getattr(config, "num_mel_bins", 0), 2 * getattr(config, "max_source_positions", 0))
        shape = (2, 3, 16, 16) if name == "pixel_values" else sound
        given = {name: torch.randn(shape, generator=draw)}
    with torch.no_grad():
        tokens = model.generate(**given, max_new_tokens=TOKENS, do_sample=False, num_beams=1)
    return {key: value.numpy() for key, value in given.items()}, tokens.tolist()


def asked(command: Sequence[object], **variables: str) -> dict[str, Any] | str:
    """Return what a program answers, or why it does not."""
    env = {**{name: text for name, text in os.environ.items() if name != "PYTHONPATH"}, **variables}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if "rror" in line]
        return f"fails: {(lines or [f'with status {done.returncode}'])[-1][:200]}"
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def compared(answer: Mapping[str, Any] | str, expected: Mapping[str, Array]) -> str:
    """Return how far an answer is from eager, by the outputs that it has."""
    if isinstance(answer, str):
        return answer
    if "tokens" in expected:
        rows = [list(row)[-TOKENS:] for row in answer["tokens"]]
        return "equal" if rows == [row[-TOKENS:] for row in expected["tokens"].tolist()] else "other tokens"
    common = [name for name in expected if name in answer]
    if not common:
        return f"has none of {', '.join(expected)}"
    errors = {name: _error(np.array(answer[name]), expected[name]) for name in common}
    worst = max(errors, key=lambda name: errors[name])
    return f"equal ({errors[worst]:.1e})" if errors[worst] < LARGEST_ERROR else f"{worst} is {errors[worst]:.1e} off"


def _error(actual: Array, expected: Array) -> float:
    if actual.shape != expected.shape:
        return float("inf")
    return float(np.abs(actual - expected).max() / (np.abs(expected).max() or 1.0))


def row(example: Example, loaders: Loaders, folder: Path) -> tuple[str, ...]:
    """Return the row of a model: what comes of it in the classes of others."""
    save_model(example.model, folder / "model")
    loaded = ModelFolder.load(folder / "model")
    bundle = folder / "bundle"
    words = ["export", "--model", folder / "model", "--no-validate", "-q", "-f", "onnx", "-o", bundle]
    subprocess.run([sys.executable, "-m", "posenc_export", *map(str, words)], check=True)
    count, expected = 0, {}
    if loaded.task.encoder:
        given, tokens = written(folder / "model", loaded.task.auto)
        count, expected = TOKENS, {"tokens": np.array(tokens)}
    else:
        given, expected = recorded(bundle)
    np.savez(folder / "inputs.npz", **given)  # type: ignore[arg-type]
    as_json = {
        name: {"type": each.dtype.name, "dims": each.shape, "data": each.ravel().tolist()}
        for name, each in given.items()
    }
    (folder / "inputs.json").write_text(json.dumps(as_json), encoding="utf-8")
    optimum = [loaders.python, PROGRAMS / "task_with_optimum.py", bundle, example.optimum, folder / "inputs.npz", count]
    js = ["node", PROGRAMS / "task_with_transformers_js.mjs", bundle, example.js, folder / "inputs.json", count]
    return (
        loaded.task.name,
        example.model,
        compared(asked(optimum), expected) if example.optimum else "has no class",
        compared(asked(js, POSENC_NPM=str(loaders.npm)), expected) if example.js else "has no class",
    )


def main() -> None:
    """Export, load, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="of the table's second column (default: all)")
    parser.add_argument("--python", type=Path, required=True, help="a Python with optimum-onnx")
    parser.add_argument("--npm", type=Path, required=True, help="a folder with transformers.js")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    loaders = Loaders(options.python, options.npm.resolve())
    rows = []
    for example in EXAMPLES:
        if not options.models or example.model in options.models:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(row(example, loaders, Path(folder)))
            print(*rows[-1], sep=" | ", flush=True)
    if options.write:
        today = datetime.date.today().isoformat()
        put_part(PAGE, "task-loaders", f"{today}: {loaders.versions(['optimum-onnx'])}.\n\n{table(HEAD, rows)}\n")


if __name__ == "__main__":
    main()
