"""Which mutants are wrong in nothing: the same bits in ten times as many calls, by a rule that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import onnxruntime
from onnx import ModelProto

from helpers.mutants.graph_facts import Facts
from helpers.mutants.mutations import Mutation
from helpers.mutants.rules import rule_of
from posenc.ports import Array, Axis, Feeds, Positions, Start, axes_of, carrying
from posenc_export.bundle.carries import keys_axis
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Manifest
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import elements

TIMES, SEED = 10, 1
"""Calls for each planned one, and their seed."""
LONGEST, BUDGET = 200, 2**19
"""Tokens of a call of our own, and elements of its largest array."""


def equivalent(model: ModelProto, mutant: ModelProto, mutation: Mutation, manifest: Manifest) -> str:
    """Return the rule under which a mutant falls that gives the same bits in all calls; nothing where none is."""
    words = rule_of(Facts(model), mutation)
    return words if words and same_bits(model, mutant, manifest) else ""


def same_bits(model: ModelProto, mutant: ModelProto, manifest: Manifest) -> bool:
    """Return whether two files give the same bits, and refuse the same calls, in ten times the plan."""
    one, other = _caller(model), _caller(mutant)
    return all(one(feeds) == other(feeds) for feeds in calls(manifest))


def _caller(model: ModelProto) -> Callable[[Feeds], object]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def call(feeds: Feeds) -> object:
        try:
            return [(array.shape, array.tobytes()) for array in session.run(None, dict(feeds))]
        except Exception:
            return None

    return call


def calls(manifest: Manifest) -> Iterator[Mapping[str, Array]]:
    """Yield ten calls for each planned one: other lengths, batches, positions and numbers."""
    rng = np.random.default_rng(SEED)
    for turn in range(TIMES):
        for case in manifest.cases:
            again = _again(manifest, case, rng)
            again = replace(again, name=f"{again.name}-{turn}")
            yield feeds_for(manifest.inputs, again, SEED + turn)


def _again(manifest: Manifest, case: Case, rng: np.random.Generator) -> Case:
    if case.refused:
        return case
    lengths = [axis for axis in axes_of(manifest.inputs) if axis.is_length]
    sizes = {axis.name: axis.allowed(int(rng.integers(1, 7))) for axis in axes_of(manifest.inputs)}
    sizes |= _lengths(lengths, case, rng)
    while elements((*manifest.inputs, *manifest.outputs), sizes) > BUDGET:
        sizes = {name: max(1, size // 2) for name, size in sizes.items()}
    keys = keys_axis(manifest.inputs)
    length = max((sizes[axis.name] for axis in lengths if axis.name != keys), default=1)
    first = _first(manifest, case, length, rng)
    if keys:  # as many as there are positions, and a few more
        sizes[keys] = first + length + int(rng.integers(0, 3))
    return replace(case, sizes=sizes, first=first)


def _lengths(axes: list[Axis], case: Case, rng: np.random.Generator) -> dict[str, int]:
    """Return other lengths that meet as those of a case do: alike, or one of them longer."""
    most = min(LONGEST, max([2, *case.sizes.values()]))
    if len({case.sizes[axis.name] for axis in axes}) == 1 and all(axis.kind == "length" for axis in axes):
        return dict.fromkeys((axis.name for axis in axes), int(rng.integers(1, most + 1)))
    drawn = sorted(int(n) for n in rng.integers(1, most + 1, len(axes)))
    by_size = sorted(axes, key=lambda axis: case.sizes[axis.name])
    return {axis.name: axis.allowed(n, axis.most) for axis, n in zip(by_size, drawn, strict=True)}


def _first(manifest: Manifest, case: Case, length: int, rng: np.random.Generator) -> int:
    ends = [port.carries.end for port in carrying(manifest.inputs, Positions, Start)]  # type: ignore[union-attr]
    end = next((one for one in ends if one is not None), 2 * case.max_position + 2)
    end = min(end, LONGEST) if keys_axis(manifest.inputs) else end
    return int(rng.integers(0, max(1, end - length))) if ends else 0
