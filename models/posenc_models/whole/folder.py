"""A model's folder, as `save_pretrained` writes it: which task it is for, and the module that is exported."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from posenc.memory import free_memory
from posenc.spec import TORCH_NAMES, DType
from posenc_models.whole.adapters import look_at_adapter, merged
from posenc_models.whole.auto_classes import has_class, types_of
from posenc_models.whole.contents import PROCESSOR, Contents, look
from posenc_models.whole.heads import has_headless, is_headless
from posenc_models.whole.memories import KEY_VALUES, Memory, memories_of, ports_of, ports_of_stacks
from posenc_models.whole.pipeline import MODULES, SENTENCE, STATIC, SentenceEncoder, notes_of_scores, sentence_encoder
from posenc_models.whole.quantized import BITS, Quantize, round_linear
from posenc_models.whole.tasks import (
    CONDITIONAL_GENERATION,
    DECODER_FILE,
    ENCODER_FILE,
    HIDDEN,
    LOGITS,
    PARTS,
    READS,
    SENTENCE_SIMILARITY,
    TASKS,
    TEXT,
    X_VECTOR,
    Task,
    all_tasks,
    architecture_of,
    positions_of_token,
    task_of,
    what_reads,
    written_of,
)
from posenc_models.whole.trials import check_answers, check_takes, failure_line

if TYPE_CHECKING:
    from torch import Tensor, nn

    from posenc_models.vision import GridRule, OwnPositions

POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions")
"""Keys that say how many positions a model has."""
WINDOWS, WIDEST = ("sliding_window", "window_size", "attention_window", "local_attention"), 512
DTYPES: tuple[DType, ...] = ("fp32", "fp16", "bf16")
"""The dtypes that a whole model may have."""
TOWERS = ("visual", "vision_tower", "vision_model", "audio_tower")
"""What models call their parts that read images and sounds."""
CACHES = ("past_key_values", "cache_params")
"""What models call the cache that they take, and give."""
SMALL, MANY, FEW, ROOM = 50_000_000, 200, 32, 16
"""Parameters below which a model writes many tokens; how many those are; how many others write; room for prompts."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
"""What names of models on the Hub are made of: an owner and a name."""
DEQUANTIZED = ("mxfp4",)
"""Ways to quantize weights that transformers undoes on a CPU, and leaves float weights."""
PAIR_OF_MODELS = "EncoderDecoderModel"
ROOM_FOR_MORE = 10_000_000
"""Numbers that a model may have beyond twice those of its weights."""
TYPES = "token_type_ids"
"""The input that tells the texts of a pair apart."""
FEATURES = "feature-extraction"
"""The task for hidden states."""
HIDDEN_STATES = "a vector for each token"
NAMED = 4
"""Weights that a line names."""
PLACES = 16
"""Places of the longest sound that is tried by default, or twice as many: their fields overlap."""
DEFAULTS: Mapping[str, Any] = {"type_vocab_size": 1, "num_channels": 3, "sections": ""}
"""What ports are described by where a config does not say it."""
NUMERALS = {3: "three", 4: "four"}
USUAL_LENGTH = 128
"""Tokens of the longest call that is tried by default: each is computed in float64, too."""
COUNTED = "no positions go in: they count the tokens that the mask leaves in, as generate gives them"
"""What is said of a model whose positions are counted."""
LAST = "logits are those of the last token alone: what the model says of the others is not compared"
"""What is said of a model that gives no others."""


