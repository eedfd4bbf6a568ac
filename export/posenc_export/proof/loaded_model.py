"""A whole model out of a bundle, to read texts, write tokens or get vectors: ONNX Runtime and NumPy alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from posenc.picture_places import HEARING, SIGHT
from posenc.ports import Array, Feeds, Floats, Mask, Port
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.decoders import ROPE_DELTAS, memory_ports, states_in
from posenc_export.bundle.folder import Bundle
from posenc_export.common.arrays import FLOATS, numpy_dtype
from posenc_export.common.errors import BadInput
from posenc_export.proof.caches_in_place import CachesInPlace
from posenc_export.proof.callees import Call, Callee
from posenc_export.proof.generation import (
    FirstCall,
    empty_caches,
    encoder_states,
    first_call_behind,
    padded,
    presents,
    read_tokens,
    steps_from,
    token_writer,
)
from posenc_export.proof.runtimes import Runner
from posenc_export.proof.runtimes.onnx_runtime import load_ort_cpu
from posenc_export.proof.scenes import SceneGraphs, check_pictures
from posenc_models.whole import SENTENCE

ProcessorOutput: TypeAlias = "Mapping[str, npt.ArrayLike] | npt.ArrayLike"
"""Pictures or sounds as a processor gives them: arrays by their names, or the only one."""
TOKENS = "input_ids"
"""The input that holds ids of tokens, by the name that every task has for it."""


@dataclass(frozen=True)
class LoadedModel:
    """A whole model that is loaded: `posenc_export.load` makes it.

    A causal language model writes text (`generate`), an encoder of sentences gives vectors (`encode`).

    Args:
        inputs: What goes in, by the bundle's manifest.
        call: Runs the graph: arrays by their names to arrays by their names.
        end: How many ids of tokens it knows.
        writes: Whether it writes text.
        name: What it was exported as.
        encoder: What reads the prompts, where the model has an encoder.
        begins: The tokens with which the decoder begins behind it.
        scene: Its graphs, where it sees, or hears beside text.
    """

    inputs: tuple[Port, ...]
    call: Call
    end: int
    writes: bool = True
    name: str = "it"
    encoder: Callee | None = None
    begins: tuple[int, ...] = ()
    scene: SceneGraphs | None = None

    @overload
    def generate(
        self,
        ids: Sequence[int],
        max_new_tokens: int = 32,
        eos_token_id: int | Collection[int] | None = None,
        images: ProcessorOutput | None = None,
        sounds: ProcessorOutput | None = None,
    ) -> list[int]: ...
    @overload
    def generate(
        self,
        ids: Sequence[Sequence[int]],
        max_new_tokens: int = 32,
        eos_token_id: int | Collection[int] | None = None,
        images: ProcessorOutput | None = None,
        sounds: ProcessorOutput | None = None,
    ) -> list[list[int]]: ...
    @overload
    def generate(
        self,
        ids: npt.NDArray[np.integer],
        max_new_tokens: int = 32,
        eos_token_id: int | Collection[int] | None = None,
        images: ProcessorOutput | None = None,
        sounds: ProcessorOutput | None = None,
    ) -> list[int] | list[list[int]]: ...
    def generate(
        self,
        ids: npt.ArrayLike,
        max_new_tokens: int = 32,
        eos_token_id: int | Collection[int] | None = None,
        images: ProcessorOutput | None = None,
        sounds: ProcessorOutput | None = None,
    ) -> list[int] | list[list[int]]:
        """Return the likeliest token, each time, behind a prompt or behind each prompt of a batch.

        Args:
            ids: A prompt, (tokens), or several, (batch, tokens); lists of several may have different lengths. Where an
                encoder hears sounds or looks at images, what its processor gives: the features of a sound,
                (bins, frames), the pixels of an image, (channels, height, width), or a batch of these.
            max_new_tokens: How many tokens are written at most.
            eos_token_id: The token that ends a text, or several; it is the last that is returned. None: nothing does.
            images: The pictures of all prompts, in their order, as the model's processor gives them: arrays by their
                names, as `pixel_values` and `image_grid_thw`, or that of the pixels alone where there is no other.
            sounds: The sounds of all prompts, of a model that hears beside text, likewise: `input_features`.

        Returns the new tokens alone: a list for one prompt, a list of lists for several.
        Raises ValueError, in one line, for a prompt without a token, for what is no id, for no token to write, for
        pictures that do not fill the places that prompts have for them, and where the model writes no text.
        """
        if not self.writes:
            raise ValueError(f"{self.name} writes no text: encode gives its vectors")
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        ends = {eos_token_id} if isinstance(eos_token_id, int) else set(eos_token_id or ())
        if self.encoder is None:
            prompts, alone = self._prompts(ids)
            tokens, mask = padded(prompts, left=True)
            first = FirstCall(tokens, mask, pictures=self._pictures(tokens, mask, images, sounds))
        else:
            states, alone = self._encoded(self.encoder, ids, images, sounds)
            first = first_call_behind(states, self.begins)
        rows: list[list[int]] = [[] for _ in first.ids]
        for logits in steps_from(self._callee(), first, rows, max_new_tokens):
            for row, token in zip(rows, logits.astype(np.float32).argmax(-1).tolist(), strict=True):
                row.append(token)
            if ends and all(ends & set(row) for row in rows):
                break
        written = [_up_to(row, ends) for row in rows]
        return written[0] if alone else written

    def begin(self) -> Text:
        """Return a text of no token, which the model reads and goes on with: any number of them at the same time.

        Raises ValueError, in one line, where the model writes no text.
        """
        if not self.writes:
            raise ValueError(f"{self.name} writes no text: encode gives its vectors")
        if self.encoder is not None:
            raise ValueError(f"{self.name} has an encoder, which reads a text at once: generate writes behind it")
        callee = self._callee()
        return Text(self, callee, 0, empty_caches(callee.inputs, 1))

    def _callee(self) -> Callee:
        """Return the graph with buffers of its own, as each text needs them; all of one that sees or hears."""
        call = Runner(self.call.begin(), self.inputs, ()).run if isinstance(self.call, CachesInPlace) else self.call
        decoder = Callee(call, self.inputs)
        if self.scene is None or self.encoder is not None:
            return decoder
        return replace(self.scene, decoder=decoder).callee()

    def _pictures(
        self, ids: Array, mask: Array, images: ProcessorOutput | None, sounds: ProcessorOutput | None = None
    ) -> dict[str, Array]:
        """Return what goes into the tower; raise ValueError where the model has none, or where nothing fills places."""
        self._check_senses(images, sounds)
        if self.scene is None:
            return {}
        sense = self.scene.places.sense
        pictures = images if sense is SIGHT else sounds
        places = int(((ids == self.scene.places.token) & (mask[:, -ids.shape[1] :] != 0)).sum())
        if pictures is None:
            if places:
                raise ValueError(
                    f"the prompts have {places} places of {sense.picture}s (id {self.scene.places.token}): give "
                    f"{sense.argument}, as the model's processor makes them"
                )
            return {}
        ports = {port.name: port for port in self.scene.tower.inputs}
        given = dict(pictures) if isinstance(pictures, Mapping) else {next(iter(ports)): pictures}
        if given.keys() != ports.keys():
            raise ValueError(
                f"{sense.argument} must be {', '.join(ports)}, got {', '.join(map(str, given)) or 'nothing'}"
            )
        arrays = {name: _array_for(port, given[name]) for name, port in ports.items()}
        check_pictures(self.scene.tower.inputs, arrays)
        return arrays

    def _check_senses(self, images: ProcessorOutput | None, sounds: ProcessorOutput | None) -> None:
        """Raise ValueError where the model is given what it does not see, or hear beside text."""
        sense = None if self.scene is None else self.scene.places.sense
        if images is not None and sense is not SIGHT:
            raise ValueError(f"{self.name} sees no pictures: leave images out")
        if sounds is not None and sense is not HEARING:
            raise ValueError(f"{self.name} hears no sounds beside text: leave sounds out")

    def encode(self, ids: npt.ArrayLike, attention_mask: npt.ArrayLike | None = None) -> Floats:
        """Return the vector of a text, or of each text of a batch, as the pipeline of its folder makes it.

        Args:
            ids: The tokens of a text, (tokens), or of several, (batch, tokens); lists of several may have different
                lengths. A tokenizer adds prompts, and tokens at the ends.
            attention_mask: 1 for each token, and 0 for padding, as a tokenizer gives it beside ids that it padded.
                None: every id is a token.

        Returns (width) for one text, and (batch, width) for several.
        Raises ValueError, in one line, for a text without a token, for what is no id, for a mask that does not fit, and
        where the model gives no vectors of sentences.
        """
        if self.writes:
            raise ValueError(f"{self.name} gives no vectors of sentences: generate writes its text")
        texts, alone = self._prompts(ids)
        seq = max(map(len, texts))
        padded = np.array([text + [0] * (seq - len(text)) for text in texts], np.int64)
        mask = np.array([[1] * len(text) + [0] * (seq - len(text)) for text in texts], np.int64)
        if attention_mask is not None:
            given = np.asarray(attention_mask)
            if given.shape not in (mask.shape, mask.shape[alone:]) or not np.isin(given, (0, 1)).all():
                raise ValueError(
                    f"attention_mask must be 1 for tokens and 0 for padding, of the shape {mask.shape[alone:]} of ids, "
                    f"got the shape {given.shape}"
                )
            mask = mask * given.reshape(mask.shape).astype(np.int64)
        feeds = {port.name: self._feed(port, padded, mask) for port in self.inputs}
        vectors = self.call(feeds)[SENTENCE]
        return vectors[0] if alone else vectors

    def _encoded(
        self,
        encoder: Callee,
        given: npt.ArrayLike,
        images: ProcessorOutput | None,
        sounds: ProcessorOutput | None,
    ) -> tuple[dict[str, Array], bool]:
        """Return what an encoder makes of prompts, of features or of pixels, and whether one was given alone."""
        floats = next((port for port in encoder.inputs if port.dtype in FLOATS), None)
        if floats is None or self.scene is not None:
            prompts, alone = self._prompts(given)
            ids, mask = padded(prompts, left=False)
            pictures = self._pictures(ids, mask, images, sounds)
            return encoder_states(encoder, {TOKENS: ids, **pictures}, mask), alone
        self._check_senses(images, sounds)
        features = np.asarray(given, numpy_dtype(floats.dtype))
        alone = features.ndim == len(floats.axes) - 1
        batch = features[None] if alone else features
        if not _has_shape(floats, batch):
            expected = ", ".join(map(str, floats.axes[1:]))
            raise ValueError(f"{floats.name} must be ({expected}), or a batch of these, got the shape {features.shape}")
        return encoder_states(encoder, {floats.name: batch}), alone

    @staticmethod
    def _feed(port: Port, ids: Array, mask: Array) -> Array:
        """Return what goes into an input: tokens, their mask, or zeros, as the types of tokens of one text."""
        if isinstance(port.carries, Mask):
            return mask.astype(numpy_dtype(port.dtype))
        return (ids if port.name == TOKENS else np.zeros_like(ids)).astype(numpy_dtype(port.dtype))

    def _prompts(self, ids: npt.ArrayLike) -> tuple[list[list[int]], bool]:
        """Return the prompts, and whether they were given as one."""
        given: object = ids.tolist() if isinstance(ids, np.ndarray) else ids
        rows = list(given) if isinstance(given, list | tuple) else []
        of_lists = [isinstance(row, list | tuple | np.ndarray) for row in rows]
        if not rows or any(of_lists) is not all(of_lists):
            raise ValueError(f"ids must be a list of tokens, or a list of such lists, got {ids!r}")
        alone = not any(of_lists)
        prompts = [rows] if alone else [list(row) for row in rows]
        for prompt in prompts:
            if not prompt:
                raise ValueError("a text has no token: give each at least one")
            wrong = next((id_ for id_ in prompt if not self._is_id(id_)), None)
            if wrong is not None:
                raise ValueError(f"ids must be whole numbers in 0..{self.end - 1}, got {wrong!r}")
        return [[int(id_) for id_ in prompt] for prompt in prompts], alone

    def _is_id(self, id_: object) -> bool:
        return isinstance(id_, int | np.integer) and not isinstance(id_, bool) and bool(0 <= id_ < self.end)


@dataclass
class Text:
    """A text that a causal language model has read, with the keys and values of its tokens; `len` counts these.

    >>> text = posenc_export.load("llama").begin()
    >>> logits = text.read([5, 9, 2])

    `LoadedModel.begin` makes it.

    Args:
        model: The model.
        callee: Its graph.
        length: How many tokens were read.
        caches: Their keys and values, (1, heads, tokens, features), and states of all of them, by the names of their
            inputs.
    """

    model: LoadedModel
    callee: Callee
    length: int
    caches: Feeds

    def __len__(self) -> int:
        """Return how many tokens the text has."""
        return self.length

    def read(
        self,
        ids: Sequence[int] | npt.NDArray[np.integer],
        images: ProcessorOutput | None = None,
        sounds: ProcessorOutput | None = None,
    ) -> Array:
        """Read the next tokens of the text; return logits of what follows each of them, (tokens, vocabulary).

        A file that was written with --last-logits gives those behind the last one alone, (1, vocabulary).

        Args:
            ids: One token or several. Where these are a guess of another model's, the logits say which of them hold.
            images: The pictures among these tokens, as `LoadedModel.generate` takes them.
            sounds: The sounds among them, likewise.

        Raises ValueError, in one line, for no token, for what is no id, and for pictures that do not fill their places;
        RunFailed where the graph refuses the call, as it does beyond the last position. The text is then what it was.
        """
        prompts, alone = self.model._prompts(ids)
        if not alone:
            raise ValueError(f"a text is read alone: give a list of tokens, got {len(prompts)} lists")
        tokens, mask = np.array(prompts, np.int64), np.ones((1, self.length + len(prompts[0])), np.int64)
        # a token that the model wrote is a word, also if it has the id of a place
        is_step = self.length > 0 and tokens.size == 1 and images is None and sounds is None
        pictures = {} if is_step else self.model._pictures(tokens, mask, images, sounds)
        outputs = read_tokens(self.callee, tokens, mask, {**pictures, **self.caches})
        self.caches, self.length = presents(outputs, self.caches), mask.shape[1]
        logits: Array = outputs["logits"][0]
        return logits

    def rewind(self, length: int) -> None:
        """Forget all but the first tokens; raise ValueError where the text has not so many, or cannot forget some.

        States of convolutions and recurrences hold no single token: such a text begins anew, by 0, or stays as it is.

        Args:
            length: How many stay.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length must be from 0 to {self.length}, the tokens that were read, got {length}")
        states = states_in(self.callee.inputs)
        if states and 0 < length < self.length:
            raise ValueError(
                f"this model has states of all tokens that were read, and none of the first {length}: rewind to 0, or "
                "go on with a copy() that was made there"
            )
        added = self.caches.get(ROPE_DELTAS, np.zeros(0))
        if added.any() and 0 < length < self.length:
            raise ValueError(
                f"pictures were read, and positions of the first {length} tokens alone are not kept: rewind to 0, or "
                "go on with a copy() that was made there"
            )
        if length == 0:
            self.caches = empty_caches(self.callee.inputs, 1)
        whole = {*states, ROPE_DELTAS}
        self.caches = {name: one if name in whole else one[:, :, :length] for name, one in self.caches.items()}
        self.length = length

    def copy(self) -> Text:
        """Return another text that begins with this one, and that goes on by itself."""
        caches = {name: cache.copy() for name, cache in self.caches.items()}
        return replace(self, callee=self.model._callee(), caches=caches)


