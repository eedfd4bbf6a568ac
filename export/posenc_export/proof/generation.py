"""Greedy generation: tokens that the eager module writes behind prompts, and those that a loaded graph writes there.

Prompts go in alone, and as one batch that is padded on the left; then a token at a time, with keys and values of all
before it. Where the model has an encoder, prompts go in there, padded on the right, and the decoder begins with tokens
of its own. A graph is led along the module's tokens, so that one token that differs does not change all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from posenc.encoding import eps
from posenc.picture_places import PicturePlaces
from posenc.ports import Array, Feeds, Port
from posenc_export.bundle.decoders import ENCODED, text_ports
from posenc_export.bundle.manifest import Generation
from posenc_export.common.arrays import FLOATS, numpy_dtype
from posenc_export.common.errors import BadInput
from posenc_export.proof.callees import Callee, numbers_from
from posenc_export.proof.scenes import POSITIONS, Picture, SceneGraphs, pictures_of
from posenc_models.whole.tasks import EMBEDDINGS

NEAR = 2 * 16
"""How near two logits are, in eps of the largest one, where their dtype does not tell which of them is the largest.

Outputs of a user's module may differ by 16 eps of their scale, and here two of them are compared.
"""


@dataclass(frozen=True)
class TokenWriter:
    """What writes tokens.

    Args:
        decoder: gives logits, keys and values.
        encoder: reads the prompts, where the decoder does not.
        scene: the graphs of a model that sees, which are called as one: as the decoder, or as the encoder.
    """

    decoder: Callee
    encoder: Callee | None = None
    scene: SceneGraphs | None = None


def token_writer(
    decoder: Callee, part: Callable[[str], Callee | None], places: PicturePlaces | None = None
) -> TokenWriter:
    """Return the graphs of a model as what writes tokens.

    Args:
        decoder: The model, or its decoder.
        part: Returns the other graph that gives an output of a name, if there is one.
        places: Where embeddings of pictures go, if it sees or hears.
    """
    if places is None:
        return TokenWriter(decoder, part(ENCODED))
    words, tower = part(EMBEDDINGS), part(places.sense.features)
    if words is None or tower is None:
        raise BadInput(
            f"a graph is missing: a model that takes {places.sense.argument} has one that gives {EMBEDDINGS}, and one "
            f"that gives {places.sense.features}"
        )
    if (encoder := part(ENCODED)) is not None:
        scene = SceneGraphs(encoder, words, tower, places)
        return TokenWriter(decoder, scene.callee(), scene)
    scene = SceneGraphs(decoder, words, tower, places, part(POSITIONS))
    return TokenWriter(scene.callee(), None, scene)


@dataclass(frozen=True)
class FirstCall:
    """What a decoder is given first.

    Args:
        ids: tokens, (batch, tokens): prompts, or those with which a decoder begins behind an encoder.
        mask: 0 for those that pad them.
        states: what an encoder made of the prompts, by the inputs of the decoder; nothing without one.
        pictures: those of the prompts, by what a tower takes: they go in once.
    """

    ids: Array
    mask: Array
    states: Mapping[str, Array] = field(default_factory=dict)
    pictures: Mapping[str, Array] = field(default_factory=dict)


def recorded(
    writer: TokenWriter, prompts: Generation, count: int, progress: Callable[[str], None] = lambda _: None
) -> tuple[Generation, ...]:
    """Return what a module writes behind each prompt alone, and behind all of them in one padded batch.

    Args:
        writer: The module.
        prompts: A batch of them, behind which nothing was written yet.
        count: How many tokens it writes.
        progress: Told of each text.
    """

    def say(number: int) -> None:
        progress(f"writing {count} tokens with the eager module: text {number} of {len(prompts.prompts) + 1}")

    say(1)
    batch = _record(writer, prompts, count)
    alone = []
    for number, tokens in enumerate(batch.tokens):
        say(number + 2)
        prompt = one_prompt(prompts, number)
        as_in_batch = replace(prompt, tokens=(tokens,))
        # as a rule padding changes no token, and one call shows that
        alone.append(as_in_batch if _continues(writer, as_in_batch) else _record(writer, prompt, count))
    return (*alone, batch)


def prompt_batch(
    prompts: Sequence[Sequence[int]], begins: Sequence[int] = (), pictures: Sequence[Sequence[Picture]] = ()
) -> Generation:
    """Return a batch of prompts behind which nothing was written yet.

    Args:
        prompts: Tokens of each; of sounds one number, which features are made of.
        begins: Those with which a decoder behind an encoder begins.
        pictures: Those of each prompt, which has places for them; nothing where none has any.
    """
    seen = tuple(tuple(map(tuple, of_prompt)) for of_prompt in pictures)
    return Generation(tuple(map(tuple, prompts)), (), tuple(begins), seen)


def one_prompt(batch: Generation, number: int) -> Generation:
    """Return one prompt of a batch, with its pictures and without what was written."""
    seen = batch.pictures[number : number + 1]
    return Generation((batch.prompts[number],), (), batch.begins, seen)


def _record(writer: TokenWriter, generation: Generation, count: int) -> Generation:
    """Return prompts with what a module writes behind them as one batch."""
    rows: list[list[int]] = [[] for _ in generation.prompts]
    for logits in steps(writer, generation, rows, count):
        for row, token in zip(rows, logits.astype(np.float32).argmax(-1).tolist(), strict=True):
            row.append(token)
    return replace(generation, tokens=tuple(map(tuple, rows)))


def _continues(writer: TokenWriter, generation: Generation) -> bool:
    """Return whether a prompt alone is continued by just these tokens: one call says what follows each of them."""
    (tokens,) = generation.tokens
    first = _first_call(writer, generation)
    written = np.array([tokens[:-1]], np.int64)
    # of a model that sees, tokens that it wrote may look like places of pictures: they have a call of their own
    are_apart = bool(first.pictures) and written.size > 0
    calls = (first.ids, written) if are_apart else (np.concatenate([first.ids, written], 1),)
    mask, pictures, feeds = first.mask[:, :0], first.pictures, empty_caches(writer.decoder.inputs, 1)
    logits = []
    for ids in calls:
        mask = np.concatenate([mask, np.ones_like(ids)], 1)
        outputs = read_tokens(writer.decoder, ids, mask, {**first.states, **pictures, **feeds})
        logits.append(np.asarray(outputs["logits"])[0])
        pictures, feeds = {}, presents(outputs, feeds)
    picked = np.concatenate(logits)[-len(tokens) :].astype(np.float32).argmax(-1)
    return bool(picked.tolist() == list(tokens))


def differences(writer: TokenWriter, generation: Generation, room: float = 0.0) -> tuple[list[str], list[str]]:
    """Return where a graph writes another token, and where it may since two logits are as good as equal.

    Args:
        writer: The graph.
        generation: Prompts, and the tokens behind them.
        room: How far a logit may be off beyond what rounds in floats.
    """
    wrong: list[str] = []
    near: list[str] = []
    rows: list[list[int]] = [[] for _ in generation.prompts]
    alone = len(rows) == 1
    for step, logits in enumerate(steps(writer, generation, rows, len(generation.tokens[0]))):
        tie = NEAR * eps(logits.dtype.name)
        for number, (row, of_row) in enumerate(zip(rows, logits.astype(np.float32), strict=True)):
            expected, actual = generation.tokens[number][step], int(of_row.argmax())
            if not np.isfinite(of_row).all():
                wrong.append(f"{_place(step, number, alone)} has logits that are no numbers")
            elif actual != expected:
                gap, scale = float(of_row[actual] - of_row[expected]), float(np.abs(of_row).max())
                words = f"{_place(step, number, alone)} is {actual}, expected {expected}"
                (near if gap <= tie * scale + 2 * room else wrong).append(f"{words} (logits {gap:.1e} apart)")
            row.append(expected)
    return wrong, near


@dataclass(frozen=True)
class Cost:
    """What a model that is less precise than another changes of the tokens that this one writes.

    Args:
        count: how many tokens the other writes.
        changed: which of them are others, in words.
        off: the largest difference of a logit, as a share of the largest one.
    """

    count: int
    changed: tuple[str, ...]
    off: float


def precision_cost(writer: TokenWriter, precise: TokenWriter, prompts: Generation, count: int) -> Cost:
    """Return what a model changes of the tokens that a more precise one writes, along which it is led.

    Args:
        writer: The model.
        precise: The other one.
        prompts: A batch of them, which go in alone and as one padded batch.
        count: How many tokens are written.
    """
    written, changed, off, largest = 0, [], 0.0, 0.0
    for generation in (*(one_prompt(prompts, number) for number in range(len(prompts.prompts))), prompts):
        rows: list[list[int]] = [[] for _ in generation.prompts]
        both = zip(steps(precise, generation, rows, count), steps(writer, generation, rows, count), strict=True)
        for step, (expected, actual) in enumerate(both):
            off = max(off, float(np.abs(actual.astype(np.float32) - expected).max()))
            largest = max(largest, float(np.abs(expected).max()))
            tokens, others = expected.argmax(-1).tolist(), actual.astype(np.float32).argmax(-1).tolist()
            for number, (row, token, other) in enumerate(zip(rows, tokens, others, strict=True)):
                written += 1
                if other != token:
                    changed.append(f"{_place(step, number, len(rows) == 1)} is {other}, not {token}")
                row.append(token)
    return Cost(written, tuple(changed), off / largest if largest else 0.0)


def _place(step: int, number: int, alone: bool) -> str:
    return f"token {step}" if alone else f"token {step} of prompt {number} in a padded batch"


def steps(
    writer: TokenWriter, generation: Generation, rows: Sequence[Sequence[int]], count: int
) -> Iterator[np.ndarray]:
    """Yield the logits of the last token of each prompt, (batch, vocabulary); between, the caller appends to `rows`."""
    return steps_from(writer.decoder, _first_call(writer, generation), rows, count)


def steps_from(decoder: Callee, first: FirstCall, rows: Sequence[Sequence[int]], count: int) -> Iterator[np.ndarray]:
    """Yield logits as `steps` does, from a first call on."""
    ids, mask, feeds = first.ids, first.mask, empty_caches(decoder.inputs, len(first.ids))
    for step in range(count):
        outputs = read_tokens(decoder, ids, mask, {**first.states, **(first.pictures if step == 0 else {}), **feeds})
        yield np.asarray(outputs["logits"])[:, -1]
        feeds = presents(outputs, feeds)
        ids = np.array([[row[step]] for row in rows], np.int64)
        mask = np.concatenate([mask, np.ones_like(ids)], 1)


def _first_call(writer: TokenWriter, generation: Generation) -> FirstCall:
    tower = () if writer.scene is None else writer.scene.tower.inputs
    pictures = pictures_of(tower, list(chain.from_iterable(generation.pictures)))
    if writer.encoder is None:
        return FirstCall(*padded(generation.prompts, left=True), pictures=pictures)
    if writer.scene is None:
        return first_call_behind(_encoded(writer.encoder, generation.prompts), generation.begins)
    ids, mask = padded(generation.prompts, left=False)
    states = encoder_states(writer.encoder, {"input_ids": ids, **pictures}, mask)
    return first_call_behind(states, generation.begins)


def first_call_behind(states: Mapping[str, Array], begins: Sequence[int]) -> FirstCall:
    """Return the first call of a decoder behind what an encoder made: each text begins with the same tokens."""
    ids = np.tile(np.array(begins, np.int64), (len(states["encoder_hidden_states"]), 1))
    return FirstCall(ids, np.ones_like(ids), states)


def read_tokens(decoder: Callee, ids: Array, mask: Array, beside: Feeds) -> Mapping[str, Array]:
    """Call a decoder with ids that follow what its caches have; the mask is that of all tokens, (batch, past + seq)."""
    positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -ids.shape[1] :]
    given = {"input_ids": ids, "attention_mask": mask, "position_ids": _in_rows(positions, decoder), **beside}
    return decoder.call(_taken(decoder, given))


def presents(outputs: Mapping[str, Array], caches: Feeds) -> dict[str, Array]:
    """Return the keys and values that a call gave, by the names under which they go into the next one."""
    return {name: outputs[name.replace("past_key_values", "present")] for name in caches}


def _in_rows(positions: Array, decoder: Callee) -> Array:
    """Return positions as a decoder takes them: once, or in rows, (rows, batch, seq), which are equal in a text."""
    rows = [port.axes[0].size for port in decoder.inputs if port.name == "position_ids" and len(port.axes) == 3]
    return np.stack([positions] * rows[0]) if rows and rows[0] else positions


def padded(prompts: Sequence[Sequence[int]], *, left: bool) -> tuple[Array, Array]:
    """Return tokens and their mask, (batch, longest): shorter prompts are padded on one side."""
    longest = max(map(len, prompts))
    pads = [[0] * (longest - len(prompt)) for prompt in prompts]
    ids = [[*pad, *prompt] if left else [*prompt, *pad] for prompt, pad in zip(prompts, pads, strict=True)]
    ones = [[1] * len(prompt) for prompt in prompts]
    mask = [[*pad, *one] if left else [*one, *pad] for one, pad in zip(ones, pads, strict=True)]
    return np.array(ids, np.int64), np.array(mask, np.int64)


def _encoded(encoder: Callee, prompts: Sequence[Sequence[int]]) -> dict[str, Array]:
    """Return what an encoder makes of prompts, by the names that a decoder has for it."""
    ids, mask = padded(prompts, left=False)
    numbers = {port.name: numbers_from(port, ids[:, 0]) for port in encoder.inputs if port.dtype in FLOATS}
    return encoder_states(encoder, {"input_ids": ids, **numbers}, mask)


def encoder_states(encoder: Callee, given: Feeds, mask: Array | None = None) -> dict[str, Array]:
    """Return what an encoder makes of its inputs, by the names that a decoder has for it, beside a mask of tokens."""
    outputs = encoder.call(_taken(encoder, {**given, **({} if mask is None else {"attention_mask": mask})}))
    masks = {} if mask is None else {"encoder_attention_mask": mask}
    return {"encoder_hidden_states": outputs["last_hidden_state"], **masks}


def _taken(callee: Callee, given: Feeds) -> dict[str, Array]:
    return {port.name: given[port.name] for port in callee.inputs if port.name in given}


def empty_caches(inputs: Sequence[Port], batch: int) -> dict[str, Array]:
    """Return what layers remember before the first token, by the names of their inputs: caches of none, states of 0."""
    return {
        port.name: np.zeros([batch, *(axis.size or 0 for axis in port.axes[1:])], numpy_dtype(port.dtype))
        for port in text_ports(inputs)
    }
