"""Queries times learned rows: what an attention with our rows adds to the scores of our queries; SAM's points."""

from collections.abc import Callable
from math import ceil

import numpy as np
import torch
from torch import nn

from posenc.call import queries_and_keys
from posenc.encoding import eps
from posenc.ports import Array, Feeds
from posenc_models.asking.biases import end_of
from posenc_models.asking.built import Built, built, parent_of, put
from posenc_models.asking.model import Answer, Call, OwnModel, Question
from posenc_models.asking.running import Sides, added_to_scores, answer, in_order, pair, run_, values_of
from posenc_models.asking.scores import constant, of_attention, with_probabilities
from posenc_models.asking.windows import sides_in
from posenc_models.config.foreign import HfModule

QUERIES = ("linear_q", "q_proj")  # Conformers, SpeechT5 and VITS
OTHERS = ("linear_k", "linear_v", "k_proj", "v_proj")
NAMES = ("rel_pos_h", "rel_pos_w")  # SAM and ViTDet


def model_of(question: Question) -> OwnModel:
    """Return a model with our rows in its attention, or with our matrix."""
    makers = {"clipped_relative": _clipped, "decomposed_relative": _decomposed, "fourier_features": _points}
    return makers[question.reading.scheme](question)


def _clipped(question: Question) -> OwnModel:
    """Return an attention that has a row for each distance; SpeechT5's rows are those of the encoder around it."""
    made = built(question)
    put(made.model, made.table, in_order(question.tables)[0])
    owner, more = _attention(made, made.table)
    if question.reading.parameters.get("output") == "values":
        return OwnModel(type(owner).__name__, made.library, _values(question, owner))

    def square(q: Array) -> Array:
        return in_heads(owner, q, lambda tokens: scores_of(owner, tokens, **more(tokens.shape[1])))

    def call(feeds: Feeds) -> Answer:
        queries, keys = (positions[0] for positions in queries_and_keys(question.inputs, feeds))
        q = feeds[question.inputs[0].name]
        whole = np.zeros((*q.shape[:2], end_of(queries, keys), q.shape[3]), q.dtype)
        # the model counts positions from 0: our queries stand at theirs, among zeros
        whole[:, :, queries] = q
        return added_to_scores(question, square(whole)[:, :, queries][..., keys], feeds)

    return OwnModel(type(owner).__name__, made.library, call)


def _attention(made: Built, table: str) -> tuple[nn.Module, Callable[[int], dict[str, object]]]:
    """Return the attention that a table belongs to, and what it takes beside so many tokens."""
    owner = parent_of(made.model, table)
    if type(owner).__name__ == "Embedding" and table.endswith("pe_k.weight"):
        around = table.removesuffix("embed_positions.pe_k.weight")
        rows, attention = (made.model.get_submodule(around + n) for n in ("embed_positions", "layers.0.attention"))
        return attention, lambda n: {"position_bias": run_(lambda: rows(torch.zeros(1, n, 1)))}
    path = table.removesuffix(".distance_embedding.weight")
    return (made.model.get_submodule(path) if path != table else owner), lambda n: {}


def heads_of(attention: HfModule) -> int:
    """Return how many heads an attention has."""
    return int(getattr(attention, "num_heads", None) or attention.num_attention_heads)


def in_heads(attention: HfModule, q: Array, ask: Callable[[Array], Array]) -> Array:
    """Return what an attention gives the heads of a call, in groups of as many heads as it has.

    Args:
        attention: the model's attention.
        q: our queries, (batch, heads, seq, head_dim).
        ask: the function from tokens (groups, seq, heads * head_dim) to (groups, heads, seq, n).
    """
    heads, width = heads_of(attention), q.shape[-1]
    padded = in_groups(q, heads)
    # (groups, heads, seq, head_dim) -> (groups, seq, heads * head_dim)
    tokens = padded.transpose(0, 2, 1, 3).reshape(len(padded), -1, heads * width)
    return out_of_groups(ask(tokens), q)


def in_groups(x: Array, heads: int) -> Array:
    """Return (batch, own, seq, n) as (groups, heads, seq, n), with zeros behind the last head."""
    batch, own, seq, n = x.shape
    groups = ceil(batch * own / heads)
    padded = np.zeros((groups * heads, seq, n), np.float32)
    padded[: batch * own] = x.reshape(-1, seq, n)
    return padded.reshape(groups, heads, seq, n)


