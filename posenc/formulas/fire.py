"""FIRE (arXiv:2310.04418): a small network of the distance to a key, as a share of how far a query could look back.

    bias[h, i, j] = network(log(c |i - j| + 1) / log(c max(i, L) + 1))[h]

The network has one input, a layer of units with ReLU, and an output for each head. c and L are learned, and above 0.
"""

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.decimals import shortest
from posenc.parameters import Value
from posenc.ports import Array, Floats, Integers

Weights = tuple[Floats, Floats, Floats, Floats]
"""Those of the network: (hidden,), (hidden,), (heads, hidden), (heads,)."""
FEW = 8
"""How many queries, and keys of each, say which numbers are the nearest."""
SINGLES = 16
"""Single numbers that are tried as c, and as L."""
NEAREST = 2
"""Pairs of c and L that are computed whole, of each network."""
NEAR = 0.1
"""How far off a pair may be for a large table to be computed, as a share of the largest number."""
MANY_UNITS = 2**24
"""A table is large whose units, of all queries and keys, are more than these."""
AT_ONCE = 2**14
"""Shares whose units are computed at once."""
EXACT = 1e-6
"""By how much a number may be another short decimal, as a share: what float32 has of it."""
OF_SMALL = 1e-6
"""What code adds to a logarithm before it divides by it, at most."""


def reference(call: Call, *, weights: Weights, c: float, threshold: float) -> tuple[Array]:
    """Return the bias in float64, head by head: (batch, heads, queries, keys)."""
    query, key = call.query[:, :, None], call.key[:, None, :]
    share = np.log(c * np.abs(query - key) + 1) / np.log(c * np.maximum(query, threshold) + 1)
    first, bias, second, last = weights
    heads = []
    for by_head, added in zip(second, last, strict=True):
        head = np.full(share.shape, added, np.float64)
        for out, own, weight in zip(first, bias, by_head, strict=True):
            head += weight * np.maximum(own + out * share, 0)
        heads.append(head)
    return (np.stack(heads, 1),)


def network(weights: Weights, share: Floats) -> Floats:
    """Return what a network says of shares in float64: (...) -> (heads, ...)."""
    first, bias, second, last = weights
    flat, heads = share.reshape(-1), np.empty((len(last), share.size))
    # all units of all shares at once would take gigabytes where a window has thousands of places
    for start in range(0, share.size, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        heads[:, part] = second @ np.maximum(np.multiply.outer(first, flat[part]) + bias[:, None], 0) + last[:, None]
    return heads.reshape(len(last), *share.shape)


def shares(query: Integers, key: Integers, c: float, threshold: float) -> Floats:
    """Return the shares of queries and keys that are broadcast to each other."""
    return np.asarray(np.log1p(c * np.abs(query - key)) / np.log1p(c * np.maximum(query, threshold)))


@fits("bias", family="relative")
def fit(seen: Observation) -> Iterator[Guess]:
    """Find the network among what is stored, and c and L among the single numbers there, or products of two of them.

    A few keys say which of these come first. Where even the first are off by more than a tenth of the largest number, a
    large table is not computed. L says nothing in a call whose queries all are beyond it.
    """
    heads, queries, keys = seen.numbers.shape
    if keys < queries or not seen.singles:
        return
    query, key = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None]
    rows, columns = (np.linspace(0, count - 1, FEW).astype(int) for count in (queries, keys))
    few = seen.numbers.astype(np.float64)[:, rows][:, :, columns]
    far = NEAR * float(np.nanmax(np.abs(few), initial=0.0))
    singles = [abs(number) for number in seen.singles if number][:SINGLES]
    ends = dict.fromkeys((*singles, *(a * b for i, a in enumerate(singles) for b in singles[i + 1 :])))
    for weights in _networks(seen.tables, heads):
        is_large = queries * keys * len(weights[0]) > MANY_UNITS
        tried = []
        for c in dict.fromkeys(singles):
            for threshold in ends:
                differences = np.abs(network(weights, shares(query[rows], key[:, columns], c, threshold)) - few)
                tried.append((float(np.nanmax(differences, initial=0.0)), c, threshold))
        for off, c, threshold in sorted(tried)[:NEAREST]:
            if is_large and off > far:
                continue
            read: dict[str, Value] = {
                "heads": heads,
                "hidden": len(weights[0]),
                "c": shortest(c, EXACT * c),
                "threshold": shortest(threshold, EXACT * threshold),
            }
            expected = network(weights, shares(query, key, c, threshold))
            yield Guess(read, expected, tolerance=seen.tolerance + _cost(weights, seen.spacing))


def _cost(weights: Weights, spacing: float) -> float:
    """Return how far a network may be off where every number that goes into a sum of it was rounded."""
    first, bias, second, last = (np.abs(part) for part in weights)
    largest = float((second @ (first + bias) + last).max())
    return (spacing * (16 + len(first)) + OF_SMALL) * largest


def _networks(stored: tuple[Array, ...], heads: int) -> Iterator[Weights]:
    """Yield the weights of a network of one input among stored tensors, in any layout; no last numbers are zeros."""
    tables = [np.squeeze(table).astype(np.float64) for table in stored]
    vectors = [table for table in tables if table.ndim == 1]
    ends = [vector for vector in vectors if len(vector) == heads]
    for table in tables:
        # with a single head, the second matrix is a line of units
        second = table.reshape(1, -1) if table.ndim == 1 and heads == 1 else table
        if second.ndim != 2:
            continue
        for turned in (second, second.T):
            units = [vector for vector in vectors if len(vector) == turned.shape[1] and vector is not table]
            if len(turned) == heads:
                for first, bias in permutations(units, 2):
                    yield from ((first, bias, turned, last) for last in (*ends, np.zeros(heads)))
