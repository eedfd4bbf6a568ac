"""Folders as sentence-transformers writes them: small models with random weights, and every module that is exported."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from safetensors.numpy import save_file

from helpers.model_folders import FEATURES, GROUPED, MASKED, SEQUENCES, SMALL, T5, WORDS, Small
from helpers.shared import DATA, Once
from posenc.ports import Array

WORDS_KNOWN = ("a", "b", "cat", "dog", "sat", "ran", "on", "the", "mat", "road", "sun", "sea", "is", "red", "blue")
LIBRARY = "sentence_transformers."
SPARSE = ("MLMTransformer", "SpladePooling")
"""Modules of its sparse encoders."""
WIDTH = 16


@dataclass(frozen=True)
class Module:
    """A module behind the first.

    Args:
        kind: its class in sentence-transformers.
        config: what its config.json says; None where it has none.
        shapes: its weights.
        pickled: whether these are in pytorch_model.bin.
        how: its mode, or its activation.
    """

    kind: str
    config: Mapping[str, Any] | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pickled: bool = False
    how: str = ""

    @property
    def words(self) -> str:
        """What it does, in words."""
        return f"{self.kind} ({self.how})" if self.how else self.kind


def pooling(*modes: str, width: int = WIDTH, **more: Any) -> Module:
    """A pooling, as the library writes it since its release 5.4."""
    said = modes[0] if len(modes) == 1 else list(modes)
    config = {"embedding_dimension": width, "pooling_mode": said, "include_prompt": True, **more}
    return Module("Pooling", config, how=" and ".join(modes))


def old_pooling(*modes: str, width: int = WIDTH) -> Module:
    """A pooling, as most folders on the Hub have it."""
    keys = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    config = {"word_embedding_dimension": width, **{f"pooling_mode_{key}": key in modes for key in keys}}
    how = " and ".join(key.removesuffix("_token").removesuffix("_tokens") for key in keys if key in modes)
    return Module("Pooling", config, how=how)


def dense(rows: int, columns: int, activation: str = "Tanh", bias: bool = True, **more: Any) -> Module:
    """A dense layer: of numbers around 0.3, so that its activation bends."""
    module = "linear" if activation == "Identity" else "activation"
    config = {"in_features": rows, "out_features": columns, "bias": bias}
    shapes = {"linear.weight": (columns, rows), **({"linear.bias": (columns,)} if bias else {})}
    if more.get("use_residual") and rows != columns:
        shapes["residual.weight"] = (columns, rows)
    pickled = bool(more.pop("pickled", False))
    name = f"torch.nn.modules.{module}.{activation}"
    return Module("Dense", {**config, "activation_function": name, **more}, shapes, pickled, activation)


NORM, OLD_NORM = Module("Normalize", {"module_input_name": "sentence_embedding"}), Module("Normalize")


@dataclass(frozen=True)
class Encoder:
    """A folder of sentence-transformers.

    Args:
        title: what it stands for.
        model: the transformer; None for static vectors.
        modules: what comes behind it.
        first: the class of the first module.
        place: its folder.
        settings: what sentence_bert_config.json says.
        prompts: what config_sentence_transformers.json says.
        task: what it is exported for.
        side: the side of padding that its tokenizer is for.
    """

    title: str
    model: Small | None
    modules: Sequence[Module] = ()
    first: str = "Transformer"
    place: str = ""
    settings: Mapping[str, Any] = field(default_factory=lambda: {"max_seq_length": 24, "do_lower_case": False})
    prompts: Mapping[str, Any] = field(default_factory=dict)
    task: str = "sentence-similarity"
    side: str = "right"

    @property
    def kind(self) -> str:
        """The type of its model."""
        return self.model.kind if self.model is not None else "static"

    @property
    def auto(self) -> str:
        """The class of transformers that makes it."""
        return self.model.auto if self.model is not None else ""

    @property
    def words(self) -> str:
        """What comes behind the model, in words."""
        return ", ".join(module.words for module in self.modules)

    def save(self, folder: Path) -> None:
        """Write the folder."""
        inner = folder / self.place
        inner.mkdir(parents=True, exist_ok=True)
        numbers = np.random.default_rng(7)
        if self.model is not None:
            self.model.save(inner)
            (inner / "sentence_bert_config.json").write_text(json.dumps(self.settings))
        else:
            save_file(
                {"embedding.weight": numbers.normal(size=(32, WIDTH)).astype(np.float32)}, inner / "model.safetensors"
            )
        save_tokenizer(inner, self.side)
        lines = [{"idx": 0, "name": "0", "path": self.place, "type": kind_of(self.first)}]
        for number, module in enumerate(self.modules, 1):
            place = f"{number}_{module.kind}"
            lines.append({"idx": number, "name": str(number), "path": place, "type": kind_of(module.kind)})
            save_module(folder / place, module, numbers)
        (folder / "modules.json").write_text(json.dumps(lines))
        if self.prompts:
            (folder / "config_sentence_transformers.json").write_text(json.dumps(self.prompts))


def kind_of(name: str) -> str:
    """Return the whole name of a module, as modules.json has it."""
    return f"{LIBRARY}{'sparse_encoder.' * (name in SPARSE)}models.{name}"


def save_module(place: Path, module: Module, numbers: np.random.Generator) -> None:
    """Write the folder of a module: its config, and weights at random."""
    place.mkdir(exist_ok=True)
    if module.config is not None:
        (place / "config.json").write_text(json.dumps(module.config))
    arrays = {name: numbers.normal(scale=0.3, size=shape).astype(np.float32) for name, shape in module.shapes.items()}
    if "layer_weights" in arrays:
        arrays["layer_weights"] = 1 + arrays["layer_weights"]
    if module.pickled:
        import torch

        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, place / "pytorch_model.bin")
    elif arrays:
        save_file(arrays, place / "model.safetensors")


def save_tokenizer(folder: Path, side: str = "right") -> None:
    """Write a tokenizer of words: token 0 is padding, and 1 is a word that it does not know."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(("[PAD]", "[UNK]", *WORDS_KNOWN))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", padding_side=side, model_max_length=64
    ).save_pretrained(folder)


