"""Small models of any class of transformers, and what `--model` says to the folder of one."""

import importlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.hf.surveyed import LACKS, apart
from posenc_models.config.rope.defaults import DEFAULTS
from posenc_models.whole.auto_classes import types_of
from posenc_models.whole.contents import PROCESSOR

SECONDS = 40
MEMORY = 4 * 2**30
"""Bytes that a class may take beyond those of the libraries."""
NARROWER = (8, 4)
"""By what widths are divided: the first at which the class has a model that is taken."""
LAYERS, WORDS, EXPERTS = 2, 64, 8
FOLLOWING = (
    *("architectures", "transformers_version", "out_features", "out_indices", "stage_names", "per_layer_config"),
    *("attention_layers", "quantization_config", "hybrid_layer_ids", "stage_out_channels"),
)
"""Keys that are left out: they follow from others, or say how weights are stored."""
DEPTHS = ("layer", "depth", "block")
NO_DEPTHS = (
    *("size", "dim", "interval", "type", "feat_extract", "period", "offset", "freq", "every", "step", "ratio"),
    *("idx", "index", "multiplier", "encoder_blocks"),
)
SHARED, ASSISTANT = {"num_kv_shared_layers": 0}, {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 0}
FITTING: Mapping[str, Mapping[str, Any]] = {
    "bit": {"num_groups": 4},
    "cvt": {"depth": [1, 2, 3]},
    **{kind: {"width_coefficient": 0.25, "image_size": 64} for kind in ("efficientnet", "align_vision_model")},
    "efficientloftr": {"hidden_size": 32, "out_features": [8, 8, 16, 32], "stage_num_blocks": [1, 1, 1, 1]},
    "emu3": {"vocabulary_map": {"<|extra_200|>": 40, "<image>": 41, "<|visual token 000000|>": 42}},
    "blip-2": {"image_token_index": 41},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"num_experts_per_tok": 2},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2},
    **dict.fromkeys(("gemma3n_text", "gemma4_unified_text"), SHARED),
    "gemma4_assistant": {"text_config": {**ASSISTANT, "vocab_size_per_layer_input": 0}},
    "gemma4_unified_assistant": {"text_config": ASSISTANT},
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "spatial_target_layers": [1], "downsample_rate": "1/2"},
    "molmo2": {"adapter_config": {"vision_feature_layer": [0, 1]}},
    "vibevoice_asr": {"acoustic_tokenizer_chunk_size": 3200},
    **{kind: {"vocab_size": WORDS} for kind in ("wav2vec2-bert", "wav2vec2-conformer")},
    "step3p5": {"sliding_window": 16},
    "llama4_vision_model": {"hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512},
    "mlcd_vision_model": {"hidden_size": 128, "num_attention_heads": 2},
    "textnet": {"stem_out_channels": 8},
    "inkling2": {"quantization_config": None},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"], "num_hidden_layers": 2},
    "hrm_text": {"num_hidden_layers": 16},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "num_hidden_layers": 4},
}
"""What a config needs where its numbers fit each other, or where a small one would lose its layers of one kind."""
WIDTHS = (
    *("hidden", "dim", "size", "d_model", "d_ff", "d_kv", "ffn", "n_embd", "n_inner", "width", "d_inner"),
    *("rank", "inner", "section", "d_embed", "d_head", "d_ssm", "planes", "feature"),
)
NO_WIDTHS = (
    *(
        "vocab",
        "image",
        "patch",
        "kernel",
        "window",
        "batch",
        "group",
        "pooling",
        "pool_",
        "chunk",
        "block_size",
        "grid",
        "crop",
    ),
    *("resolution", "type_", "max_", "stride", "scale", "frame", "sampling", "temporal", "spatial", "bucket", "clip"),
    *(
        "context",
        "prediction",
        "codebook_size",
        "num_mel",
        "position",
        "memory",
        "layer",
        "in_channels",
        "lags",
        "unit",
    ),
)
"""Parts of keys, by which it is known what a number of a config counts."""


PIXELS = 64
"""The side of an image, where a config says none."""


@dataclass(frozen=True)
class Answer:
    """What comes of a class.

    Args:
        title: the class.
        kind: its model type.
        task: the task it is taken for; "" where it is refused.
        line: the refusal; "" where it is taken.
        stage: where it ended: made, load, build, call or taken.
    """

    title: str
    kind: str
    task: str = ""
    line: str = ""
    stage: str = "taken"


def classes() -> list[str]:
    """Return the classes that the tables of transformers' auto classes name, each once."""
    auto: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    tables = [name for name in dir(auto) if name.startswith("MODEL_") and name.endswith("MAPPING_NAMES")]
    named: dict[str, None] = {}
    for table in sorted(tables):
        for value in getattr(auto, table).values():
            named |= dict.fromkeys([value] if isinstance(value, str) else value)
    return sorted(named)


