"""In which calls a model is asked: where its float32 angles are good, and where a table is meant to agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Encoding
from posenc.hf.asking.process import Answers
from posenc.ports import Array, Feeds
from posenc.scheme import build
from posenc_export.bundle.case import GoldenCase
from posenc_export.targets import Target
from posenc_export.validation.planning.feeds import feeds_for
from posenc_export.validation.recording.record import at_rows

ROTARY = ("rotary", "cos_sin")
"""Families whose table holds the angles of one length of calls."""


@dataclass(frozen=True)
class Calls:
    """The calls that a model is asked, by case; a note on those that it is not though they are near."""

    feeds: Mapping[str, Feeds]
    note: str = ""


def calls_of(target: Target, near: Sequence[GoldenCase], seed: int) -> Calls:
    """Return the calls of cases with their inputs, but for those in which a table is not meant to agree."""
    feeds = {golden.case.name: feeds_for(target.encoding.inputs, golden.case, seed) for golden in near}
    shorter = _shorter(target, near, feeds)
    if not shorter:
        return Calls(feeds)
    note = f"a table is of calls of {target.spec.max_len}: in {len(shorter)} shorter ones the model's angles are others"
    return Calls({name: value for name, value in feeds.items() if name not in shorter}, note)


def near_rows(answers: Answers, encoding: Encoding, end: int) -> Answers:
    """Return answers of which a whole table, of what nothing goes into, says nothing from a position on."""
    if encoding.inputs:
        return answers
    outputs = {case: {k: _cut(v, end) for k, v in arrays.items()} for case, arrays in answers.outputs.items()}
    return replace(answers, outputs=outputs)


def _cut(rows: Array, end: int) -> Array:
    """Return rows of positions, NaN from one on: (positions, ...) -> the same."""
    cut = np.array(rows, np.float64)
    cut[end:] = np.nan
    return cut


def _shorter(target: Target, cases: Sequence[GoldenCase], feeds: Mapping[str, Feeds]) -> set[str]:
    """Return the cases whose angles, computed for the call's own length, are not those of a table of max_len rows."""
    if target.spec.mode != "baked" or target.encoding.family not in ROTARY or not target.encoding.inputs:
        return set()
    encoding = build(target.name, replace(target.spec, mode="dynamic"), **target.params)
    return {golden.case.name for golden in cases if not _same(golden, _reference(encoding, golden, feeds))}


def _reference(encoding: Encoding, golden: GoldenCase, feeds: Mapping[str, Feeds]) -> Mapping[str, Array]:
    whole = encoding.reference(feeds[golden.case.name], None)
    return {port.name: at_rows(port, whole[port.name], golden.rows) for port in encoding.outputs}


def _same(golden: GoldenCase, reference: Mapping[str, Array]) -> bool:
    return all(np.allclose(reference[name], value, 1e-9, 1e-9) for name, value in golden.reference.items())
