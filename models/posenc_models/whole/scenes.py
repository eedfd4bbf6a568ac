"""Models that see or hear, as several graphs: a tower of pictures, a table of words, and the decoder that reads both.

The tower gives embeddings, as many rows for a picture as its prompt has places for it. A place is a token of the id
that the config calls `image_token_id`; its embedding is replaced. transformers' own `get_image_features` is the tower,
with what brings its vectors to the decoder's width. Spectra of sounds are pictures, too: a `Sense` says what differs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc.libraries import library_class, replaced
from posenc.picture_places import HEARING, SIGHT, PicturePlaces, Sense
from posenc_models.vision.towers import sounds_in_blocks, sounds_in_windows, traceable_towers
from posenc_models.whole.caches import ROUNDINGS
from posenc_models.whole.inner_features import inner_features
from posenc_models.whole.modules import DecoderCall
from posenc_models.whole.tasks import LAYER_FEATURES, OF_SENSES, SECTIONS, TYPES, WRITES, positions_of_token
from posenc_models.whole.trials import axes_in, failure_line
from posenc_models.whole.words import words_of

Positions = Callable[[Tensor, Mapping[str, Tensor]], Tensor]
LETTERS = 3
"""Tokens of text before a picture, and behind it, in the call that a model is tried with."""
MODAL_TYPES = "mm_token_type_ids"
"""What a model that counts positions of pictures is told their tokens by."""
# what texts of ports say of sizes
GRIDS, RANGE = re.compile(r"(grids|frames) of [\w*]+ % (\d+)"), re.compile(r"64\[.*, 2\] in (\d+)\.\.(\d+)")
BLOCKS = re.compile(r"blocks of (\w+) % (\d+)")
MULTIPLE, LEAST = re.compile(r"% (\d+)"), re.compile(r">= (\d+)")
WHOLE = {"int": torch.int64, "bool": torch.bool}
"""Dtypes of what says where pictures are, by what the texts of ports begin with."""
LAYERS_OF, ADDS = "deepstack_features", "_deepstack_process"
"""Where transformers has what is added to hidden states behind layers, and the method that adds it."""
CACHE = "past_key_values"
"""What `forward` calls the cache that it takes."""
COUNTS_PICTURES = "get_rope_index"
"""The method of transformers that counts positions over pictures."""
TEXT_ALONE = "; --task text-generation writes its text alone"
"""What is said last of a model that is not exported with its pictures."""
PROCESSED_TYPES = "return_mm_token_type_ids"
"""The attribute of a processor's class that says whether the tokens of pictures have a type of their own."""


