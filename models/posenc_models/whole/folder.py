"""A model's folder, as `save_pretrained` writes it, and the module that is exported from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from posenc.spec import TORCH_NAMES, DType
from posenc_models.whole.adapters import look_at_adapter
from posenc_models.whole.choice import (
    FEATURES,
    check_one_model,
    check_stacks,
    check_type,
    check_unquantized,
    sentences_of,
    task_of_architecture,
)
from posenc_models.whole.contents import look
from posenc_models.whole.download_cache import folder_of
from posenc_models.whole.loading import Checkpoint, error_line, load_checkpoint, quiet_transformers
from posenc_models.whole.memories import KEY_VALUES, ports_of, ports_of_stacks
from posenc_models.whole.model_memories import memories_of_model
from posenc_models.whole.pipeline import MODULES, SENTENCE, SentenceEncoder, notes_of_scores, sentence_encoder
from posenc_models.whole.port_texts import (
    config_values,
    fill_ports,
    fill_text,
    port_lines,
    position_count,
    receptive_field,
)
from posenc_models.whole.quantized import BITS, Quantize, round_linear
from posenc_models.whole.tasks import (
    DECODER_FILE,
    EMBEDDINGS,
    ENCODER_FILE,
    HIDDEN,
    LOGITS,
    SENTENCE_SIMILARITY,
    TASKS,
    TEXT,
    TYPES,
    WORDS_FILE,
    Task,
    all_tasks,
    positions_of_token,
    task_of,
)
from posenc_models.whole.trials import check_answers, check_takes, notes_of_inputs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from posenc.picture_places import PicturePlaces, Sense
    from posenc_models.vision import GridRule, OwnPositions
    from posenc_models.whole.scenes import OwnAnswer

WINDOWS, WIDEST = ("sliding_window", "window_size", "attention_window", "local_attention"), 512
DTYPES: tuple[DType, ...] = ("fp32", "fp16", "bf16")
"""The dtypes that a whole model may have."""
SMALL, MANY, FEW, ROOM = 50_000_000, 200, 32, 16
"""Parameters below which a model writes many tokens; how many those are; how many others write; room for prompts."""
HIDDEN_STATES = "a vector for each token"
PLACES = 16
"""Places of the longest sound that is tried by default, or twice as many: their fields overlap."""
NUMERALS = {3: "three", 4: "four"}
TEXTS = ("text_config", "decoder")
"""Keys of the config of what writes or reads text, where others stand beside it."""
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
        places: where embeddings of pictures go in a prompt, if the model sees or hears.
        rows: what the first axis of outputs is called where no input has it.
    """

    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]
    config: Mapping[str, Any]
    generates: int = 0
    begins: tuple[int, ...] = ()
    places: PicturePlaces | None = None
    rows: str = ""


