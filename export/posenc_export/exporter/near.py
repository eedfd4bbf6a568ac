"""In which calls a model is asked: where its float32 angles are good, and where a table is meant to agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Feeds
from posenc.scheme import build
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.targets import Target
from posenc_export.validation.feeds import feeds_for
from posenc_export.validation.record import at_rows

NEAR = 512
"""Positions from here on are held against float64 alone: the model's own float32 angles hide errors there."""
FARTHEST = 2**17
"""Both sides of a switch are asked up to here, and of whole tables the first rows."""
ROTARY = ("rotary", "cos_sin")
"""Families whose table holds the angles of one length of calls."""


@dataclass(frozen=True)
class Calls:
    """The calls that a model is asked, by case; a note on those that it is not though they are near."""

    feeds: Mapping[str, Feeds]
    note: str = ""


def calls_of(target: Target, cases: Sequence[GoldenCase], seed: int) -> Calls:
    """Return the calls in which a model is asked, with their inputs."""
    near = [golden for golden in cases if _is_asked(golden.case, target.encoding)]
    feeds = {golden.case.name: feeds_for(target.encoding.inputs, golden.case, seed) for golden in near}
    shorter = _shorter(target, near, feeds)
    if not shorter:
        return Calls(feeds)
    note = f"a table is of calls of {target.spec.max_len}: in {len(shorter)} shorter ones the model's angles are others"
    return Calls({name: value for name, value in feeds.items() if name not in shorter}, note)


def _is_asked(case: Case, encoding: Encoding) -> bool:
    """Return whether a model is asked in a case: near the first position, and on both sides of every switch."""
    if case.refused:
        return False
    length = case.max_position + 1
    is_at_switch = any(abs(length - n) <= 1 for n in encoding.probes.lengths)
    return length <= NEAR or (length <= FARTHEST and (is_at_switch or not encoding.inputs))


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
