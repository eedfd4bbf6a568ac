"""Queries times learned rows: what an attention adds to the scores of our queries, by our rows in it; SAM's points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.call import queries_and_keys
from posenc.encoding import eps
from posenc.hf.asking.built import Built, built, put
from posenc.hf.asking.model import Model, Question
from posenc.hf.asking.running import array, in_order, output_name, run_
from posenc.hf.asking.scores import constant, of_attention, with_probabilities
from posenc.hf.asking.windows import sides_in
from posenc.ports import Array, Feeds

if TYPE_CHECKING:
    from torch import nn

QUERIES = ("linear_q", "q_proj")
OTHERS = ("linear_k", "linear_v", "k_proj", "v_proj")
NAMES = ("rel_pos_h", "rel_pos_w")


def model_of(question: Question) -> Model:
    """Return a model with our rows in its attention, or with our matrix."""
    makers = {"clipped_relative": _clipped, "decomposed_relative": _decomposed, "fourier_features": _points}
    return makers[question.reading.scheme](question)


def _clipped(question: Question) -> Model:
    """Return an attention that has a row for each distance; SpeechT5's rows are those of the encoder around it."""
    made = built(question)
    name = made.holding(made.row.tables[0])[0]
    put(made.model, name, in_order(question.tables)[0])
    owner, more = _attention(made, name)
    if question.reading.parameters.get("output") == "values":
        return Model(type(owner).__name__, made.library, _values(question, owner))

    def square(q: Array) -> Array:
        return in_heads(owner, q, lambda tokens: scores_of(owner, tokens, **more(tokens.shape[1])))

    def call(feeds: Feeds) -> dict[str, Array]:
        queries, keys = (positions[0] for positions in queries_and_keys(question.inputs, feeds))
        q = feeds[question.inputs[0].name]
        far = int(max(queries.max(initial=0), keys.max(initial=0))) + 1
        whole = np.zeros((*q.shape[:2], far, q.shape[3]), q.dtype)
        whole[:, :, queries] = q
        bias = square(whole)[:, :, queries][..., keys]
        return {output_name(question): bias + feeds["scores"] if "scores" in feeds else bias}

    return Model(type(owner).__name__, made.library, call)


def _attention(made: Built, table: str) -> tuple[nn.Module, Callable[[int], dict[str, object]]]:
    """Return the attention that a table is of, and what it takes beside tokens."""
    import torch

    owner = made.model.get_submodule(table.rpartition(".")[0])
    if type(owner).__name__ == "Embedding" and table.endswith("pe_k.weight"):
        around = table.removesuffix("embed_positions.pe_k.weight")
        rows, attention = (made.model.get_submodule(around + n) for n in ("embed_positions", "layers.0.attention"))
        return attention, lambda n: {"position_bias": run_(lambda: rows(torch.zeros(1, n, 1)))}
    path = table.removesuffix(".distance_embedding.weight")
    return (made.model.get_submodule(path) if path != table else owner), lambda n: {}


def heads_of(attention: Any) -> int:
    """Return how many heads an attention has."""
    return int(getattr(attention, "num_heads", None) or attention.num_attention_heads)