def _array_for(port: Port, given: npt.ArrayLike) -> Array:
    """Return an array for an input of a tower; raise ValueError for what is none, or has another shape."""
    axes = (f"{axis} % {axis.multiple}" if axis.multiple > 1 else str(axis) for axis in port.axes)
    expected = f"{port.name} must be ({', '.join(axes)})"
    try:
        array: Array = np.asarray(given, numpy_dtype(port.dtype))
    except ValueError as error:  # a list of arrays of unlike shapes
        raise ValueError(f"{expected}, got no array: {' '.join(str(error).split())}") from error
    if not _has_shape(port, array):
        raise ValueError(f"{expected}, got the shape {array.shape}")
    return array


def _has_shape(port: Port, array: Array) -> bool:
    """Return whether an array has the axes of a port, and an element at least."""
    return array.ndim == len(port.axes) and all(
        size and axis.size in (None, size) and size % axis.multiple == 0
        for size, axis in zip(array.shape, port.axes, strict=True)
    )


def _up_to(row: list[int], ends: Collection[int]) -> list[int]:
    """Return the tokens up to the first that ends a text; others of its batch may have gone on."""
    at = next((i for i, token in enumerate(row) if token in ends), len(row))
    return row[: at + 1]


def load_model(folder: Path) -> LoadedModel:
    """Load the ONNX file of a bundle; raise BadInput, in one line, where it writes no text and gives no vectors."""
    bundle = Bundle.open(folder)
    manifest = bundle.manifest
    artifact = manifest.artifact("onnx")
    has_vectors = any(port.name == SENTENCE for port in manifest.outputs)
    if not (memory_ports(manifest.inputs) or has_vectors) or artifact is None:
        raise BadInput(
            f"{folder} holds {manifest.scheme}, which writes no text: expected a bundle that posenc export --model "
            "wrote, for text-generation or sentence-similarity, with an ONNX file"
        )
    path = bundle.path(artifact)
    in_place = CachesInPlace.load(path, manifest.inputs) if manifest.attention_op == "microsoft" else None
    call = in_place or load_ort_cpu(path, manifest).run
    writer = token_writer(Callee(call, manifest.inputs), partial(_part, bundle), manifest.places)
    if writer.encoder is not None and not manifest.generations:
        raise BadInput(
            f"{folder} has no recorded texts, and they say with which token its decoder begins: export it without "
            "--no-validate, with --proof quick or full"
        )
    reads = writer.decoder if writer.encoder is None else writer.encoder
    end = next((limits_of(port).end for port in reads.inputs if port.name == TOKENS), 0)
    begins = manifest.generations[0].begins if manifest.generations else ()
    name = manifest.scheme
    return LoadedModel(manifest.inputs, call, end or 2**31, not has_vectors, name, writer.encoder, begins, writer.scene)


def _part(bundle: Bundle, output: str) -> Callee | None:
    """Return the other graph of a model that gives an output, loaded; raise BadInput where it has no ONNX file."""
    part = bundle.part_with(output)
    if part is None:
        return None
    artifact = part.manifest.artifact("onnx")
    if artifact is None:
        raise BadInput(f"{part.folder} has no ONNX file: load needs one of each graph")
    return Callee(load_ort_cpu(part.path(artifact), part.manifest).run, part.manifest.inputs)