class Tower(nn.Module):
    """Pictures to embeddings: (rows, hidden), those of each picture behind those of the one before.

    Args:
        model: the whole model.
        sense: what the pictures are of.
        inputs: the names of what its tower takes, in the order in which tensors come.
    """

    def __init__(self, model: nn.Module, sense: Sense, inputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.sense, self.inputs = model, sense, tuple(inputs)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the embeddings of all pictures, then what is added to hidden states behind layers, if anything is."""
        own, given = _methods(self.model, self.sense), dict(zip(self.inputs, tensors, strict=True))
        features = own[0] if own else inner_features(self.model, places_of(self.model, self.sense).token)
        present = [given.pop(name) for name in _masks_of_rows(self.model, self.sense) if name in given]
        with traceable_towers(), sounds_in_blocks(self.model), sounds_in_windows(self.model):
            found = features(**given, return_dict=True)
        rows = _rows_present(found.pooler_output, present[0]) if present else found.pooler_output
        return tuple(map(_in_a_row, (rows, *(getattr(found, LAYERS_OF, None) or ()))))


def _rows_present(rows: Tensor, present: Tensor) -> Tensor:
    """Return the rows that are there, (rows, hidden), of (sounds, rows, hidden): none beyond the end of a mask."""
    place = torch.arange(rows.shape[1], device=rows.device)
    last = present.shape[1] - 1
    return rows[present[:, place.clamp(max=last)] & (place <= last)]


def _in_a_row(found: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the vectors of all pictures, (rows, hidden): they come as one tensor, or as one for each picture."""
    rows = found if isinstance(found, Tensor) else torch.cat([one.reshape(-1, one.shape[-1]) for one in found])
    return rows.reshape(-1, rows.shape[-1])


def text_writer(model: Any) -> Any:
    """Return what reads embeddings with a cache, and writes: a model, or its part that does where it takes no cache.

    BLIP-2's `forward` takes none: its own `generate` calls that of its part.
    """
    if CACHE in inspect.signature(model.forward).parameters:
        return model
    parts = (part for part in model.children() if getattr(part, "can_generate", bool)())
    return next(parts, model)


class SceneDecoder(DecoderCall):
    """A decoder of embeddings, some of whose layers add vectors of pictures to hidden states.

    Args:
        model: the model.
        inputs: the names of its arguments but the cache, in the order in which tensors come.
        layers: how many of the first layers add such vectors, which come behind these inputs: (batch, seq, hidden), and
            zeros for words.
    """

    def __init__(self, model: Any, inputs: Sequence[str], layers: int, **choices: Any) -> None:
        super().__init__(model, inputs, **choices)
        self.text, self.layers = model.get_decoder(), layers

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return what any decoder does."""
        place = len(self.inputs)
        added, others = tensors[place : place + self.layers], (*tensors[:place], *tensors[place + self.layers :])
        if not added:
            return super().forward(*others)
        kind: Any = library_class(self.text)
        forward = kind.forward

        def forward_with_vectors(text: Any, *args: Any, **named: Any) -> Any:
            """Call the text model with the vectors, which each layer takes from a list."""
            return forward(
                text, *args, **{**named, "deepstack_visual_embeds": list(added), "visual_pos_masks": added[0]}
            )

        def sum_of_both(_text: Any, hidden: Tensor, _: Tensor, vectors: Tensor) -> Tensor:
            """Return hidden states and the vectors of pictures added up: for words these are zeros."""
            return hidden + vectors

        with replaced(kind, "forward", forward_with_vectors), replaced(kind, ADDS, sum_of_both):
            return super().forward(*others)


def picture_ports(model: Any, sense: Sense, fill: Callable[[Mapping[str, str]], dict[str, str]]) -> dict[str, str]:
    """Return what goes into the tower of a model, by its names: the rest of the text of each port.

    Args:
        model: the whole model.
        sense: what the pictures are of.
        fill: fills such texts with what the config says.

    Raises ValueError, in one line, where the model has no tower that can be called alone, or fails in each call.
    """
    takes = _taken(model, sense)
    if not takes:
        raise _refused(model, sense, f"it has no {sense.method}")
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = {name for name, one in takes.items() if one.default is one.empty and one.kind not in any_number}
    # a mask says where a sound ends, also where a model answers without
    needed = required | _taken_by_tower(model, sense) | (set(takes) if sense is HEARING else set())
    if sense is HEARING and (count := positions_of_token(model.config.to_dict())) > 1:
        raise _refused(model, sense, f"its tokens have {count} positions each, which no graph here counts over sounds")
    reasons, lacking = list[str](), list[str]()
    # first what has all that is needed, and little else
    fitting = [ports for ports in OF_SENSES[sense] if required <= set(ports) <= set(takes)]
    for ports in sorted(fitting, key=lambda ports: (len(set(ports) - needed), -len(ports))):
        try:
            filled = fill(ports)
        except ValueError as error:
            lacking.append(str(error).partition(": ")[2])
            continue
        try:
            rows_of_small(model, sense, filled)
        except Exception as error:  # a model of a stranger's config raises what comes
            reasons.append(failure_line(model, error, list(ports), cached=False).partition(": ")[2])
            continue
        if not _takes_steps(model, sense, filled):
            reasons.append("its tower takes one time step of a picture, and graphs here take any number of them")
            continue
        if sense is HEARING and _reads_lists(model, sense, filled):
            reasons.append("its tower reads lengths of sounds into a list, and a graph has no lists")
            continue
        return filled
    # a tower that was called says more than a config that says no size
    raise _refused(model, sense, next(iter((*reasons, *lacking)), f"its {sense.method} takes {', '.join(takes)}"))


def _refused(model: Any, sense: Sense, why: str) -> ValueError:
    """Return the error, in one line, of a model that is not exported with its pictures."""
    two = getattr(model.config, "is_encoder_decoder", False)
    alone = TEXT_ALONE if not two and text_writer(model) is model else ""
    return ValueError(f"{type(model).__name__} is not exported with its {sense.argument}: {why}{alone}")


def _taken(model: Any, sense: Sense) -> dict[str, inspect.Parameter]:
    """Return what makes embeddings takes: a method, or `forward` itself; nothing if both take no pictures.

    The method of the model without its head is what that of the model calls, and takes more by name.
    """
    methods, of_forward = _methods(model, sense), inspect.signature(model.forward).parameters
    if not methods:
        return dict(of_forward) if next(iter(OF_SENSES[sense][0])) in of_forward else {}
    return _parameters(methods) | {name: of_forward[name] for name in _masks_of_rows(model, sense)}


def _masks_of_rows(model: Any, sense: Sense) -> list[str]:
    """Return the names of masks that `forward` takes, and the method does not: they leave out rows of what that gives.

    Granite Speech has such a one.
    """
    takes = _parameters(_methods(model, sense))
    if sense != HEARING or not takes:
        return []
    masks = {name for ports in OF_SENSES[sense] for name in ports if name.endswith("_mask")}
    return [name for name in inspect.signature(model.forward).parameters if name in masks - set(takes)]


def _parameters(methods: Sequence[Callable[..., Any]]) -> dict[str, inspect.Parameter]:
    """Return what methods take, by name."""
    return {name: one for each in methods for name, one in inspect.signature(each).parameters.items()}


def _methods(model: Any, sense: Sense) -> list[Callable[..., Any]]:
    """Return the method that makes embeddings, of a model and of that without its head, as far as they have it."""
    return [getattr(one, sense.method) for one in (model, model.base_model) if hasattr(one, sense.method)]


def _taken_by_tower(model: Any, sense: Sense) -> set[str]:
    """Return the names of what the tower itself takes: some are handed to it, whatever it is."""
    tower = model.get_encoder(modality=sense.modality)
    return set() if tower in (None, model) else set(inspect.signature(tower.forward).parameters)


def rows_of_small(model: Any, sense: Sense, ports: Mapping[str, str]) -> tuple[Tensor, ...]:
    """Return what the tower of a model makes of a small picture; it raises what it likes."""
    with torch.no_grad():
        pictures = _small_pictures(ports, next(model.parameters()).dtype).values()
        rows: tuple[Tensor, ...] = Tower(model, sense, list(ports))(*pictures)
    return rows


def _takes_steps(model: Any, sense: Sense, ports: Mapping[str, str]) -> bool:
    """Return whether a tower takes pictures of two time steps, as a graph of grids does; True if it takes no grids."""
    pictures = _small_pictures(ports, next(model.parameters()).dtype)
    grids = [name for name, text in ports.items() if (found := GRIDS.search(text)) and found[1] == "grids"]
    for name in grids:
        pictures[name][:, 0] = 2
    twice = {name: one if name in grids else torch.cat([one, one]) for name, one in pictures.items()}
    try:
        with torch.no_grad():
            Tower(model, sense, list(ports))(*twice.values())
    except Exception:  # a stranger's code, which took one step
        return not grids
    return True


def _reads_lists(model: Any, sense: Sense, ports: Mapping[str, str]) -> bool:
    """Return whether a tower reads numbers into lists: of images `traceable_towers` keeps them in tensors."""
    tolist, calls = torch.Tensor.tolist, list[Tensor]()

    def record(tensor: Tensor) -> Any:
        calls.append(tensor)
        return tolist(tensor)

    with replaced(torch.Tensor, "tolist", record):
        rows_of_small(model, sense, ports)
    return bool(calls)


def layer_features(model: Any, sense: Sense, ports: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of what a tower gives for layers of the decoder, as ports have them; nothing for most.

    Args:
        model: the whole model.
        sense: what the pictures are of.
        ports: what goes into its tower: the rest of the text of each port.
    """
    found = len(rows_of_small(model, sense, ports)) - 1
    return tuple(LAYER_FEATURES.format(layer=layer) for layer in range(found))


def places_of(model: Any, sense: Sense) -> PicturePlaces:
    """Return which tokens are places of pictures; raise ValueError, in one line, where the config does not say it."""
    said = getattr(model.config, sense.key, None)
    if not isinstance(said, int):
        raise _refused(model, sense, f"its config says no {sense.key}")
    takes = sense is SIGHT and TYPES in inspect.signature(model.forward).parameters
    return PicturePlaces(token=said, types=takes and _has_types(model.config), sense=sense)


def _has_types(config: Any) -> bool:
    """Return whether the processor of a model gives the tokens of pictures a type of their own."""
    from transformers.models.auto import processing_auto

    auto: Any = processing_auto
    name = auto.PROCESSOR_MAPPING_NAMES.get(config.model_type)
    processor = auto.processor_class_from_name(name) if isinstance(name, str) else None
    return bool(getattr(processor, PROCESSED_TYPES, False))


@dataclass(frozen=True)
class OwnAnswer:
    """What a whole model says of a prompt with a picture, before anything is put into it: what its graphs must say.

    Args:
        sense: what the picture is of.
        ports: what goes into its tower: the rest of the text of each port.
        pictures: a picture, as the tower takes it.
        ids: the tokens of the prompt, (1, seq).
        logits: (1, seq, vocabulary).
    """

    sense: Sense
    ports: Mapping[str, str]
    pictures: Mapping[str, Tensor]
    ids: Tensor
    logits: Tensor


def own_answer(model: Any, sense: Sense, ports: Mapping[str, str]) -> OwnAnswer:
    """Return what a whole model says of a prompt with a picture; raise ValueError, in one line, where it fails.

    Args:
        model: the whole model.
        sense: what the pictures are of.
        ports: what goes into its tower: the rest of the text of each port.
    """
    places, pictures = places_of(model, sense), _small_pictures(ports, next(model.parameters()).dtype)
    takes = inspect.signature(model.forward).parameters
    try:
        with torch.no_grad():
            rows, *_ = Tower(model, sense, list(ports))(*pictures.values())
            ids = torch.tensor([[*_text(model, places), *[places.token] * len(rows), *_text(model, places)]])
            types = {MODAL_TYPES: (ids == places.token).long() * (sense is SIGHT), TYPES: _types(ids, places)}
            given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pictures}
            given |= {name: one for name, one in types.items() if name in takes} | _written(model, places)
            logits = model(**given).logits
    except Exception as error:  # a model of a stranger's config raises what comes
        raise ValueError(failure_line(model, error, ["input_ids", *ports], cached=False)) from error
    return OwnAnswer(sense, ports, pictures, ids, logits)