def out_of_groups(values: Array, x: Array) -> Array:
    """Return (groups, heads, seq, n) as the (batch, own, seq, n) that `in_groups` made the groups of."""
    batch, own, seq, _ = x.shape
    # SpeechT5 has groups and heads in one axis: (groups * heads, seq, n)
    return values.reshape(-1, seq, values.shape[-1])[: batch * own].reshape(batch, own, seq, -1)


def scores_of(attention: HfModule, tokens: Array, **more: object) -> Array:
    """Return the scores of an attention for given queries, and keys of zeros."""
    with_queries(attention, tokens)
    return of_attention(attention, torch.zeros(*tokens.shape), **more)


def with_queries(attention: HfModule, tokens: Array) -> None:
    """Have an attention take queries as they are given, and keys and values of zeros."""
    queries = torch.from_numpy(tokens)
    for name in (*QUERIES, *OTHERS):
        if hasattr(attention, name):
            setattr(attention, name, constant(queries if name in QUERIES else torch.zeros_like(queries)))


def _values(question: Question, attention: HfModule) -> Call:
    """Return the function that answers a call of probabilities: what attention adds to values of zeros."""
    attention.out_proj = nn.Identity()

    def of_heads(p: Array) -> Array:
        heads, width, seq = heads_of(attention), int(attention.head_dim), p.shape[2]
        padded = in_groups(p, heads)
        tokens = np.zeros((len(padded), seq, heads * width), np.float32)
        with_queries(attention, tokens)
        values = with_probabilities(attention, padded.reshape(-1, seq, seq), torch.from_numpy(tokens))
        # (groups, seq, heads * head_dim) -> (groups, heads, seq, head_dim)
        return out_of_groups(values.reshape(-1, seq, heads, width).transpose(0, 2, 1, 3), p)

    def call(feeds: Feeds) -> Answer:
        queries, keys = (positions[0] for positions in queries_and_keys(question.inputs, feeds))
        p, end = feeds[question.inputs[0].name], end_of(queries, keys)
        whole = np.zeros((*p.shape[:2], end, end), p.dtype)
        whole[:, :, queries[:, None], keys] = p
        return answer(question, of_heads(whole)[:, :, queries])

    return call


def _decomposed(question: Question) -> OwnModel:
    """Return SAM's attention, and those like it, which take a grid of places."""
    made = built(question)
    for name, table in zip(NAMES, in_order(question.tables), strict=True):
        put(made.model, f"{made.table}.{name}", table)
    attention: HfModule = made.model.get_submodule(made.table)

    def call(feeds: Feeds) -> Answer:
        q, sides = feeds[question.inputs[0].name], grid_sides(question, feeds)
        flat = q.reshape(*q.shape[:2], -1, q.shape[-1])  # (batch, heads, height * width, head_dim)
        bias = in_heads(attention, flat, lambda tokens: _of_places(attention, tokens, sides))
        return added_to_scores(question, bias, feeds)

    return OwnModel(type(attention).__name__, made.library, call)


def grid_sides(question: Question, feeds: Feeds) -> Sides:
    """Return the sides of the grid of a call: of q, or of a baked window, which a parameter may resize."""
    size = question.reading.parameters.get("size")
    return sides_in(question, feeds) if size is None else pair(size)


def _of_places(attention: HfModule, tokens: Array, sides: Sides) -> Array:
    """Return the scores of queries of places."""
    queries = torch.from_numpy(tokens).reshape(len(tokens), *sides, -1)  # (groups, height, width, features)
    # keys and values of zeros: scores are the bias
    attention.qkv = constant(torch.cat([queries, torch.zeros_like(queries), torch.zeros_like(queries)], -1))
    return of_attention(attention, queries)


def _points(question: Question) -> OwnModel:
    """Return SAM's module of points, with our matrix in it."""
    made = built(question)
    (matrix,) = in_order(question.tables)
    put(made.model, made.table, matrix)
    module = parent_of(made.model, made.table)

    def call(feeds: Feeds) -> Answer:
        points = torch.from_numpy(feeds[question.inputs[0].name])
        return answer(question, values_of(lambda: module(points[:, None]))[:, 0])

    # An angle is at most 2 pi times the sum of the magnitudes of a column. float32 rounds it by half an eps for each
    # of two products, for their sum and for 2 pi, and by half of that for 2 x - 1: less than three eps.
    largest = 2 * np.pi * float(np.abs(matrix).sum(0).max())
    return OwnModel(type(module).__name__, made.library, call, atol=3 * eps("float32") * largest)