def _small(title: str, kind: str, config: Mapping[str, Any], auto: str = FEATURES, **added: Any) -> Small:
    return Small(title, kind, auto, config, added)


BERT = _small("BERT", "bert", SMALL)
CLASSIFIER: Mapping[str, Any] = {**SMALL, "num_labels": 1}
ENCODERS: Mapping[str, Encoder] = {
    "bert-mean": Encoder(
        "MiniLM (all-MiniLM-L6-v2)",
        BERT,
        (old_pooling("mean_tokens"), OLD_NORM),
        prompts={"prompts": {"query": "query: ", "document": ""}, "similarity_fn_name": "cosine"},
    ),
    "qwen3-last": Encoder(
        "Qwen3-Embedding",
        _small("Qwen3", "qwen3", GROUPED, "AutoModelForCausalLM"),
        (pooling("lasttoken"), NORM),
        side="left",
    ),
    "t5-dense": Encoder(
        "sentence-t5",
        _small("T5's encoder", "t5", T5, "AutoModelForTextEncoding"),
        (old_pooling("mean_tokens"), dense(WIDTH, 12, "Identity", bias=False), NORM),
    ),
    "mpnet-cls": Encoder("MPNet with its first token", _small("MPNet", "mpnet", SMALL), (old_pooling("cls_token"),)),
    "xlm-r-max": Encoder("XLM-R with the largest", _small("XLM-R", "xlm-roberta", SMALL), (pooling("max"), NORM)),
    "distilbert-dense": Encoder(
        "distiluse",
        _small("DistilBERT", "distilbert", {**WORDS, "dim": WIDTH, "hidden_dim": 24, "n_layers": 2, "n_heads": 2}),
        (pooling("mean"), dense(WIDTH, 8, pickled=True)),
        place="0_Transformer",
    ),
    "bert-sqrt": Encoder(
        "BERT, over square roots",
        BERT,
        (pooling("mean_sqrt_len_tokens"), dense(WIDTH, 8, "GELU", use_residual=True)),
    ),
    "gpt2-weighted": Encoder(
        "SGPT",
        _small("GPT-2", "gpt2", {**SMALL, "n_embd": WIDTH, "n_layer": 2, "n_head": 2, "n_positions": 256}),
        (pooling("weightedmean"),),
    ),
    "bert-several": Encoder(
        "BERT, three ways joined, and a norm",
        BERT,
        (
            old_pooling("max_tokens", "cls_token", "mean_tokens"),
            Module("LayerNorm", {"dimension": 3 * WIDTH}, {"norm.weight": (3 * WIDTH,), "norm.bias": (3 * WIDTH,)}),
        ),
        prompts={"truncate_dim": 40},
    ),
    "bert-layers": Encoder(
        "BERT, a mean of its layers",
        _small("BERT", "bert", SMALL, output_hidden_states=True),
        (
            Module(
                "WeightedLayerPooling",
                {"embedding_dimension": WIDTH, "layer_start": 1, "num_hidden_layers": 2},
                {"layer_weights": (2,)},
            ),
            pooling("mean"),
            Module("Dropout", {"dropout": 0.1}),
        ),
    ),
    "static": Encoder("static vectors (model2vec)", None, (NORM,), first="StaticEmbedding", place="0_StaticEmbedding"),
    "splade": Encoder(
        "SPLADE",
        _small("BERT", "bert", SMALL, MASKED),
        (Module("SpladePooling", {"pooling_strategy": "max", "activation_function": "relu"}, how="max"),),
        first="MLMTransformer",
        prompts={"model_type": "SparseEncoder", "max_active_dims": None},
    ),
    "splade-sum": Encoder(
        "SPLADE of OpenSearch",
        _small(
            "DistilBERT",
            "distilbert",
            {**WORDS, "dim": WIDTH, "hidden_dim": 24, "n_layers": 2, "n_heads": 2},
            MASKED,
        ),
        (Module("SpladePooling", {"pooling_strategy": "sum", "activation_function": "log1p_relu"}, how="sum"),),
        settings={"transformer_task": "fill-mask", "max_seq_length": 24},
        prompts={"model_type": "SparseEncoder", "max_active_dims": 20},
    ),
    "cross": Encoder(
        "a cross encoder (ms-marco-MiniLM)",
        _small(
            "BERT",
            "bert",
            CLASSIFIER,
            SEQUENCES,
            sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"},
        ),
        task="text-classification",
    ),
    "cross-modules": Encoder(
        "a cross encoder with modules.json",
        _small("XLM-R", "xlm-roberta", CLASSIFIER, SEQUENCES),
        settings={"transformer_task": "sequence-classification", "max_seq_length": 24},
        prompts={"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.activation.Sigmoid"},
        task="text-classification",
    ),
}
"""Folders that are exported, by a short name."""
QUICK = ("bert-mean", "qwen3-last", "t5-dense")
"""Those of the quick run: a mean and a norm, the last token behind padding on the left, and a dense layer."""