@dataclass(frozen=True)
class WholeModel:
    """A whole model, ready to be exported.

    Args:
        module: takes its inputs by position, and gives tensors in a row.
        inputs: what goes in, as texts of ports.
        outputs: the names of what comes out.
        notes: lines for the report.
        config: what its config says, with what the file leaves out.
        generates: how many tokens it is to write greedily, as a test; 0 where it has no cache.
        begins: the tokens with which a decoder begins, where an encoder reads the prompts.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]
    config: Mapping[str, Any]
    generates: int = 0
    begins: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a config.json and weights: `load` makes it.

    Args:
        contents: its files, and what its config.json says.
        task: what the model is exported for.
        origin: what says so.
        exact: whether exact positions take the place of a rotary model's own.
        part: which of the model's graphs `build` makes, by the name of its file; "" for the only one, or the decoder.
        dtype: of the weights, and of all numbers that go in and come out; positions are exact in each.
        by_weight: whether its reference in float64 widens one weight after the other, and does not hold all.
        quantize: what the weights of linear layers are rounded to; None for nothing.
        allow_unused: whether weights may lie in the folder that nothing in the model reads.
        adapter: the folder of a LoRA that is merged into the weights; None for none.
        counts_positions: whether positions are counted from the mask, and do not go in.
        last_token: whether logits are those of the last token alone.
        sentences: what makes vectors of sentences behind the model; None where it does not.
    """

    contents: Contents
    task: Task
    origin: str = "architectures"
    exact: bool = True
    part: str = ""
    dtype: DType = "fp32"
    by_weight: bool = False
    quantize: Quantize | None = None
    allow_unused: bool = False
    adapter: Path | None = None
    counts_positions: bool = False
    last_token: bool = False
    sentences: SentenceEncoder | None = None

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        task: str | None = None,
        dtype: DType = "fp32",
        quantize: Quantize | None = None,
        *,
        allow_unused: bool = False,
        adapter: str | PathLike[str] | None = None,
        last_token: bool = False,
    ) -> Self:
        """Look at a folder: its config, and the heads of its weights.

        Args:
            path: the folder, or the name of a model that is in Hugging Face's download cache.
            task: one of `TASKS`; by default the one that the config's architecture is for.
            dtype: fp32, fp16 or bf16.
            quantize: int8 or int4, for the weights of linear layers; None for none.
            allow_unused: whether weights may lie there that nothing in the model reads.
            adapter: the folder of a LoRA that is merged into the weights.
            last_token: whether a causal language model gives the logits of the last token alone.

        Raises ValueError, in one line, where it is no such folder, and where no task is known for it.
        """
        if dtype not in DTYPES:
            raise ValueError(f"a whole model has no dtype {dtype}: expected one of {', '.join(DTYPES)}")
        if quantize is not None and quantize not in BITS:
            raise ValueError(f"weights cannot be {quantize}: expected one of {', '.join(BITS)}")
        if quantize is not None and dtype == "bf16":
            raise ValueError(f"--quantize {quantize} is for --dtype fp32 or fp16: no runtime here runs it in bf16")
        contents = look(_place(path))
        config = contents.config
        _check_unquantized(contents)
        if task is not None and task not in TASKS:
            raise ValueError(f"unknown task {task!r}: expected one of {', '.join(TASKS)}")
        sentences = _sentences(contents, task)
        if sentences is not None:
            chosen = sentences.task(TASKS[SENTENCE_SIMILARITY][0])
        else:
            chosen = task_of(task, config) if task else _task_of(contents.path, config)
        if last_token and (chosen.encoder or not chosen.cache):
            raise ValueError(
                f"--last-logits is for decoders that read a prompt, and {chosen.name} has none: leave it out"
            )
        _check_one_model(config, chosen)
        _check_stacks(config, chosen)
        _check_type(config, chosen)
        if adapter is not None:
            look_at_adapter(Path(adapter))
        return cls(
            contents,
            chosen,
            origin="--task" if task else MODULES if sentences is not None else "architectures",
            dtype=dtype,
            quantize=quantize,
            allow_unused=allow_unused,
            adapter=None if adapter is None else Path(adapter),
            last_token=last_token,
            sentences=sentences,
        )

    @property
    def path(self) -> Path:
        """The folder."""
        return self.contents.path

    @property
    def config(self) -> Mapping[str, Any]:
        """What its config.json says."""
        return self.contents.config

    @property
    def parameters(self) -> int:
        """How many numbers its weights hold."""
        return self.contents.parameters

    @property
    def precision(self) -> str:
        """What its numbers are, in a word or two: fp32, fp16, int4, int4 and fp16."""
        names = (self.quantize or "", self.dtype if self.dtype != "fp32" or not self.quantize else "")
        return " and ".join(filter(None, names))

    @property
    def length(self) -> int:
        """Up to which length calls are tried, where nobody says it: beyond the edge of a narrow window."""
        said = self.config.get("text_config") or self.config
        windows = [self.config[key] for key in WINDOWS if isinstance(self.config.get(key), int)]
        edge = max((window + 16 for window in windows if window <= WIDEST), default=0)
        if self.task.kind == "sounds":
            # a length counts samples, of which a place of the network takes many
            edge = PLACES * _receptive_field(self.config)
            return max(USUAL_LENGTH, edge)
        positions = _positions(said) or WIDEST
        # behind an encoder no input says which positions tokens have: those of the cache and of the call add up
        return min(max(USUAL_LENGTH, edge), positions // 2 if self.task.encoder else positions)

    @property
    def positions(self) -> int | None:
        """How many positions its text has; None where the config does not say it, or a length counts something else."""
        if self.task.kind in ("sounds", "features", "images"):
            return None
        return _positions(self.config.get("text_config") or self.config)

    @property
    def name(self) -> str:
        """What the export is called: the model's type and the task."""
        return f"{self.config['model_type']}:{self.task.name}"

    @property
    def file(self) -> str:
        """What the graph's file is called, without its ending, where it is not a model's only one."""
        return self.part or (DECODER_FILE if self.task.encoder else "")

    @property
    def others(self) -> tuple[Self, ...]:
        """The model's other graphs: the encoder of a decoder."""
        return (replace(self, part=ENCODER_FILE),) if self.task.encoder and not self.part else ()

    def grid_rule(self) -> tuple[GridRule, OwnPositions] | None:
        """Return how the model counts the positions of images and videos, and its own function; None if it has no such.

        Raises ValueError, in one line, where it counts them by a rule that is not known.
        """
        if self.task.kind != "scenes" or self.part or positions_of_token(self.config) == 1:
            return None
        import transformers

        from posenc_models.vision import rule_of

        with self.contents.private_folder() as place, _quiet():
            return rule_of(transformers.AutoConfig.from_pretrained(place, trust_remote_code=False))

    def as_file(self, inputs: Collection[str], outputs: Collection[str]) -> Self:
        """Return the folder as a file with these inputs and outputs has it.

        Of an encoder of sentences it may give the vectors of sentences alone, or those of tokens alone, and it may take
        no types of tokens: those of a sentence are 0.
        """
        if self.sentences is None:
            return self
        if not set(self.task.outputs) <= set(outputs) and SENTENCE not in outputs:
            plain = {"last_hidden_state": FEATURES, "logits": "fill-mask"}
            task = next((task for output, task in plain.items() if output in outputs), None)
            return self if task is None else replace(self, task=task_of(task, self.config), sentences=None)
        encoder, taken = self.sentences, dict(self.task.inputs)
        if not set(self.task.outputs) <= set(outputs):
            encoder = replace(encoder, outputs=(SENTENCE,))
        if TYPES in taken and TYPES not in inputs:
            del taken[TYPES]
            encoder = replace(encoder, notes=(*encoder.notes, f"the file takes no {TYPES}: all are 0, as of one text"))
        return replace(self, task=replace(encoder.task(self.task), inputs=taken), sentences=encoder)

    def graph(self, file: str) -> Self:
        """Return the model's graph whose file has this name, without its ending; the folder itself for any other."""
        return next((other for other in self.others if other.part == file), self)

    def build(self, *, trial: bool = True) -> WholeModel:
        """Load the model in its dtype; where it is rotary and `exact`, with exact positions in the place of its own.

        Args:
            trial: whether its numbers are counted before, and a small call is made: once is enough for a folder.

        Raises ValueError, in one line, where transformers cannot load it, or where it is no model of its task.
        """
        if self.sentences is not None and not self.sentences.auto:
            return self._static(self.sentences)
        model, unread = _loaded(self, trial)
        notes = [*_code_of_its_own(self, model), *unread, *([_exact(model)] if self.exact else [])]
        pipeline = self.contents.pipeline
        if pipeline is not None and pipeline.behind and self.sentences is None:
            gives = HIDDEN_STATES if self.task.outputs == HIDDEN else ", ".join(self.task.outputs)
            notes.append(f"{', '.join(pipeline.behind)} of {MODULES} are not in the file: it gives {gives}")
        if self.contents.adapter and self.adapter is None:
            notes.append("the adapter beside the weights is not in the file: --adapter merges it")
        if self.quantize is not None:
            round_linear(model, self.quantize)
        if self.task.kind == "scenes":
            count = positions_of_token(_said(model))
            several = f", whose tokens have {NUMERALS.get(count, count)} positions each" * (count > 1)
            notes.append(f"the graph reads text alone{several}: images and sounds are left out")
        if self.part:
            encoder = model.get_encoder()
            check_takes(encoder, self.task.encoder, self.task.name, self.origin == "--task", type(model).__name__)
            return self._encoder(encoder, notes, model, trial=trial)
        if self.task.encoder:
            return self._decoder(model, notes, trial=trial)
        check_takes(model, self.task.inputs, self.task.name, self.origin == "--task")
        is_decoder = self.task.cache
        return self._decoder(model, notes, trial=trial) if is_decoder else self._encoder(model, notes, trial=trial)

    def _encoder(self, model: Any, notes: Sequence[str], of: Any = None, *, trial: bool) -> WholeModel:
        """Return a model without a cache: the whole one, or the encoder of one, which has the config."""
        from posenc_models.whole.modules import EncoderCall

        whole = model if of is None else of
        inputs, outputs = (self.task.encoder, HIDDEN) if self.part else (self.task.inputs, self.task.outputs)
        takes = inspect.signature(model.forward).parameters
        image_size = self.contents.image_size if self.task.kind == "images" else None
        filled = _ports(whole, self.dtype, inputs, takes, image_size)
        behind = self.sentences
        module: nn.Module = (
            EncoderCall(model, list(filled), tuple(outputs.values()))
            if behind is None
            else self._with_sentences(model, list(filled), behind)
        )

        def call(*tensors: Tensor) -> Any:
            with _quiet():
                return model(**dict(zip(filled, tensors, strict=True)), return_dict=True)

        if trial:
            wanted = outputs.values() if behind is None else (behind.answer,)
            output = check_answers(whole, call, filled, wanted, cached=False)
            if behind is not None:
                _check_width(self, getattr(output, behind.answer).shape[-1])
        of_scores = notes_of_scores(self.config, self.contents.pipeline) if outputs == LOGITS else ()
        lines = (*(behind.notes if behind else ()), *of_scores, *notes)
        return WholeModel(module.eval(), _texts(filled), tuple(outputs), lines, _said(whole))

    def _with_sentences(self, model: Any, inputs: Sequence[str], encoder: SentenceEncoder) -> nn.Module:
        """Return a model with what makes vectors of sentences behind it."""
        import torch

        from posenc_models.whole.sentences import MASK, SentenceCall, modules_of

        if MASK not in inputs:
            raise ValueError(f"{type(model).__name__} takes no {MASK}, on which vectors of sentences depend")
        model.config.use_cache = False
        dtype = getattr(torch, TORCH_NAMES[self.dtype])
        module = SentenceCall(model, inputs, encoder, modules_of(encoder, dtype))
        if self.quantize is not None:
            round_linear(module.pipeline, self.quantize)
        return module

    def _static(self, encoder: SentenceEncoder) -> WholeModel:
        """Return a table of vectors, of which texts are means."""
        import torch

        from posenc_models.whole.sentences import StaticCall, modules_of, static_rows

        (file,) = self.contents.weights.values()
        dtype = getattr(torch, TORCH_NAMES[self.dtype])
        module = StaticCall(static_rows(file, dtype), encoder, modules_of(encoder, dtype))
        texts = {name: _filled(TEXT[name], self.config, None) for name in ("input_ids", "attention_mask")}
        return WholeModel(module.eval(), _texts(texts), tuple(self.task.outputs), encoder.notes, self.config)

    def _decoder(self, model: Any, notes: Sequence[str], *, trial: bool) -> WholeModel:
        """Return a model with a cache: a whole one, or the decoder of one."""
        from posenc_models.whole.modules import DecoderCall, DecoderOfEncoder

        said, two = _said(model), bool(self.task.encoder)
        takes = set(self.task.inputs) if two else set(inspect.signature(model.forward).parameters)
        filled = _ports(model, self.dtype, self.task.inputs, takes)
        # several positions a token are of images, which no mask counts
        counted = (
            self.counts_positions and "attention_mask" in filled and filled.get("position_ids", "").count(",") == 1
        )
        if counted:
            del filled["position_ids"]
            notes = [*notes, COUNTED]
        if self.last_token and not two:
            notes = [*notes, LAST]
        layers, cache = _remembered(model, self)
        remembered = ports_of_stacks(layers) if two else ports_of(layers)
        before, after = KEY_VALUES
        caches = {before.format(layer=layer, part=part): text for (layer, part), text in remembered.items()}
        memory = None
        if not all(one.grows for memories in layers for one in memories):
            from posenc_models.whole.caches import call_with_states

            with _quiet():
                memory, lines = call_with_states(model, list(filled), layers, cache)
            notes = [*notes, *lines]
        module = (
            DecoderOfEncoder(model, list(filled))
            if two
            else DecoderCall(model, list(filled), counted, self.last_token, memory)
        )
        ports = {**filled, **caches}
        if trial:
            check_answers(model, module.eval(), ports, (), cached=True)
        few = sum(parameter.numel() for parameter in model.parameters()) < SMALL
        positions = _positions(said)
        generates = min(MANY if few else FEW, (positions or MANY + ROOM) - ROOM)
        return WholeModel(
            module.eval(),
            _texts(ports),
            (*self.task.outputs, *(after.format(layer=layer, part=part) for layer, part in remembered)),
            (*notes, *_growing(said)),
            said,
            max(generates, 0),
            (_begin(model),) if two else (),
        )


def _sentences(contents: Contents, task: str | None) -> SentenceEncoder | None:
    """Return what makes vectors of sentences behind a model, where its folder has that, and no other task is asked."""
    pipeline = contents.pipeline
    if task == SENTENCE_SIMILARITY and pipeline is None:
        raise ValueError(f"{contents.path} has no {MODULES}: --task {task} is for folders of sentence-transformers")
    is_asked = task == SENTENCE_SIMILARITY or (task is None and pipeline is not None and pipeline.is_of_sentences)
    if pipeline is None or not (is_asked or pipeline.first.name == STATIC):
        return None
    if task not in (None, SENTENCE_SIMILARITY):
        raise ValueError(f"{contents.path} holds {STATIC}, which gives vectors of sentences: it is no model for {task}")
    return sentence_encoder(pipeline, contents.config)


def _check_width(folder: ModelFolder, width: int) -> None:
    """Raise ValueError where what comes behind a model is not made for as many numbers as it gives for a token."""
    if folder.contents.pipeline is not None:
        sentence_encoder(folder.contents.pipeline, {**folder.config, "hidden_size": width})


def _place(path: str | PathLike[str]) -> Path:
    """Return the folder of a path, or of a model's name that is in Hugging Face's download cache.

    Raises ValueError, in one line, for a name that is not there: nothing is downloaded.
    """
    place, name = Path(path), str(path)
    if place.exists() or not HUB_NAME.fullmatch(name):
        return place
    cached = download_cache() / f"models--{name.replace('/', '--')}"
    try:
        revision = (cached / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        revision = ""
    if re.fullmatch(r"[0-9a-f]{4,64}", revision) and (cached / "snapshots" / revision).is_dir():
        return cached / "snapshots" / revision
    raise ValueError(
        f"{name} is no folder, and no model of that name is in {download_cache()}: names of the Hub are not downloaded "
        f"here; `hf download {name}` does it, and prints the folder"
    )


def download_cache() -> Path:
    """Return where Hugging Face's libraries keep what they download."""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")).expanduser()


def _check_unquantized(contents: Contents) -> None:
    """Raise ValueError where weights are stored in a form that is not exported."""
    said = contents.config.get("quantization_config")
    if said is None:
        return
    method = said.get("quant_method") if isinstance(said, Mapping) else said
    if method not in DEQUANTIZED:
        raise ValueError(
            f"{contents.path}: its weights are quantized by {method or 'a method without a name'} "
            "(quantization_config), which is not exported: take the folder with its float weights; --quantize rounds "
            "them to 8 or 4 bits here"
        )


def _check_one_model(config: Mapping[str, Any], task: Task) -> None:
    """Raise ValueError where a config is that of several models, and the task is not for these together."""
    parts = [key for key in PARTS if isinstance(config.get(key), dict)]
    if set(parts) - {"text_config"} and not (task.kind in ("pairs", "scenes") and task.fits(config)):
        several = dict.fromkeys(
            [*parts, *(key for key in config if key.endswith("_config") and _is_model(config[key]))]
        )
        raise ValueError(
            f"{architecture_of(config)} is several models in one ({', '.join(several)}): --model takes models of one, "
            "and of texts and images ...Model that compares them, and the text of ...ForConditionalGeneration"
        )


def _is_model(said: object) -> bool:
    return isinstance(said, Mapping) and "model_type" in said


def _check_stacks(config: Mapping[str, Any], task: Task) -> None:
    """Raise ValueError where a model has an encoder and a decoder, and the task is for one graph, or vice versa."""
    if task.half or task.fits(config) or (config.get("is_encoder_decoder") is True) is bool(task.encoder):
        return
    have = "has an encoder and a decoder" if not task.encoder else "has no encoder with a decoder behind it"
    raise ValueError(f"{architecture_of(config)} {have}: it is no model for {task.name}")


def _check_type(config: Mapping[str, Any], task: Task) -> None:
    """Raise ValueError where transformers has no model of the config's type for a task that --task names."""
    kind, types = config["model_type"], types_of(task.auto)
    if types and kind not in types and not task.ends_of(architecture_of(config)) and not config.get("auto_map"):
        raise ValueError(f"transformers has no model for {task.name} ({task.auto}) of model type {kind!r}")


def _task_of(path: Path, config: Mapping[str, Any]) -> Task:
    """Return the task of a config's architecture; raise ValueError where none is known."""
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        raise ValueError(f"{path / 'config.json'} has no architectures: give --task, one of {', '.join(TASKS)}")
    name = architectures[0]
    if name.endswith(PAIR_OF_MODELS):
        raise ValueError(f"{name} is not exported: its encoder and its decoder are models of two types")
    # the longest ending says most: of Model and EncoderModel, of Model and LMHeadModel
    matches = [(max(map(len, ends)), task) for task in all_tasks() if (ends := task.ends_of(name))]
    longest = max((length for length, _ in matches), default=0)
    fitting = [task for length, task in matches if length == longest]
    chosen = next((task for task in fitting if task.fits(config)), None)
    if chosen is None:
        if fitting:
            _check_one_model(config, fitting[0])
        raise ValueError(_not_exported(name, config))
    if chosen.kind == "pairs" and (types := types_of(chosen.auto)) and config["model_type"] not in types:
        raise ValueError(
            f"{name} is not exported: of texts and images --model writes the types that {chosen.auto} has "
            f"({chosen.name}), and the text of ...{CONDITIONAL_GENERATION}"
        )
    return chosen


def _not_exported(name: str, config: Mapping[str, Any]) -> str:
    """Return a line on a class that none of the tasks is for: what is exported of models with such a config."""
    written, reads = written_of(config), what_reads(config)
    if not has_class(name):
        return f"no task is known for {name}: give --task, one of {', '.join(written or TASKS)}"
    if not reads:
        keys = ", ".join(dict.fromkeys(READS.values()))
        stacks = "is of an encoder and a decoder, and " * (config.get("is_encoder_decoder") is True)
        return f"{name} is not exported: its config.json {stacks}has no key that says what goes in ({keys})"
    if set(PARTS) & set(config):  # the text of several models is written by the name of its class
        written |= written_of({**config, "architectures": [CONDITIONAL_GENERATION]})
    listed = ", ".join(f"{task} ({ends})" for task, ends in written.items()) or "nothing"
    main = next(iter(task_of(FEATURES, config).inputs))
    alone = "" if is_headless(name, config) else " without its head"
    headless = FEATURES in written and has_headless(name, config, main)
    advice = f"; --task {FEATURES} tries it{alone}, for its hidden states" * headless
    return f"{name} is not exported: of {reads} --model writes {listed}{advice}"


def _positions(config: Mapping[str, Any]) -> int | None:
    """Return how many positions a model has: dynamic NTK stretches those of the config."""
    positions = next((config[key] for key in POSITIONS if isinstance(config.get(key), int)), None)
    rope = config.get("rope_parameters") or {}
    if positions is None or rope.get("rope_type") != "dynamic":
        return positions
    return int(positions * rope["factor"])


def _loaded(folder: ModelFolder, trial: bool) -> tuple[Any, list[str]]:
    """Return the model in the folder's dtype, and lines on weights that it does not read; its own code is never run."""
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise ValueError(f"a whole model takes torch and transformers: pip install transformers ({error})") from error
    with folder.contents.private_folder() as place, _quiet():
        try:
            cls = _class_of(folder)
            if trial and (message := _too_large(folder, cls, place)):
                raise ValueError(message)
            model, info = cls.from_pretrained(
                place,
                dtype=getattr(torch, TORCH_NAMES[folder.dtype]),
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, in a line that says which
            )
        except Exception as error:  # a stranger's config: transformers raises what comes
            why = _why(folder, error).replace(str(place), str(folder.path))
            raise ValueError(f"transformers cannot load {folder.path}: {why}") from error
    if folder.task.outputs == HIDDEN or (folder.sentences is not None and folder.sentences.answer in HIDDEN):
        info["missing_keys"] = _without_pooler(model, info["missing_keys"])
    lines = _check_loaded(folder, model, info)
    if folder.adapter is not None:
        model, line = merged(model, folder.adapter)
        lines.append(line)
    if folder.task.kind == "scenes":
        _leave_out_towers(model)
    if hasattr(model, "set_experts_implementation") and _has_experts(folder.config):
        model.set_experts_implementation("batched_mm")
    return model.eval(), lines


def _class_of(folder: ModelFolder) -> Any:
    """Return the class of transformers that loads a folder: the one that its config names, where that is for the task.

    A task that somebody asked for by name may want another class: hidden states of a model with a head.
    """
    import transformers

    name, auto = architecture_of(folder.config), getattr(transformers, folder.task.auto)
    named = getattr(transformers, name, None) if folder.task.ends_of(name) else None
    kind = getattr(getattr(named, "config_class", None), "model_type", None)
    return named if kind == folder.config["model_type"] else auto


def _too_large(folder: ModelFolder, cls: Any, place: Path) -> str:
    """Return a line where a config's model has many more numbers than its weights; nothing where it has not.

    It is counted without being built: missing weights would be drawn at random, whatever memory that takes.
    """
    import torch
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
        with torch.device("meta"):
            model = cls.from_config(config) if hasattr(cls, "_model_mapping") else cls(config)
        numbers = sum(parameter.numel() for parameter in model.parameters())
        tables = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    except Exception:  # what cannot be built says so below, where it is loaded
        return ""
    stored = folder.parameters
    if numbers > 2 * stored + ROOM_FOR_MORE:
        return f"config.json is that of a model of {numbers:,} numbers, and the weights hold {stored:,}"
    if tables > free_memory():
        return f"config.json asks for tables of {tables:,} bytes, which are more than the free memory"
    return ""


def _without_pooler(model: nn.Module, missing: Collection[str]) -> Collection[str]:
    """Take a pooler without weights from a model whose hidden states are asked for; return what else is missing.

    Sentence encoders are saved without it. transformers would draw it at random, and no output depends on it.
    """
    names = [name for name, _ in model.named_parameters() if name.startswith("pooler.")]
    may_lack = "add_pooling_layer" in inspect.signature(type(model).__init__).parameters
    if not may_lack or not names or not set(names) <= set(missing):
        return missing
    setattr(model, "pooler", None)  # noqa: B010  (mypy: a module's attributes are modules and tensors)
    return set(missing) - set(names)


def _leave_out_towers(model: nn.Module) -> None:
    """Put nothing in the place of what reads images and sounds: its weights would be copied with the others."""
    from posenc_models.whole.modules import Placeholder

    towers = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in TOWERS]
    for name in towers:
        if not any(name.startswith(f"{other}.") for other in towers):  # a tower may stand in another
            model.set_submodule(name, Placeholder())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from printing warnings and bars of progress: what matters of them becomes an error here."""
    from transformers.utils import logging

    verbosity, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def _why(folder: ModelFolder, error: Exception) -> str:
    """Return in a line why transformers cannot load a model."""
    text, kind = str(error), folder.config["model_type"]
    is_unknown = "does not recognize this" in text and folder.config.get("auto_map")
    if "trust_remote_code" in text or is_unknown:
        return f"model type {kind!r} is code beside the weights (auto_map), which is never run"
    if text.startswith("Unrecognized configuration class"):
        return f"it has no model for {folder.task.name} ({folder.task.auto}) of model type {kind!r}"
    return _line(error)


def _check_loaded(folder: ModelFolder, model: nn.Module, info: Mapping[str, Any]) -> list[str]:
    """Return a line on weights of other parts; raise ValueError where weights are not those of the config's model.

    transformers only warns of it.
    """
    config = folder.path / "config.json"
    mismatched = sorted(info["mismatched_keys"])
    if mismatched:
        name, stored, expected = mismatched[0]
        raise ValueError(
            f"{config} is not that of its weights: {name} has the shape {list(stored)}, not {list(expected)}"
            f"{_more(mismatched)}"
        )
    # a head that the weights do not have is drawn at random
    missing = sorted(info["missing_keys"])
    if missing:
        # nobody's choice but ours is a task that the config's architecture says
        doubt = (
            f"is it a model for {folder.task.name}?"
            if folder.origin == "--task"
            else "is its config.json that of another model?"
        )
        raise ValueError(f"{folder.path} has no weights for {missing[0]}{_more(missing)}: {doubt}")
    unused = sorted(info["unexpected_keys"])
    of_layers = [name for name in unused if not _is_another_part(model, name)]
    if of_layers and not folder.allow_unused:
        raise ValueError(
            f"{config} is not that of its weights: nothing in {type(model).__name__} reads {of_layers[0]}"
            f"{_more(of_layers)}; --allow-unused-weights exports without them"
        )
    if not unused:
        return []
    some = f"{', '.join(unused[:NAMED])}{f' and {len(unused) - NAMED} more' * (len(unused) > NAMED)}"
    return [f"weights that {type(model).__name__} does not read are not in the file: {some}"]


def _is_another_part(model: nn.Module, name: str) -> bool:
    """Return whether a weight is one of a part that the model does not have, such as another head.

    What lies inside a layer, or is a parameter of a module that the model has, is none: BERT's folders bring a head for
    pairs of sentences beside that for masked words, and no model is right without the biases of its layers.
    """
    modules, parts = {path for path, _ in model.named_modules()}, name.split(".")
    depth = max(count for count in range(len(parts)) if ".".join(parts[:count]) in modules)
    inside, beyond = parts[:depth], parts[depth:]
    return len(beyond) > 1 and not any(part.isdigit() for part in (*inside, beyond[0]))


def _more(names: Sequence[object]) -> str:
    return f" and {len(names) - 1} more" * (len(names) > 1)


def _has_experts(config: Mapping[str, Any]) -> bool:
    """Return whether a model, or the text of one, has experts."""
    text = config.get("text_config")
    return any("experts" in key for key in (*config, *(text if isinstance(text, Mapping) else ())))


def _code_of_its_own(folder: ModelFolder, model: nn.Module) -> list[str]:
    """Return a line on code beside the weights, where transformers has the model type, too."""
    if not folder.config.get("auto_map"):
        return []
    return [f"the folder's own code (auto_map) was not run: the model is transformers' {type(model).__name__}"]


def _exact(model: nn.Module) -> str:
    """Put our rotary modules into a model; return a line that says so, or why they are its own."""
    from posenc_models.replacing.replace import replace_rotary

    try:
        replaced = replace_rotary(model)
    except ValueError as error:
        return f"positions are computed as the model does: {_line(error).partition(': expected')[0]}"
    return f"rotary angles are exact: {', '.join(f'{name} was {words}' for name, words in replaced.items())}"


def _growing(said: Mapping[str, Any]) -> list[str]:
    """Return a line on texts that grow past where frequencies change at once: cached keys keep the earlier ones."""
    from posenc.rope_types import ROPE_TYPES

    rope = said.get("rope_parameters") or {}
    name = rope.get("rope_type")
    if name not in ROPE_TYPES.names() or not ROPE_TYPES[name].by_length or ROPE_TYPES[name].in_graph:
        return []
    edge = rope.get(ROPE_TYPES[name].by_length) or said.get(ROPE_TYPES[name].by_length)
    return [
        f"{name} turns a call that goes beyond {edge} tokens by other frequencies: where a text grows past them, "
        "give all of it again with an empty cache, as generate does"
    ]


def _remembered(model: Any, folder: ModelFolder) -> tuple[tuple[tuple[Memory, ...], ...], str]:
    """Return what each layer remembers of two tokens, and the name of the cache; raise ValueError where it is unknown.

    Of a decoder behind an encoder, the layers of two states of the encoder follow, by turns.
    """
    import torch

    from posenc_models.whole.modules import cache_of, layers_of, states_of_encoder

    def call(**named: object) -> tuple[list[Any], str]:
        """Return the layers of the cache of a call, and the cache's name."""
        try:
            with torch.no_grad(), _quiet():
                output = model(**named, use_cache=True)
        except Exception as error:  # a model of a stranger's config raises what comes
            raise ValueError(failure_line(model, error, [*named], cached=True)) from error
        found = ((layers_of(getattr(output, name, None)), name) for name in CACHES)
        return next(((layers, name) for layers, name in found if layers), ([], ""))

    ids = torch.zeros((1, 2), dtype=torch.int64)
    if folder.task.encoder:
        states = torch.zeros(1, 2, _said(model)["hidden_size"], dtype=model.dtype)
        layers, cache = call(decoder_input_ids=ids, encoder_outputs=states_of_encoder(states))
    else:
        layers, cache = call(input_ids=ids)
    if not layers:
        encodes = ", as is_decoder is false in its config" * (getattr(model.config, "is_decoder", None) is False)
        raise ValueError(
            f"{type(model).__name__} caches no keys and values{encodes}: --model takes models whose layers have a "
            "cache of transformers"
        )
    known = _memories(model, layers)
    if folder.task.encoder or any(not memory.grows for memories in known for memory in memories):
        return known, cache
    # the graph gives each layer its keys and values in a plain cache, which knows nothing of windows
    layers, cache = call(input_ids=ids, past_key_values=cache_of(()))
    return _memories(model, layers), cache


def _memories(model: Any, layers: Sequence[Any]) -> tuple[tuple[Memory, ...], ...]:
    """Return what each layer of the cache of a call of two tokens remembers."""
    found = []
    for number, layer in enumerate(layers):
        try:
            found.append(memories_of(layer, 2))
        except ValueError as error:
            raise ValueError(
                f"{type(model).__name__}: layer {number} caches {error}: --model takes models whose layers cache keys "
                "and values of each token, states of convolutions and recurrences, and nothing else"
            ) from error
    return tuple(found)


def _begin(model: Any) -> int:
    """Return the token with which a decoder begins; where none is said, that which begins a text, as in `generate`."""
    names, configs = ("decoder_start_token_id", "bos_token_id"), (model.generation_config, model.config)
    said = [getattr(config, name, None) for name in names for config in configs]
    return next((token for token in said if isinstance(token, int)), 0)


def _ports(
    model: Any,
    dtype: DType,
    inputs: Mapping[str, str],
    takes: Container[str],
    image_size: tuple[int, int] | None = None,
) -> dict[str, str]:
    """Return the rest of the text of each port that goes in; images have the size that a processor says, if it must."""
    said = {"image_size": image_size, **_said(model)}
    inputs = {name: text.replace("float32[", f"{TORCH_NAMES[dtype]}[") for name, text in inputs.items()}
    for name, text in inputs.items():
        keys = {"height": said.get("image_size"), "width": said.get("image_size"), **DEFAULTS, **said}
        lacking = [key for key in _names_in(text) if name in takes and keys.get(key) is None]
        if lacking:
            key = lacking[0]
            if key in ("height", "width"):
                key = f"image_size, and no {PROCESSOR} beside it a height and a width"
            raise ValueError(f"{type(model).__name__} is not exported: its config says no {key}, which {name} has")
    filled = {name: _filled(text, said, _positions(said)) for name, text in inputs.items() if name in takes}
    return {name: text for name, text in filled.items() if text}


def _texts(ports: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {text}" for name, text in ports.items())


def _said(model: Any) -> dict[str, Any]:
    """Return what a model's config says, with what its file leaves out."""
    try:
        config = model.config.get_text_config()
    except ValueError as error:
        raise ValueError(f"{type(model).__name__} is not exported: its config has several models of text") from error
    vision = getattr(model.config, "vision_config", None)
    sizes = ((key, getattr(one, key, None)) for one in (model.config, vision) for key in ("image_size", "num_channels"))
    of_images = {key: size for key, size in sizes if size is not None}
    said = {**config.to_dict(), **of_images, "hidden_size": getattr(config, "hidden_size", None)}
    if said.get("conv_stride"):
        said["receptive_field"] = _receptive_field(said)
    if said.get("max_source_positions"):
        said["frames"] = 2 * said["max_source_positions"]  # two of them make a place
    return said


def _receptive_field(config: Mapping[str, Any]) -> int:
    """Return how many samples the first output of a stack of convolutions depends on; SEW squeezes several into one."""
    field: int = config.get("squeeze_factor", 1)
    if architecture_of(config).endswith(X_VECTOR):  # a network of delays stands behind, and the deviation of two places
        field += 1 + sum((k - 1) * step for k, step in zip(config["tdnn_kernel"], config["tdnn_dilation"], strict=True))
    for kernel, stride in zip(reversed(config["conv_kernel"]), reversed(config["conv_stride"]), strict=True):
        field = (field - 1) * stride + kernel
    return field


def _filled(text: str, said: Mapping[str, Any], positions: int | None) -> str:
    """Return the rest of a port's text with what the config says; nothing where it says that there are none of them."""
    size = said.get("image_size")
    height, width = (size if isinstance(size, Sequence) else (size, size)) if size is not None else (None, None)
    count = positions_of_token(said)
    sections = f"{count}, " * (count > 1)
    values = {**DEFAULTS, **said, "height": height, "width": width, "sections": sections}
    if any(values.get(name) == 0 for name in _names_in(text)):
        return ""
    bound = f" < {positions}" * (text.endswith(" positions") and positions is not None)
    return text.format(**values) + bound


def _names_in(text: str) -> Iterable[str]:
    return re.findall(r"{(\w+)}", text)


def _line(error: BaseException) -> str:
    """Return the first line of an error, and the next where that only announces it."""
    first, _, rest = str(error).strip().partition("\n")
    return f"{first} {rest.strip().partition(chr(10))[0]}" if first.endswith(":") and rest else first