def check_scene(model: Any, own: OwnAnswer, positions: Positions | None = None) -> None:
    """Raise ValueError, in one line, where a decoder with embeddings of pictures says other than the whole model did.

    Args:
        model: the whole model, as it is exported.
        own: what it said before.
        positions: gives those of a prompt's tokens, where pictures change them: of ids and of what goes into the tower.
    """
    places, ids = places_of(model, own.sense), own.ids
    is_picture = ids == places.token
    with torch.no_grad():
        rows, *layers = Tower(model, own.sense, list(own.ports))(*own.pictures.values())
        embeddings = words_of(model)(ids)
        embeddings[is_picture] = rows
        place = torch.arange(ids.shape[1])[None] if positions is None else positions(ids, own.pictures)
        of_decoder = {"inputs_embeds": embeddings, "attention_mask": torch.ones_like(ids), "position_ids": place}
        writer = text_writer(model)
        if TYPES in inspect.signature(writer.forward).parameters:
            of_decoder[TYPES] = _types(ids, places)
        added = [torch.zeros_like(embeddings) for _ in layers]
        for one, vectors in zip(added, layers, strict=True):
            one[is_picture] = vectors
        if written := _written(model, places):
            del of_decoder["position_ids"]
            logits = writer(**of_decoder, **written).logits
        else:
            decoder = SceneDecoder(writer, list(of_decoder), len(layers) if hasattr(writer.get_decoder(), ADDS) else 0)
            (logits, *_) = decoder(*of_decoder.values(), *added[: decoder.layers])
    _check_logits(model, own, logits)


