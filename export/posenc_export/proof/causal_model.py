"""A causal language model out of a bundle, to read texts and write tokens with: ONNX Runtime and NumPy alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from posenc.ports import Array, Feeds, Port
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.common.errors import BadInput
from posenc_export.proof.caches_in_place import CachesInPlace
from posenc_export.proof.generation import Call, Callee, TokenWriter, empty_caches, presents, read_tokens, steps
from posenc_export.proof.runtimes import Runner
from posenc_export.proof.runtimes.onnx_runtime import load_ort_cpu


@dataclass(frozen=True)
class CausalModel:
    """A causal language model that is loaded: `posenc_export.load` makes it.

    Args:
        inputs: What goes in, by the bundle's manifest.
        call: Runs the graph: arrays by their names to arrays by their names.
        end: How many ids of tokens it knows.
    """

    inputs: tuple[Port, ...]
    call: Call
    end: int

    @overload
    def generate(
        self, ids: Sequence[int], max_new_tokens: int = 32, eos_token_id: int | Collection[int] | None = None
    ) -> list[int]: ...
    @overload
    def generate(
        self, ids: Sequence[Sequence[int]], max_new_tokens: int = 32, eos_token_id: int | Collection[int] | None = None
    ) -> list[list[int]]: ...
    @overload
    def generate(
        self, ids: npt.NDArray[np.integer], max_new_tokens: int = 32, eos_token_id: int | Collection[int] | None = None
    ) -> list[int] | list[list[int]]: ...
    def generate(
        self, ids: npt.ArrayLike, max_new_tokens: int = 32, eos_token_id: int | Collection[int] | None = None
    ) -> list[int] | list[list[int]]:
        """Return the likeliest token, each time, behind a prompt or behind each prompt of a batch.

        Args:
            ids: A prompt, (tokens), or several, (batch, tokens); lists of several may have different lengths.
            max_new_tokens: How many tokens are written at most.
            eos_token_id: The token that ends a text, or several; it is the last that is returned. None: nothing does.

        Returns the new tokens alone: a list for one prompt, a list of lists for several.
        Raises ValueError, in one line, for a prompt without a token, for what is no id, and for no token to write.
        """
        prompts, alone = self._prompts(ids)
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        ends = {eos_token_id} if isinstance(eos_token_id, int) else set(eos_token_id or ())
        rows: list[list[int]] = [[] for _ in prompts]
        writer = TokenWriter(self._callee())
        for logits in steps(writer, Generation(tuple(map(tuple, prompts)), ()), rows, max_new_tokens):
            for row, token in zip(rows, logits.astype(np.float32).argmax(-1).tolist(), strict=True):
                row.append(token)
            if ends and all(ends & set(row) for row in rows):
                break
        written = [_up_to(row, ends) for row in rows]
        return written[0] if alone else written

    def begin(self) -> Text:
        """Return a text of no token, which the model reads and goes on with: any number of them at the same time."""
        return Text(self, self._callee(), 0, empty_caches(self.inputs, 1))

    def _callee(self) -> Callee:
        """Return the graph with buffers of its own, as each text needs them."""
        if isinstance(self.call, CachesInPlace):
            return Callee(Runner(self.call.begin(), self.inputs, ()).run, self.inputs)
        return Callee(self.call, self.inputs)

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
                raise ValueError("a prompt has no token: give each at least one")
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

    `CausalModel.begin` makes it.

    Args:
        model: The model.
        callee: Its graph.
        length: How many tokens were read.
        caches: Their keys and values, (1, heads, tokens, features), by the names of their inputs.
    """

    model: CausalModel
    callee: Callee
    length: int
    caches: Feeds

    def __len__(self) -> int:
        """Return how many tokens the text has."""
        return self.length

    def read(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> Array:
        """Read the next tokens of the text; return logits of what follows each of them, (tokens, vocabulary).

        A file that was written with --last-logits gives those behind the last one alone, (1, vocabulary).

        Args:
            ids: One token or several. Where these are a guess of another model's, the logits say which of them hold.

        Raises ValueError, in one line, for no token and for what is no id; RunFailed where the graph refuses the call,
        as it does beyond the last position. The text is then what it was.
        """
        prompts, alone = self.model._prompts(ids)
        if not alone:
            raise ValueError(f"a text is read alone: give a list of tokens, got {len(prompts)} lists")
        tokens, mask = np.array(prompts, np.int64), np.ones((1, self.length + len(prompts[0])), np.int64)
        outputs = read_tokens(self.callee, tokens, mask, self.caches)
        self.caches, self.length = presents(outputs, self.caches), mask.shape[1]
        logits: Array = outputs["logits"][0]
        return logits

    def rewind(self, length: int) -> None:
        """Forget all but the first tokens; raise ValueError where the text has not so many.

        Args:
            length: How many stay.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"length must be from 0 to {self.length}, the tokens that were read, got {length}")
        self.caches, self.length = {name: cache[:, :, :length] for name, cache in self.caches.items()}, length

    def copy(self) -> Text:
        """Return another text that begins with this one, and that goes on by itself."""
        caches = {name: cache.copy() for name, cache in self.caches.items()}
        return replace(self, callee=self.model._callee(), caches=caches)


def _up_to(row: list[int], ends: Collection[int]) -> list[int]:
    """Return the tokens up to the first that ends a text; others of its batch may have gone on."""
    at = next((i for i, token in enumerate(row) if token in ends), len(row))
    return row[: at + 1]


def load_causal(folder: Path) -> CausalModel:
    """Load the ONNX file of a bundle; raise BadInput, in one line, where it holds no causal language model."""
    bundle = Bundle.open(folder)
    manifest = bundle.manifest
    artifact = manifest.artifact("onnx")
    if not manifest.generations or artifact is None:
        raise BadInput(
            f"{folder} holds {manifest.scheme}, which writes no text: expected a bundle that posenc export --model "
            "wrote, for text-generation, with an ONNX file"
        )
    if manifest.parts:
        raise BadInput(f"{folder} holds an encoder and a decoder: load takes models of one graph")
    (end,) = (limits_of(port).end for port in manifest.inputs if port.name == "input_ids")
    path = bundle.path(artifact)
    in_place = CachesInPlace.load(path, manifest.inputs) if manifest.attention_op == "microsoft" else None
    return CausalModel(manifest.inputs, in_place or load_ort_cpu(path, manifest).run, end or 2**31)