@dataclass(frozen=True)
class ModelFolder(Checkpoint):
    """A folder with a config.json and weights, and how its model is exported: `load` makes it.

    Args:
        exact: whether exact positions take the place of a rotary model's own.
        part: which of the model's graphs `build` makes, by the name of its file; "" for the only one, or the decoder.
        by_weight: whether its reference in float64 widens one weight after the other, and does not hold all.
        quantize: what the weights of linear layers are rounded to; None for nothing.
        counts_positions: whether positions are counted from the mask, and do not go in.
        last_token: whether logits are those of the last token alone.
        any_image_size: whether images have any size that the model takes.
    """

    exact: bool = True
    part: str = ""
    by_weight: bool = False
    quantize: Quantize | None = None
    counts_positions: bool = False
    last_token: bool = False
    any_image_size: bool = False

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
        any_image_size: bool = False,
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
            any_image_size: whether images have any size that the model takes, and not one.

        Raises ValueError, in one line, where it is no such folder, and where no task is known for it.
        """
        if dtype not in DTYPES:
            raise ValueError(f"a whole model has no dtype {dtype}: expected one of {', '.join(DTYPES)}")
        if quantize is not None and quantize not in BITS:
            raise ValueError(f"weights cannot be {quantize}: expected one of {', '.join(BITS)}")
        if quantize is not None and dtype == "bf16":
            raise ValueError(f"--quantize {quantize} is for --dtype fp32 or fp16: no runtime here runs it in bf16")
        contents = look(folder_of(path))
        config = contents.config
        check_unquantized(contents)
        if task is not None and task not in TASKS:
            raise ValueError(f"unknown task {task!r}: expected one of {', '.join(TASKS)}")
        sentences = sentences_of(contents, task)
        if sentences is not None:
            chosen = sentences.task(TASKS[SENTENCE_SIMILARITY][0])
        else:
            chosen = task_of(task, config) if task else task_of_architecture(contents.path, config)
        _check_fits(chosen, last_token=last_token, any_image_size=any_image_size)
        check_stacks(config, chosen)
        check_one_model(config, chosen)
        check_type(config, chosen)
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
            any_image_size=any_image_size,
            sentences=sentences,
        )

    @property
    def precision(self) -> str:
        """What its numbers are, in a word or two: fp32, fp16, int4, int4 and fp16."""
        names = (self.quantize or "", self.dtype if self.dtype != "fp32" or not self.quantize else "")
        return " and ".join(filter(None, names))

    @property
    def length(self) -> int:
        """Up to which length calls are tried, where nobody says it: beyond the edge of a narrow window."""
        said = self._text
        windows = [self.config[key] for key in WINDOWS if isinstance(self.config.get(key), int)]
        edge = max((window + 16 for window in windows if window <= WIDEST), default=0)
        if self.task.kind == "sounds":
            # a length counts samples, of which a place of the network takes many
            edge = PLACES * receptive_field(self.config)
            return max(USUAL_LENGTH, edge)
        if self.any_image_size:
            return max((USUAL_LENGTH, *(side * 5 // 4 for side in self._usual_sides)))
        positions = position_count(said) or WIDEST
        # behind an encoder no input says which positions tokens have: those of the cache and of the call add up
        return min(max(USUAL_LENGTH, edge), positions // 2 if self.task.encoder else positions)

    @property
    def positions(self) -> int | None:
        """How many positions its text has; None where the config does not say it, or a length counts something else."""
        if self.task.kind in ("sounds", "features", "images"):
            return None
        return position_count(self._text)

    @property
    def _usual_sides(self) -> tuple[int, ...]:
        """The sides of images as the config says them, or the processor beside it; none where neither does."""
        sides = self.config.get("image_size") or self.contents.image_size or ()
        return tuple(sides) if isinstance(sides, Sequence) else (sides, sides)

    @property
    def _text(self) -> Mapping[str, Any]:
        """What the config says of the part that writes or reads text: the whole of it, where there is no other."""
        return next((part for key in TEXTS if isinstance(part := self.config.get(key), Mapping)), self.config)

    @property
    def name(self) -> str:
        """What the export is called: the model's type and the task."""
        return f"{self.config['model_type']}:{self.task.name}"

    @property
    def file(self) -> str:
        """What the graph's file is called, without its ending, where it is not a model's only one."""
        return self.part or (DECODER_FILE if self.task.encoder or self.task.sense else "")

    @property
    def others(self) -> tuple[Self, ...]:
        """The model's other graphs: the encoder of a decoder, or the tower and the words of one that sees or hears."""
        if self.part:
            return ()
        found = [replace(self, part=ENCODER_FILE)] if self.task.encoder else []
        if self.task.sense:
            # a table of words has no linear layer
            found = [replace(self, part=self.task.sense.file), replace(self, part=WORDS_FILE, quantize=None), *found]
        return tuple(found)

    def grid_rule(self) -> tuple[GridRule, OwnPositions] | None:
        """Return how the model counts the positions of images and videos, and its own function; None if it has no such.

        Raises ValueError, in one line, where it counts them by a rule that is not known.
        """
        if self.task.kind != "scenes" or self.part or positions_of_token(self.config) == 1:
            return None
        import transformers

        from posenc_models.vision import rule_of

        with self.contents.private_folder() as place, quiet_transformers():
            return rule_of(transformers.AutoConfig.from_pretrained(place, trust_remote_code=False))

    def _positions(self) -> Callable[[Tensor, Mapping[str, Tensor]], Tensor] | None:
        """Return what counts positions of a prompt's tokens, where pictures change them: of ids and their grids."""
        found = replace(self, part="").grid_rule()
        if found is None:
            return None
        import torch

        from posenc_models.vision import grid_positions

        rule, _ = found

        def count(ids: Tensor, pictures: Mapping[str, Tensor]) -> Tensor:
            positions, _ = grid_positions(rule, ids.numpy(), image_grid_thw=pictures["image_grid_thw"].numpy())
            return torch.from_numpy(positions)

        return count

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
        model, unread = load_checkpoint(self, trial)
        from posenc_models.whole.scenes import text_writer

        if self.quantize is not None:
            round_linear(model, self.quantize)
        # asked before anything else takes the place of its own
        sense = self.task.sense
        own = self._own_answer(model, sense) if trial and sense and self.part == sense.file else None
        notes = [*_code_of_its_own(self, model), *unread, *([_exact(model)] if self.exact else [])]
        pipeline = self.contents.pipeline
        if pipeline is not None and pipeline.behind and self.sentences is None:
            gives = HIDDEN_STATES if self.task.outputs == HIDDEN else ", ".join(self.task.outputs)
            notes.append(f"{', '.join(pipeline.behind)} of {MODULES} are not in the file: it gives {gives}")
        if self.contents.adapter and self.adapter is None:
            notes.append("the adapter beside the weights is not in the file: --adapter merges it")
        if self.task.kind == "scenes" and sense is None:
            count = positions_of_token(config_values(model))
            several = f", whose tokens have {NUMERALS.get(count, count)} positions each" * (count > 1)
            tasks = (one.name for one in all_tasks() if one.sense and set(one.sense.parts) & set(self.config))
            advice = next((f"; --task {name} takes them" for name in tasks), "")
            notes.append(f"the graph reads text alone{several}: images and sounds are left out{advice}")
        if sense and self.part in (sense.file, WORDS_FILE):
            return self._part_of_scene(model, sense, notes, own)
        if self.part:
            encoder = model.get_encoder()
            check_takes(encoder, self.task.encoder, self.task.name, self.origin == "--task", type(model).__name__)
            return self._encoder(encoder, notes, model, trial=trial)
        if self.task.encoder:
            return self._decoder(model, notes, trial=trial)
        reads = text_writer(model) if sense else model
        check_takes(reads, self.task.inputs, self.task.name, self.origin == "--task")
        is_decoder = self.task.cache
        return self._decoder(model, notes, trial=trial) if is_decoder else self._encoder(model, notes, trial=trial)

    def _encoder(self, model: Any, notes: Sequence[str], of: Any = None, *, trial: bool) -> WholeModel:
        """Return a model without a cache: the whole one, or the encoder of one, which has the config."""
        from posenc_models.whole.end_tokens import EndCall, LastOfEach, notes_of_ends
        from posenc_models.whole.image_sizes import ANY_SIDES, free_sides, stretching, with_sides
        from posenc_models.whole.modules import EncoderCall

        whole = model if of is None else of
        inputs, outputs = (self.task.encoder, HIDDEN) if self.part else (self.task.inputs, self.task.outputs)
        takes = inspect.signature(model.forward).parameters
        image_size = self.contents.image_size if self.task.kind == "images" else None
        keywords: Mapping[str, bool] = {}
        if self.any_image_size:
            keywords = stretching(model)
            sides, lines = free_sides(whole, partial(model, **keywords), self._usual_sides) if trial else ANY_SIDES
            inputs, notes = {name: with_sides(text, sides) for name, text in inputs.items()}, [*notes, *lines]
        filled = fill_ports(whole, self.dtype, inputs, takes, image_size)
        behind = self.sentences
        module: nn.Module = (
            EncoderCall(model, list(filled), tuple(outputs.values()), keywords)
            if behind is None
            else self._with_sentences(model, list(filled), behind)
        )

        ends = EndCall(module) if self.task.either and self.config.get("is_encoder_decoder") is True else None
        module = ends or module

        def call(*tensors: Tensor) -> Any:
            with quiet_transformers(), LastOfEach() if ends else nullcontext():
                return model(**dict(zip(filled, tensors, strict=True)), return_dict=True, **keywords)

        if trial:
            wanted = outputs.values() if behind is None else (behind.answer,)
            output = check_answers(whole, call, filled, wanted, cached=False)
            notes = [*notes, *(notes_of_ends(whole, ends, list(filled)) if ends else ())]
            notes += notes_of_inputs(model, filled) if of is None else ()
            if behind is not None:
                _check_width(self, getattr(output, behind.answer).shape[-1])
        of_scores = notes_of_scores(self.config, self.contents.pipeline) if outputs == LOGITS else ()
        lines = (*(behind.notes if behind else ()), *of_scores, *notes)
        return WholeModel(module.eval(), port_lines(filled), tuple(outputs), lines, config_values(whole))

    def _part_of_scene(self, model: Any, sense: Sense, notes: Sequence[str], own: OwnAnswer | None) -> WholeModel:
        """Return the tower of a model, or its words; own: what the whole model must say, if it is tried."""
        from posenc_models.whole.scenes import Tower, check_scene, layer_features
        from posenc_models.whole.words import words_of

        said = config_values(model)
        if self.part == WORDS_FILE:
            ports = {"input_ids": fill_text(TEXT["input_ids"], said, None)}
            return WholeModel(words_of(model).eval(), port_lines(ports), (EMBEDDINGS,), (), said)
        filled = self._picture_ports(model, sense) if own is None else own.ports
        if own is not None:
            check_scene(model, own, self._positions())
        outputs = (sense.features, *layer_features(model, sense, filled))
        tower = Tower(model, sense, list(filled)).eval()
        return WholeModel(tower, port_lines(filled), outputs, tuple(notes), said, rows=sense.rows)

    def _own_answer(self, model: Any, sense: Sense) -> OwnAnswer:
        """Return what the whole model says of a prompt with a picture."""
        from posenc_models.whole.scenes import own_answer

        return own_answer(model, sense, self._picture_ports(model, sense))

    def _picture_ports(self, model: Any, sense: Sense) -> Mapping[str, str]:
        """Return what goes into the tower of a model, by its names: the rest of the text of each port."""
        from posenc_models.whole.scenes import picture_ports

        return picture_ports(
            model, sense, lambda ports: fill_ports(model, self.dtype, ports, set(ports), self.contents.image_size)
        )

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
        texts = {name: fill_text(TEXT[name], self.config, None) for name in ("input_ids", "attention_mask")}
        return WholeModel(module.eval(), port_lines(texts), tuple(self.task.outputs), encoder.notes, self.config)

    def _decoder(self, model: Any, notes: Sequence[str], *, trial: bool) -> WholeModel:
        """Return a model with a cache: a whole one, or the decoder of one."""
        from posenc_models.whole.first_position import first_position
        from posenc_models.whole.modules import DecoderCall, DecoderOfEncoder
        from posenc_models.whole.scenes import SceneDecoder, layer_features, places_of, text_writer

        whole, two, sense = model, bool(self.task.encoder), self.task.sense
        if sense:
            model = text_writer(model)
        said = config_values(model)
        takes = set(self.task.inputs) if two else set(inspect.signature(model.forward).parameters)
        filled = fill_ports(model, self.dtype, self.task.inputs, takes)
        # several positions a token are of images, which no mask counts
        counted = (
            self.counts_positions and "attention_mask" in filled and filled.get("position_ids", "").count(",") == 1
        )
        if counted:
            del filled["position_ids"]
            notes = [*notes, COUNTED]
        if self.last_token and not two:
            notes = [*notes, LAST]
        layers, cache = memories_of_model(model, behind_encoder=two)
        of_layers = ports_of_stacks(layers) if two else ports_of(layers)
        before, after = KEY_VALUES
        caches = {before.format(layer=layer, part=part): text for (layer, part), text in of_layers.items()}
        memory = None
        if not all(one.grows for memories in layers for one in memories):
            from posenc_models.whole.caches import call_with_states

            with quiet_transformers():
                memory, lines = call_with_states(model, list(filled), layers, cache)
            notes = [*notes, *lines]
        added: dict[str, str] = {}
        if sense and not two:
            added = dict.fromkeys(layer_features(whole, sense, self._picture_ports(whole, sense)), filled[EMBEDDINGS])
        module = (
            DecoderOfEncoder(model, list(filled))
            if two
            else SceneDecoder(model, list(filled), len(added), last=self.last_token, memory=memory)
            if added
            else DecoderCall(model, list(filled), counted, self.last_token, memory, first=first_position(model))
        )
        ports = {**filled, **added, **caches}
        if trial:
            check_answers(model, module.eval(), ports, (), cached=True)
        few = sum(parameter.numel() for parameter in model.parameters()) < SMALL
        positions = position_count(said)
        generates = min(MANY if few else FEW, (positions or MANY + ROOM) - ROOM)
        return WholeModel(
            module.eval(),
            port_lines(ports),
            (*self.task.outputs, *(after.format(layer=layer, part=part) for layer, part in of_layers)),
            (*notes, *_growing(said)),
            said,
            max(generates, 0),
            (_begin(model),) if two else (),
            places_of(whole, sense) if sense else None,
        )