def _written(model: Any, places: PicturePlaces) -> dict[str, Tensor]:
    """Return a few tokens that a decoder has written behind an encoder; nothing where it has none."""
    two = getattr(model.config, "is_encoder_decoder", False)
    return {WRITES: torch.tensor([_text(model, places)])} if two else {}


def _check_logits(model: Any, own: OwnAnswer, logits: Tensor) -> None:
    """Raise ValueError, in one line, where logits are not those that the whole model gave."""
    off = (logits - own.logits).abs().max() / own.logits.abs().max()
    if not off <= ROUNDINGS * torch.finfo(logits.dtype).eps:
        if hasattr(model.base_model, COUNTS_PICTURES) and positions_of_token(model.config.to_dict()) == 1:
            why = (
                f"its {COUNTS_PICTURES} gives a token several positions, and its config says no {' or '.join(SECTIONS)}"
            )
            raise _refused(model, own.sense, why)
        words = f"its decoder reads more of a {own.sense.picture} than embeddings"
        raise _refused(model, own.sense, f"{words} (logits are off by {off:.1e} of the largest)")


def _types(ids: Tensor, places: PicturePlaces) -> Tensor:
    """Return the types of the tokens of a prompt: 1 for places of pictures, where these have a type."""
    return (ids == places.token).long() * places.types


