"""What a folder of sentence-transformers says is behind its model: modules.json, and the configs that it names.

Such a folder is a list of modules: a transformer, a pooling over its tokens, perhaps a dense layer, a norm. Each has a
folder with a config.json, and some have weights. All of it is read here, before anything heavy is imported; what has
no graph is refused by its name. `sentences` makes modules of torch of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from posenc.strict_json import read_json
from posenc_models.whole.auto_classes import class_of
from posenc_models.whole.companions import CONFIG, USUAL
from posenc_models.whole.files import PICKLE, SAFETENSORS, header_of, plain_file, read_object
from posenc_models.whole.sentence_steps import (
    DenseStep,
    LayerMixStep,
    LayerNormStep,
    NormalizeStep,
    PoolingStep,
    SpladeStep,
    Step,
    Weighted,
    check_stored,
)
from posenc_models.whole.tasks import Task

MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
SETTINGS = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Files of which the first that is there says how the library calls the transformer."""
LIBRARY = "sentence_transformers"
TOKENS, SENTENCE, LAYERS = "token_embeddings", "sentence_embedding", "all_layer_embeddings"
"""What modules hand on, by the library's names."""
TRANSFORMERS, STATIC = ("Transformer", "MLMTransformer"), "StaticEmbedding"
SCORE = "LogitScore"
"""The module behind a causal language model that is a cross encoder."""
WEIGHTED = ("Dense", "LayerNorm", "WeightedLayerPooling")
"""Modules that have weights of their own."""
FILES_OF_WEIGHTS = (SAFETENSORS, PICKLE)
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The keys of older configs, in the order in which several are joined."""
ACTIVATION = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(\w+)")
ACTIVATIONS = (
    *("Identity", "Tanh", "ReLU", "ReLU6", "GELU", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "ELU", "SELU", "CELU"),
    *("LeakyReLU", "Softplus", "Softsign", "Hardtanh", "Hardswish", "Hardsigmoid", "Tanhshrink"),
)
"""Classes of torch that take no arguments, and each number by itself."""
PLAIN = "feature-extraction"
ANSWERS = {PLAIN: ("AutoModel", "last_hidden_state"), "fill-mask": ("AutoModelForMaskedLM", "logits")}
"""Tasks of the transformer: the class that loads it, and the attribute of its answer that the other modules get."""
OF_ENCODERS = "AutoModelForTextEncoding"
ARGUMENTS = ("model_args", "model_kwargs", "config_args", "config_kwargs")
"""What the library gives transformers beside a config."""
HARMLESS = ("dtype", "torch_dtype", "attn_implementation", "add_pooling_layer", "device_map", "low_cpu_mem_usage")
"""Arguments of models that change no graph."""
MOST = 64
"""Modules of a folder that are read."""
SHOWN = 60
"""Letters of a prompt that a line shows."""


W = TypeVar("W", bound=Weighted)


@dataclass(frozen=True)
class ModuleLine:
    """A line of modules.json.

    Args:
        name: its class, as "Pooling".
        place: its folder in the model's; "" for the model's own.
        foreign: the whole name of a class that is not the library's; "" for one of the library.
    """

    name: str
    place: str
    foreign: str = ""

    def file(self, name: str) -> str:
        """Return the path of a file of it, in the model's folder."""
        return f"{self.place}/{name}" if self.place else name