def _check_fits(task: Task, *, last_token: bool, any_image_size: bool) -> None:
    """Raise ValueError where an option is for models of other tasks."""
    if last_token and (task.encoder or not task.cache):
        raise ValueError(f"--last-logits is for decoders that read a prompt, and {task.name} has none: leave it out")
    if any_image_size and (task.encoder or task.kind != "images"):
        raise ValueError(
            f"--any-image-size is for models of one image that answer in one call, and {task.name} is for others: "
            "leave it out"
        )


def _check_width(folder: ModelFolder, width: int) -> None:
    """Raise ValueError where what comes behind a model is not made for as many numbers as it gives for a token."""
    if folder.contents.pipeline is not None:
        sentence_encoder(folder.contents.pipeline, {**folder.config, "hidden_size": width})


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
        return f"positions are computed as the model does: {error_line(error).partition(': expected')[0]}"
    return f"rotary angles are exact: {', '.join(f'{name} was {words}' for name, words in replaced.items())}"


def _begin(model: Any) -> int:
    """Return the token with which a decoder begins; where none is said, that which begins a text, as in `generate`."""
    names = ("decoder_start_token_id", "bos_token_id")
    configs = (model.generation_config, model.config, model.config.get_text_config(decoder=True))
    said = [getattr(config, name, None) for name in names for config in configs]
    return next((token for token in said if isinstance(token, int)), 0)


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