def _text(model: Any, places: PicturePlaces) -> list[int]:
    """Return a few ids of text: none that the config has a name for."""
    said = model.config.to_dict()
    ids = [said[key] for key in said if key.endswith(("_token_id", "_token_index"))]
    # several may end a text
    named = {places.token, *(one for id_ in ids for one in (id_ if isinstance(id_, list) else [id_]))}
    return [id_ for id_ in range(model.config.get_text_config().vocab_size) if id_ not in named][:LETTERS]


def _small_pictures(ports: Mapping[str, str], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a picture at random, as the tower of a model takes it: of a grid it is a square and one beside it."""
    random = torch.Generator().manual_seed(0)
    pictures = {}
    blocks = next((found for text in ports.values() if (found := BLOCKS.search(text))), None)
    # a block, and one that is not full
    sizes = {blocks[1]: 2 * int(blocks[2]) - 1} if blocks else {}
    for name, text in ports.items():
        if (multiple := GRIDS.search(text)) is not None:
            side = int(multiple[2])
            pictures[name] = torch.tensor([[1, side, 2 * side] if multiple[1] == "grids" else [2 * side, 2 * side]])
        elif (bounds := RANGE.search(text)) is not None:
            pictures[name] = torch.tensor([[(int(bounds[1]) + int(bounds[2])) // 2] * 2])
        else:
            shape = [sizes.get(axis) or _size(axis) for axis in axes_in(text)]
            whole = next((one for word, one in WHOLE.items() if text.startswith(word)), None)
            drawn = torch.randn(shape, generator=random)
            pictures[name] = drawn.to(dtype) if whole is None else torch.ones(shape, dtype=whole)
            if text.endswith(" mask") or BLOCKS.search(text):  # padding that must be left out
                pictures[name][:, shape[1] // 2 :] = 0
    return pictures


def _size(axis: str) -> int:
    if axis.isdecimal():
        return int(axis)
    multiple, least = MULTIPLE.search(axis), LEAST.search(axis)
    return 2 * int(multiple[1]) if multiple else int(least[1]) if least else 1