def in_heads(attention: nn.Module, q: Array, ask: Callable[[Array], Array]) -> Array:
    """Return what an attention gives the heads of a call, of which it may have others: as many at a time as it has.

    ask: tokens of queries (groups, seq, heads * head_dim) -> (groups, heads, seq, n).
    """
    heads, (batch, own, seq, width) = heads_of(attention), q.shape
    groups = -(-batch * own // heads)
    padded = np.zeros((groups * heads, seq, width), np.float32)
    padded[: batch * own] = q.reshape(-1, seq, width)
    tokens = padded.reshape(groups, heads, seq, width).transpose(0, 2, 1, 3).reshape(groups, seq, heads * width)
    return ask(tokens).reshape(groups * heads, seq, -1)[: batch * own].reshape(batch, own, seq, -1)


def scores_of(attention: nn.Module, tokens: Array, **more: object) -> Array:
    """Return the scores of an attention whose queries are given, and whose keys are zeros."""
    import torch

    with_queries(attention, tokens)
    return of_attention(attention, torch.zeros(*tokens.shape), **more)


def with_queries(attention: nn.Module, tokens: Array) -> None:
    """Have an attention take queries as they are given, and keys and values of zeros."""
    import torch

    queries = torch.from_numpy(tokens)
    for name in (*QUERIES, *OTHERS):
        if hasattr(attention, name):
            setattr(attention, name, constant(queries if name in QUERIES else torch.zeros_like(queries)))


def _values(question: Question, attention: Any) -> Callable[[Feeds], dict[str, Array]]:
    """Return what answers a call of probabilities: what attention adds to values of zeros."""
    import torch

    attention.out_proj = torch.nn.Identity()

    def of_heads(p: Array) -> Array:
        heads, width, (batch, own, seq, _) = heads_of(attention), int(attention.head_dim), p.shape
        groups = -(-batch * own // heads)
        padded = np.zeros((groups * heads, seq, seq), np.float32)
        padded[: batch * own] = p.reshape(-1, seq, seq)
        with_queries(attention, np.zeros((groups, seq, heads * width), np.float32))
        values = with_probabilities(attention, padded, torch.zeros(groups, seq, heads * width))
        by_head = values.reshape(groups, seq, heads, width).transpose(0, 2, 1, 3)
        return by_head.reshape(-1, seq, width)[: batch * own].reshape(batch, own, seq, width)

    def call(feeds: Feeds) -> dict[str, Array]:
        queries, keys = (positions[0] for positions in queries_and_keys(question.inputs, feeds))
        p = feeds[question.inputs[0].name]
        far = int(max(queries.max(initial=0), keys.max(initial=0))) + 1
        whole = np.zeros((*p.shape[:2], far, far), p.dtype)
        whole[:, :, queries[:, None], keys] = p
        return {output_name(question): of_heads(whole)[:, :, queries]}

    return call


def _decomposed(question: Question) -> Model:
    """Return SAM's attention, and those like it, which take a grid of places."""
    made = built(question)
    path = made.holding(made.row.tables[0])[0]
    for name, table in zip(NAMES, in_order(question.tables), strict=True):
        put(made.model, f"{path}.{name}", table)
    attention: Any = made.model.get_submodule(path)

    def call(feeds: Feeds) -> dict[str, Array]:
        q, sides = feeds[question.inputs[0].name], grid_sides(question, feeds)
        flat = q.reshape(*q.shape[:2], -1, q.shape[-1])
        bias = in_heads(attention, flat, lambda tokens: _of_places(attention, tokens, sides))
        return {output_name(question): bias + feeds["scores"] if "scores" in feeds else bias}

    return Model(type(attention).__name__, made.library, call)


def grid_sides(question: Question, feeds: Feeds) -> tuple[int, int]:
    """Return the sides of the grid of a call: of q, or of a baked window, which a parameter may resize."""
    size = question.reading.parameters.get("size")
    if size is None:
        return sides_in(question, feeds)
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _of_places(attention: Any, tokens: Array, sides: tuple[int, int]) -> Array:
    """Return the scores of queries of places."""
    import torch

    queries = torch.from_numpy(tokens).reshape(len(tokens), *sides, -1)
    attention.qkv = constant(torch.cat([queries, torch.zeros_like(queries), torch.zeros_like(queries)], -1))
    return of_attention(attention, queries)


def _points(question: Question) -> Model:
    """Return SAM's points, of our matrix.

    An angle is up to 2 pi times the sum of the magnitudes of a column: of it float32 has a rounding for each of two
    products, one for their sum and one for 2 pi, half an eps each, and half of one for 2 x - 1.
    """
    made = built(question)
    (matrix,) = in_order(question.tables)
    name = made.holding(made.row.tables[0])[0]
    put(made.model, name, matrix)
    module = made.model.get_submodule(name.rpartition(".")[0])

    def call(feeds: Feeds) -> dict[str, Array]:
        import torch

        points = torch.from_numpy(feeds[question.inputs[0].name])
        return {output_name(question): array(run_(lambda: module(points[:, None])))[:, 0]}

    largest = 2 * np.pi * float(np.abs(matrix).sum(0).max())
    return Model(type(module).__name__, made.library, call, atol=3 * eps("float32") * largest)