def answers(wanted: Sequence[str]) -> Iterator[Answer]:
    """Yield what comes of each class, in a process of its own: a copy of this one, which has the libraries."""
    import torch
    from transformers.utils import logging

    for module in (
        "posenc_export.write.targets.outputs",
        "posenc_models.whole.modules",
        "posenc_models.replacing.replace",
    ):
        importlib.import_module(module)
    types_of("AutoModel")

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for name in wanted:
        print(name, flush=True)
        kind = kind_of(name)
        found = apart(answer_of, name, SECONDS)
        yield Answer(name, kind, line=found, stage="made") if isinstance(found, str) else found


@dataclass(frozen=True)
class Exported:
    """What comes of the export of a small model of a class.

    Args:
        title: the class.
        status: the exit status of `posenc export`; -1 where it gave no answer in time.
        line: what it said, where that is not 0.
        seconds: how long it took.
    """

    title: str
    status: int
    line: str
    seconds: float


def export_of(name: str, words: Sequence[str], seconds: float) -> Exported:
    """Export a small model of a class that is taken, and prove it, by the command with some more words."""
    with tempfile.TemporaryDirectory() as place:
        folder, begin = Path(place, "model"), time.monotonic()
        for divisor in NARROWER:  # as it was asked about
            shutil.rmtree(folder, ignore_errors=True)
            try:
                if answer(name, save(name, divisor, folder), folder).stage == "taken":
                    break
            except Exception:  # numbers of this width do not fit each other
                continue
        else:
            return Exported(name, -1, "no small model of it is taken now", 0.0)
        command = [sys.executable, "-m", "posenc_export", "export", "--model", str(folder), "-o", f"{place}/out"]
        try:
            done = subprocess.run(
                [*command, *words], capture_output=True, text=True, check=False, timeout=seconds, cwd=place
            )
        except subprocess.TimeoutExpired:
            return Exported(name, -1, f"no answer within {seconds:g} s", seconds)
        said = [line for line in (done.stdout + done.stderr).replace(place, "FOLDER").splitlines() if line.strip()]
        errors = [line for line in said if "Error" in line or line.lstrip().startswith("PE")] or said
        line = errors[0].strip() if errors else ""
        return Exported(name, done.returncode, line if done.returncode else "", time.monotonic() - begin)


def kind_of(name: str) -> str:
    """Return the model type of a class; "" where its code does not load, as for want of a library. It is read here."""
    import transformers

    try:
        return str(getattr(transformers, name).config_class.model_type)
    except (AttributeError, ImportError):
        return ""