@dataclass(frozen=True)
class Pipeline:
    """What modules.json names, and the files that say more of it.

    Args:
        root: the folder.
        entries: the modules, in their order.
        files: by their paths in the folder: configs, and weights of modules behind the first.
    """

    root: Path
    entries: tuple[ModuleLine, ...]
    files: Mapping[str, Path]

    @property
    def first(self) -> ModuleLine:
        """The module that reads tokens."""
        return self.entries[0]

    @property
    def behind(self) -> tuple[str, ...]:
        """The names of all modules but the first."""
        return tuple(entry.name for entry in self.entries[1:])

    @property
    def companions(self) -> dict[str, Path]:
        """The files that go with an export: configs, and no weights."""
        return {name: path for name, path in self.files.items() if name.endswith(".json") and USUAL.fullmatch(name)} | {
            MODULES: self.root / MODULES
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What the library is told of the transformer."""
        file = next((file for name in SETTINGS if (file := self.first.file(name)) in self.files), "")
        said = self._object(file)
        for key in ARGUMENTS:
            if not isinstance(said.get(key) or {}, Mapping):
                raise ValueError(f"{self.root / file} says {key} = {said[key]!r}: expected an object")
        return said

    @property
    def prompts(self) -> dict[str, Any]:
        """What the library is told of texts: prompts, and how vectors are compared."""
        return self._object(PROMPTS)

    @property
    def is_of_sentences(self) -> bool:
        """Whether it gives a vector for each text, as far as the names of its modules say: a cross encoder does not."""
        return len(self.entries) > 1 or self.first.name not in TRANSFORMERS

    def _object(self, name: str) -> dict[str, Any]:
        return read_object(self.files[name]) if name in self.files else {}

    def said(self, entry: ModuleLine) -> dict[str, Any]:
        """Return what the config of a module says; nothing where it has none."""
        return self._object(entry.file(CONFIG))

    def weights(self, entry: ModuleLine) -> Path:
        """Return the file of a module's weights; raise ValueError where it has none."""
        found = next((self.files[file] for name in FILES_OF_WEIGHTS if (file := entry.file(name)) in self.files), None)
        if found is None:
            raise ValueError(f"{self.root / entry.place} has no weights: expected {' or '.join(FILES_OF_WEIGHTS)}")
        return found


@dataclass(frozen=True)
class SentenceEncoder:
    """A pipeline that was checked: what comes behind a transformer, or a table of static vectors.

    Args:
        auto: the class of transformers that loads the model; "" for static vectors.
        answer: the attribute of its answer that goes on.
        steps: what follows.
        outputs: what comes out, by the library's names.
        truncated: how many numbers of a vector are kept; None for all.
        notes: lines for the report.
    """

    auto: str
    answer: str
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    truncated: int | None
    notes: tuple[str, ...]

    @property
    def answers_empty(self) -> bool:
        """Whether a text without a token has a vector that follows from no token: a sum of none, which is 0."""
        pooled = [step.modes for step in self.steps if isinstance(step, PoolingStep)]
        return not any({"cls", "max"} & set(modes) for modes in pooled)

    def task(self, plain: Task) -> Task:
        """Return its task: the plain one with its class and outputs."""
        outputs = {name: name for name in self.outputs}
        return replace(plain, auto=self.auto, outputs=outputs, half=self.auto == OF_ENCODERS)


def read_pipeline(root: Path) -> Pipeline | None:
    """Return what modules.json of a folder names; None where there is none.

    Raises ValueError, in one line, where it is no list of modules, where a path of it leads out of the folder, and
    where a file is no plain file of a bounded size.
    """
    if not os.path.lexists(root / MODULES):
        return None
    entries = tuple(_entries(plain_file(root, MODULES)))
    files: dict[str, Path] = {}
    for entry in entries:
        names = SETTINGS if entry is entries[0] else (CONFIG,)
        files |= {file: plain_file(root, file) for file in map(entry.file, names) if os.path.lexists(root / file)}
        weights = (entry.file(name) for name in FILES_OF_WEIGHTS if entry.name in WEIGHTED and entry is not entries[0])
        found = next((file for file in weights if os.path.lexists(root / file)), None)
        files |= {found: plain_file(root, found, 0)} if found else {}
    if os.path.lexists(root / PROMPTS):
        files[PROMPTS] = plain_file(root, PROMPTS)
    return Pipeline(root, entries, files)


def _entries(path: Path) -> Iterator[ModuleLine]:
    """Yield the lines of modules.json."""
    try:
        content = read_json(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, list) or not content or not all(isinstance(said, dict) for said in content):
        raise ValueError(f"{path} holds no list of modules, as sentence-transformers writes it")
    if len(content) > MOST:
        raise ValueError(f"{path} names {len(content):,} modules: at most {MOST} are read")
    for said in content:
        kind, place = said.get("type"), said.get("path")
        if not isinstance(kind, str) or not isinstance(place, str):
            raise ValueError(f"{path} names a module without a type and a path")
        parts = PurePosixPath(place)
        if parts.is_absolute() or ".." in parts.parts or "\\" in place or ":" in place or "\0" in place:
            raise ValueError(f'{path} says "path": {place!r}: expected a folder inside the model\'s')
        library, name = kind.partition(".")[0], kind.rpartition(".")[2]
        yield ModuleLine(name, "" if place in ("", ".") else parts.as_posix(), "" if library == LIBRARY else kind)


def check_first(pipeline: Pipeline) -> None:
    """Raise ValueError, in one line, where a folder's first module is none that has a graph."""
    first = pipeline.first
    if first.foreign or first.name not in (*TRANSFORMERS, STATIC):
        raise ValueError(f"{pipeline.root / MODULES}: {_without_graph(first)}")


def sentence_encoder(pipeline: Pipeline, config: Mapping[str, Any]) -> SentenceEncoder:
    """Return what a folder is as an encoder of sentences: every module of it, with its config.

    Args:
        pipeline: what its modules.json names.
        config: what its config.json says.

    Raises ValueError, in one line, where a module has no graph here, where modules do not fit each other, and where
    they give no vector of a sentence.
    """
    check_first(pipeline)
    wrong = next((entry for entry in pipeline.entries[1:] if entry.foreign or entry.name not in MAKERS), None)
    if wrong is not None:
        advice = "" if wrong.name == SCORE else f"; --task {PLAIN} writes the model alone"
        raise ValueError(f"{pipeline.root / MODULES}: {_without_graph(wrong)}{advice}")
    auto, answer, notes = ("", "", []) if pipeline.first.name == STATIC else _called(pipeline, config)
    steps: list[Step] = []
    widths = {TOKENS: _width(config)} if auto else {SENTENCE: _width(config)}
    if answer == "logits":
        widths[TOKENS] = None
    for entry in pipeline.entries[1:]:
        step = MAKERS[entry.name](pipeline, entry)
        if step is None or (isinstance(step, LayerMixStep) and not config.get("output_hidden_states")):
            continue  # the library does nothing there, too
        widths |= _widths(pipeline.root / entry.file(CONFIG), step, widths)
        steps.append(step)
    if SENTENCE not in widths:
        raise ValueError(
            f"{pipeline.root / MODULES}: {', '.join(entry.name for entry in pipeline.entries)} give a vector for each "
            f"token, and none for a sentence; --task {PLAIN} writes the model alone"
        )
    sparse = any(isinstance(step, SpladeStep) for step in steps)
    outputs = (TOKENS, SENTENCE) if auto and not sparse else (SENTENCE,)
    notes = [f"{SENTENCE} is {_words(pipeline, steps)} of {MODULES}", *notes, *_notes(pipeline, steps)]
    return SentenceEncoder(auto, answer, tuple(steps), outputs, _truncated(pipeline), tuple(notes))


def notes_of_scores(config: Mapping[str, Any], pipeline: Pipeline | None) -> list[str]:
    """Return a line on what the library makes of the logits of a cross encoder; none of another classifier."""
    of_config = config.get("sentence_transformers")
    said = [of_config.get("activation_fn")] if isinstance(of_config, Mapping) else []
    said += [pipeline.prompts.get("activation_fn")] if pipeline is not None else []
    said += [config.get("sbert_ce_default_activation_function")]
    name = next((one for one in said if isinstance(one, str)), "")
    applied = name.rpartition(".")[2][:SHOWN]
    return (
        [f"the file gives logits, to which a cross encoder of sentence-transformers applies {applied}"] if name else []
    )


def _without_graph(entry: ModuleLine) -> str:
    """Return, in words, why a module is not exported."""
    if entry.foreign:
        return f"{entry.foreign} is code of its own, which is never run"
    if entry.name in ("Router", "Asym"):
        return f"{entry.name} takes one of several models by what a text is for: give the folder of one of them"
    if entry.name == SCORE:
        return f"{SCORE} takes the logits of a text's last token: --task text-generation --last-logits gives them"
    return f"{entry.name} has no graph here: expected {', '.join((*TRANSFORMERS[:1], STATIC, *MAKERS))}"


def _called(pipeline: Pipeline, config: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """Return the class that loads the transformer, the attribute of its answer that goes on, and lines on its texts."""
    said, path = pipeline.settings, pipeline.root / pipeline.first.place
    usual = "fill-mask" if pipeline.first.name == "MLMTransformer" else PLAIN
    task = said.get("transformer_task", usual)
    if not isinstance(task, str) or task not in ANSWERS:
        raise ValueError(
            f"{path}: a transformer for {task!r} gives no vectors: expected one for {' or '.join(ANSWERS)}"
        )
    auto, answer = ANSWERS[task]
    ways = said.get("modality_config")
    way: Any = ways.get("text") if isinstance(ways, Mapping) else {"method": "forward", "method_output_name": answer}
    given = way.get("method_output_name") if isinstance(way, Mapping) else None
    if (
        given not in (answer, [answer])
        or way.get("method") != "forward"
        or said.get("module_output_name", TOKENS) != TOKENS
    ):
        raise ValueError(f"{path}: modality_config takes {way!r} of the model: expected forward, and its {answer}")
    for key in ARGUMENTS:
        more = said.get(key) or {}
        changed = [name for name in more if not key.startswith("model") or name not in HARMLESS]
        if changed:
            raise ValueError(
                f"{path}: {key} of the library's config says {', '.join(changed)}, which is not applied here: write it "
                f"to {CONFIG}"
            )
    notes = []
    if type(said.get("max_seq_length")) is int:
        notes.append(f"a tokenizer cuts texts to {said['max_seq_length']} tokens (max_seq_length), and no graph")
    if said.get("do_lower_case") is True:
        notes.append("a tokenizer makes texts lower case (do_lower_case), and no graph")
    kind = config["model_type"]
    # of an encoder and a decoder, the encoder alone: T5EncoderModel in the place of T5Model
    has_encoder = auto == "AutoModel" and class_of(OF_ENCODERS, kind) not in ("", class_of(auto, kind))
    return OF_ENCODERS if has_encoder else auto, answer, notes


def _notes(pipeline: Pipeline, steps: Sequence[Step]) -> Iterator[str]:
    """Yield lines on what the library does with texts and vectors, and no graph can."""
    said = pipeline.prompts
    prompts = said.get("prompts")
    shown = [f"{name} {text[:SHOWN]!r}" for name, text in _texts(prompts) if text]
    if shown:
        usual = said.get("default_prompt_name")
        by_default = f"; by default {usual}" if isinstance(usual, str) else ""
        yield f"prompts go before a text, and no graph adds them: {', '.join(shown)}{by_default}"
    if any(isinstance(step, PoolingStep) and not step.include_prompt for step in steps):
        yield (
            "include_prompt is false: the library leaves the tokens of a prompt out of its pooling, and the file does "
            "not know them: vectors of texts without a prompt are the library's"
        )
    if isinstance(said.get("similarity_fn_name"), str):
        yield f"vectors are compared by {said['similarity_fn_name'][:SHOWN]} (similarity_fn_name)"
    if said.get("max_active_dims") is not None:
        yield f"the library keeps the {said['max_active_dims']} largest numbers of a vector; the file gives all"


def _texts(said: object) -> Iterator[tuple[str, str]]:
    for name, text in said.items() if isinstance(said, Mapping) else ():
        if isinstance(text, str):
            yield name, text


def _words(pipeline: Pipeline, steps: Sequence[Step]) -> str:
    """Return, in words, what makes the vector of a sentence."""
    words = {PoolingStep: "Pooling", SpladeStep: "SpladePooling", LayerMixStep: "WeightedLayerPooling"}
    named = [
        f"Pooling ({' and '.join(step.modes)})"
        if isinstance(step, PoolingStep)
        else f"Dense ({step.activation})"
        if isinstance(step, DenseStep)
        else words.get(type(step), type(step).__name__.removesuffix("Step"))
        for step in steps
    ]
    return ", ".join([pipeline.first.name, *named])


def _truncated(pipeline: Pipeline) -> int | None:
    """Return to how many numbers the library cuts vectors."""
    said = pipeline.prompts.get("truncate_dim")
    if said is not None and (type(said) is not int or said < 1):
        raise ValueError(f"{pipeline.root / PROMPTS} says truncate_dim = {said!r}: expected a whole number above 0")
    return said


def _width(config: Mapping[str, Any]) -> int | None:
    """Return how many numbers the vector of a token has; None where a config does not say it by the usual name."""
    said = config.get("hidden_size", config.get("d_model"))
    return said if type(said) is int else None


def _widths(path: Path, step: Step, widths: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the widths of what a step gives; raise ValueError where it does not take those of what comes in."""
    takes = TOKENS if isinstance(step, PoolingStep | SpladeStep | LayerMixStep) else getattr(step, "takes", SENTENCE)
    if takes not in widths:
        raise ValueError(f"{path}: nothing before it gives {takes}")
    width = widths[takes]
    expected = {PoolingStep: "width", DenseStep: "sizes", LayerNormStep: "size"}.get(type(step))
    size = getattr(step, expected) if expected else None
    size = size[0] if isinstance(size, tuple) else size
    if size is not None and width is not None and size != width:
        raise ValueError(f"{path} says {size} numbers for a vector, and {width} come in")
    if isinstance(step, PoolingStep):
        known = size or width
        return {SENTENCE: None if known is None else known * len(step.modes)}
    if isinstance(step, SpladeStep):
        return {SENTENCE: None}
    if isinstance(step, DenseStep):
        return {step.gives: step.sizes[1]}
    return {getattr(step, "gives", SENTENCE if isinstance(step, LayerNormStep) else TOKENS): width}


# ---- one function for each module ------------------------------------------------------------------------------------


def _pooling(pipeline: Pipeline, entry: ModuleLine) -> PoolingStep:
    path, said = _config(pipeline, entry)
    old = [mode for key, mode in OLD_MODES.items() if said.get(key)]
    modes = said.get("pooling_mode", old or ["mean"])
    modes = [modes] if isinstance(modes, str) else modes
    known = isinstance(modes, list) and bool(modes) and all(mode in MODES for mode in modes)
    unknown = [key for key, value in said.items() if key.startswith("pooling_mode_") and value and key not in OLD_MODES]
    if not known or unknown:
        raise ValueError(
            f"{path} says {', '.join(unknown) or f'pooling_mode = {modes!r}'}: expected {', '.join(MODES)}"
        )
    width = _whole_number(path, said, "embedding_dimension", "word_embedding_dimension", missing=None)
    return PoolingStep(tuple(modes), width, said.get("include_prompt", True) is not False)


def _splade(pipeline: Pipeline, entry: ModuleLine) -> SpladeStep:
    path, said = _config(pipeline, entry)
    strategy, activation = said.get("pooling_strategy", "max"), said.get("activation_function", "relu")
    if strategy not in ("max", "sum") or activation not in ("relu", "log1p_relu"):
        raise ValueError(f"{path} says {strategy!r} and {activation!r}: expected max or sum, and relu or log1p_relu")
    return SpladeStep(strategy, activation == "log1p_relu")


def _dense(pipeline: Pipeline, entry: ModuleLine) -> DenseStep:
    path, said = _config(pipeline, entry)
    name = said.get("activation_function", "torch.nn.modules.activation.Tanh")
    found = ACTIVATION.fullmatch(name) if isinstance(name, str) else None
    if found is None or found[1] not in ACTIVATIONS:
        raise ValueError(f"{path}: the activation {name!r} is none that is known: expected {', '.join(ACTIVATIONS)}")
    takes, gives = _takes_and_gives(path, said)
    sizes = (_whole_number(path, said, "in_features"), _whole_number(path, said, "out_features"))
    bias, residual = said.get("bias", True) is not False, said.get("use_residual") is True
    return _checked(DenseStep(takes, gives, sizes, bias, found[1], residual, path, pipeline.weights(entry)))


def _normalize(pipeline: Pipeline, entry: ModuleLine) -> NormalizeStep:
    return NormalizeStep(*_takes_and_gives(pipeline.root / entry.file(CONFIG), pipeline.said(entry)))


def _layer_norm(pipeline: Pipeline, entry: ModuleLine) -> LayerNormStep:
    path, said = _config(pipeline, entry)
    return _checked(LayerNormStep(_whole_number(path, said, "dimension"), path, pipeline.weights(entry)))


def _layer_mix(pipeline: Pipeline, entry: ModuleLine) -> LayerMixStep:
    path, said = _config(pipeline, entry)
    first = _whole_number(path, said, "layer_start", missing=4)
    layers = _whole_number(path, said, "num_hidden_layers", missing=12)
    return _checked(LayerMixStep(first, layers, path, pipeline.weights(entry)))


def _nothing(pipeline: Pipeline, entry: ModuleLine) -> None:
    """A dropout, which does nothing but in training."""


MAKERS: Mapping[str, Callable[[Pipeline, ModuleLine], Step | None]] = {
    "Pooling": _pooling,
    "SpladePooling": _splade,
    "Dense": _dense,
    "Normalize": _normalize,
    "LayerNorm": _layer_norm,
    "WeightedLayerPooling": _layer_mix,
    "Dropout": _nothing,
}
"""The modules that have a graph here, behind the first."""


def _config(pipeline: Pipeline, entry: ModuleLine) -> tuple[Path, dict[str, Any]]:
    """Return the config of a module and what it says; raise ValueError where it has none."""
    name = entry.file(CONFIG)
    if name not in pipeline.files:
        raise ValueError(f"{pipeline.root / MODULES} names {entry.name}, and there is no {name}")
    return pipeline.root / name, pipeline.said(entry)


def _takes_and_gives(path: Path, said: Mapping[str, Any]) -> tuple[str, str]:
    takes = said.get("module_input_name") or SENTENCE
    gives = said.get("module_output_name") or takes
    if not {takes, gives} <= {TOKENS, SENTENCE}:
        raise ValueError(f"{path} takes {takes!r} and gives {gives!r}: expected {TOKENS} or {SENTENCE}")
    return takes, gives


def _whole_number(path: Path, said: Mapping[str, Any], *names: str, missing: Any = ...) -> Any:
    """Return a whole number of a config, by the first of its names that is there."""
    value = next((said[name] for name in names if said.get(name) is not None), missing)
    if value is ... or (value is not missing and (type(value) is not int or value < 0)):
        raise ValueError(
            f"{path} says {names[0]} = {'nothing' if value is ... else repr(value)}: expected a whole number"
        )
    return value


def _checked(step: W) -> W:
    """Return a step whose weights have the shapes that its config says; pickled ones tell when they are loaded."""
    if step.weights.suffix == ".safetensors":
        check_stored(step, {tensor.name: tensor.shape for tensor in header_of(step.weights)})
    return step
