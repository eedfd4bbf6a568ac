"""In which calls a model is asked: where its float32 angles are good, and where a table is meant to agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Feeds
from posenc.scheme import build
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.recording.record import at_rows
from posenc_export.write.targets import Target
from posenc_export.write.targets.feeds import feeds_for
from posenc_models.asking.process import Answers

NEAR = 512
"""Positions from here on are held against float64 alone: the model's own float32 angles hide errors there."""
FARTHEST = 2**17
"""Both sides of a switch are asked up to here."""
ROTARY = ("rotary", "cos_sin")
"""Families whose table holds the angles of one length of calls."""


def calls_of(target: Target, cases: Sequence[GoldenCase], seed: int) -> tuple[Mapping[str, Feeds], str]:
    """Return the inputs of the cases that are near, but for those in which a table differs on purpose, and a note."""
    inputs, probes = target.encoding.inputs, target.encoding.probes.lengths
    usable = [golden for golden in cases if not golden.case.refused]
    near = [golden for golden in usable if not inputs or _is_near(golden.case, probes)]  # without inputs there is one
    feeds = {golden.case.name: feeds_for(inputs, golden.case, seed) for golden in near}
    # a table holds the angles of calls of max_len; a model computes those of the call's own length
    dynamic = _for_each_length(target)
    shorter = {g.case.name for g in near if dynamic and not _same(g, dynamic, feeds[g.case.name])}
    if not shorter:
        return feeds, ""
    note = f"a table is of calls of {target.spec.max_len}: in {len(shorter)} shorter ones the model's angles are others"
    return {name: value for name, value in feeds.items() if name not in shorter}, note


def _is_near(case: Case, probes: Sequence[int]) -> bool:
    """Return whether a case is near the first position, or on either side of a switch."""
    length = case.max_position + 1
    return length <= NEAR or (length <= FARTHEST and any(abs(length - n) <= 1 for n in probes))


def near_rows(answers: Answers) -> Answers:
    """Return answers whose tables, which nothing goes into, say nothing of positions that are not near."""
    outputs = {case: {k: _cut(v, NEAR) for k, v in arrays.items()} for case, arrays in answers.outputs.items()}
    return replace(answers, outputs=outputs)


def _cut(rows: Array, end: int) -> Array:
    """Return rows of positions, NaN from one on: (positions, ...) -> the same."""
    cut = np.array(rows, np.float64)
    cut[end:] = np.nan
    return cut


def _for_each_length(target: Target) -> Encoding | None:
    """Return what computes the angles of a call for its own length, where a target has a table of max_len rows."""
    if target.spec.mode != "baked" or target.encoding.family not in ROTARY or not target.encoding.inputs:
        return None
    return build(target.name, replace(target.spec, mode="dynamic"), **target.params)


def _same(golden: GoldenCase, dynamic: Encoding, feeds: Feeds) -> bool:
    """Return whether the angles of a case are also those of a call of its length."""
    reference = reference_of(dynamic, golden, feeds)
    return all(np.allclose(reference[name], value, 1e-9, 1e-9) for name, value in golden.reference.items())


def reference_of(encoding: Encoding, golden: GoldenCase, feeds: Feeds) -> dict[str, Array]:
    """Return the float64 reference of an encoding in a case, at the rows that are kept."""
    whole = encoding.reference(feeds, None)
    return {port.name: at_rows(port, whole[port.name], golden.rows) for port in encoding.outputs}