def answer_of(name: str) -> Answer:
    """Return what comes of a class: of the narrowest model that is taken, or else of the first that there is."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    # the config of a decoder of two stacks is another once the model is made: is_encoder_decoder is false
    if not name.endswith("ForCausalLM") and (refused := refused_by_its_config(name)):
        return refused
    answers: list[Answer] = []
    for divisor in NARROWER:
        with tempfile.TemporaryDirectory() as place:
            try:
                kind = save(name, divisor, Path(place))
            except Exception as error:  # whatever a class makes of numbers that are too small
                answers.append(Answer(name, "", line=f"{type(error).__name__}: {_first(error)}", stage="made"))
                continue
            answers.append(answer(name, kind, Path(place)))
        if answers[-1].stage in ("load", "taken") or "Runtime" not in answers[-1].line:
            return answers[-1]
    told = next((one for one in answers if one.stage != "made"), None)
    return told or refused_by_its_config(name) or answers[0]


def refused_by_its_config(name: str) -> Answer | None:
    """Return the refusal of a class for which its config is enough; None where the weights are asked, too."""
    import numpy as np
    import transformers
    from safetensors.numpy import save_file

    from posenc_models import ModelFolder

    try:
        config = small_config(getattr(transformers, name).config_class, NARROWER[0])
    except Exception:  # said already
        return None
    config.architectures = [name]
    with tempfile.TemporaryDirectory() as place:
        config.save_pretrained(place)
        save_file({"weight": np.zeros((2, 2), np.float32)}, Path(place, "model.safetensors"))
        try:
            ModelFolder.load(place)
        except ValueError as error:
            return Answer(name, config.model_type, line=str(error).replace(place, "FOLDER"), stage="load")
    return None


def answer(name: str, kind: str, folder: Path) -> Answer:
    """Return what comes of a folder, where one call of its module is made, too."""
    from posenc.ports import axes_of
    from posenc_export.common.errors import BadInput
    from posenc_export.write.inputs.ports import parse_ports
    from posenc_export.write.targets.outputs import called
    from posenc_models import ModelFolder

    stage = "load"
    try:
        model = ModelFolder.load(folder)
        for graph in (*model.others, model):
            stage = "build"
            whole = graph.build()
            stage = "call"
            ports = parse_ports(whole.inputs)
            sizes = {term: max(2, axis.least) for axis in axes_of(ports) for term in axis.terms}
            called(whole.module, ports, sizes, 0)
    except (ValueError, BadInput) as error:
        return Answer(name, kind, line=str(error).replace(str(folder), "FOLDER"), stage=stage)
    except Exception as error:
        return Answer(name, kind, line=f"CRASH {type(error).__name__}: {_first(error)}", stage=stage)
    return Answer(name, kind, task=model.task.name)


def save(name: str, divisor: int, folder: Path) -> str:
    """Write the folder of a small model of a class, with random weights; return its model type."""
    import torch
    import transformers

    torch.manual_seed(0)
    kind = getattr(transformers, name)
    config = small_config(kind.config_class, divisor)
    model = kind(config)
    model.save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if said.get("architectures") != [name]:  # some classes save a part of theirs
        (folder / "config.json").write_text(json.dumps({**said, "architectures": [name]}), encoding="utf-8")
    if model.main_input_name == "pixel_values" and "image_size" not in said:
        # as folders of such models have it
        processor = {"size": {"height": PIXELS, "width": PIXELS}}
        (folder / PROCESSOR).write_text(json.dumps(processor), encoding="utf-8")
    return str(said.get("model_type", ""))


def small_config(kind: Any, divisor: int) -> Any:
    """Return a small configuration of a class: its defaults, with few layers, few words and narrow widths."""
    from transformers import AutoConfig

    lacks = LACKS.get(kind.model_type, {})
    config = AutoConfig.for_model(kind.model_type, **lacks) if lacks else kind()
    said = json.loads(json.dumps(config.to_dict(), default=str))
    return kind.from_dict(shrunk(said, divisor))


def shrunk(said: Mapping[str, Any], divisor: int) -> dict[str, Any]:
    """Return what a config says with smaller numbers, its inner configs, too."""
    layers = said.get("num_hidden_layers")
    small: dict[str, Any] = {}
    for key, value in said.items():
        name = key.lower()
        if key in FOLLOWING:
            continue
        if isinstance(value, Mapping):
            small[key] = shrunk(value, divisor) if key not in ("id2label", "label2id") else dict(value)
        elif isinstance(value, list) and type(layers) is int and len(value) == layers > LAYERS:
            small[key] = [value[0], next((one for one in value if one != value[0]), value[1])]
        elif isinstance(value, list):
            small[key] = _shrunk_list(name, value, divisor)
        elif key == "pad_token_id" and not isinstance(value, int):
            small[key] = 0
        else:
            small[key] = _shrunk_number(name, value, divisor) if type(value) is int else value
    if "attention_types" in small:  # GPT-Neo's, which say how often each comes
        small["attention_types"] = [[["global", "local"], 1]]
    kind = str(said.get("model_type", ""))
    return together(with_sections(small, kind), FITTING.get(kind, {}))


def together(config: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config that says more, its inner configs, too."""
    inner = {
        key: together(config[key], value)
        for key, value in more.items()
        if isinstance(value, Mapping) and isinstance(config.get(key), Mapping)
    }
    return {**config, **more, **inner}


def with_sections(small: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a config in which the positions of a token share out all pairs of a narrow head."""
    rope = small.get("rope_parameters")
    usual = DEFAULTS[kind].sections if kind in DEFAULTS else ()
    sections = (rope.get("mrope_section") if isinstance(rope, Mapping) else None) or usual
    if not sections or not isinstance(rope, Mapping) or any(isinstance(one, Mapping) for one in rope.values()):
        return small
    head = small.get("head_dim") or small["hidden_size"] // small["num_attention_heads"]
    pairs = int(head * rope.get("partial_rotary_factor", 1)) // 2
    rest = max(pairs // len(sections), 1)
    first = pairs - rest * (len(sections) - 1)
    parts = [first, *[rest] * (len(sections) - 1)]
    if kind in DEFAULTS and DEFAULTS[kind].section_layout == "time_last":
        parts.reverse()
    return {**small, "rope_parameters": {**rope, "mrope_section": parts}}


def _shrunk_number(name: str, value: int, divisor: int) -> int:
    if "vocab" in name:
        return min(value, WORDS)
    if name.endswith(("token_id", "token_index", "_id")) or name in ("pad_index", "cls_token", "sep_token"):
        return value if value < WORDS else WORDS - 1 - sum(map(ord, name)) % (WORDS // 2)
    if "experts" in name and "shared" not in name:
        return min(value, 2 if "per_tok" in name else EXPERTS)
    if name in ("n_group", "topk_group", "num_expert_group"):
        return 1
    if any(part in name for part in DEPTHS) and not any(part in name for part in NO_DEPTHS):
        return min(value, LAYERS)
    if name == "upsample_groups":  # as many as channels
        return value // divisor
    if any(part in name for part in WIDTHS) and not any(part in name for part in NO_WIDTHS):
        return value // divisor if value % divisor == 0 else value
    return min(value, 1024) if "chunk" in name else value


def _shrunk_list(name: str, value: list[Any], divisor: int) -> list[Any]:
    if all(isinstance(one, Mapping) for one in value):
        return [shrunk(one, divisor) for one in value]
    if not all(type(one) is int for one in value):
        return value
    if name in ("depths", "num_layers", "n_layers", "stage_depths", "layers"):
        return [min(one, LAYERS) for one in value]
    return [_shrunk_number(name, one, divisor) for one in value]


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