def saved_encoder(once: Once, name: str) -> Path:
    """A folder of sentence-transformers."""
    return once(f"encoder-{name}", ENCODERS[name].save)


VECTORS = DATA / "sentence_vectors.npz"
"""What sentence-transformers gives for `texts_of` each folder: runtime_tests/scripts/sentence_vectors.py makes it."""


@dataclass(frozen=True)
class Texts:
    """A batch of texts.

    Args:
        ids: (batch, seq).
        mask: (batch, seq): 1 for tokens.
    """

    ids: Array
    mask: Array

    def error(self, output: str, found: Array, expected: Array) -> float:
        """Return how far an output is from another at most, as a share of the largest number, but for padding.

        Where one of them is no finite number, the other must be none: the largest of no tokens is minus infinity.
        """
        assert found.shape == expected.shape, (output, found.shape, expected.shape)
        here = self.mask == 1 if output == "token_embeddings" else np.ones(len(found), bool)
        ours, theirs = found[here].astype(np.float64), expected[here].astype(np.float64)
        finite = np.isfinite(theirs)
        if not np.array_equal(np.isfinite(ours), finite):
            return float("inf")
        scale = np.abs(theirs[finite]).max(initial=0.0) or 1.0
        return float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0) / scale)


def texts_of(name: str) -> list[Texts]:
    """Return texts of unlike lengths with padding on either side, one of one token, one alone, and an empty one."""
    numbers = np.random.default_rng(len(name))
    batches = (
        ((7, 3, 1), False),
        ((7, 3, 1), True),
        ((1,), False),
        ((5,), False),
        ((9, 0, 4), False),
        ((9, 0, 4), True),
    )
    made = []
    for lengths, is_left in batches:
        seq = max(lengths) + 2 * (len(lengths) > 1)
        order = np.arange(seq)[::-1] if is_left else np.arange(seq)
        mask = (order < np.array(lengths)[:, None]).astype(np.int64)
        made.append(Texts(numbers.integers(2, 17, mask.shape) * mask, mask))
    return made


def session_of(path: Path) -> Callable[[Array, Array], dict[str, Array]]:
    """Return a function that runs an ONNX file on ids and a mask, with types of tokens where it takes them."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs, outputs = ([port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs()))

    def run(ids: Array, mask: Array) -> dict[str, Array]:
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return dict(zip(outputs, session.run(None, {name: feeds[name] for name in inputs}), strict=True))

    return run
