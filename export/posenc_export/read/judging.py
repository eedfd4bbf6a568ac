"""What is wrong with the encodings of a file, as far as the file itself shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from posenc_export.common.rounding import ceiling
from posenc_export.read.comparing.parameters import layers_named
from posenc_export.read.errors.rounding import NOISE
from posenc_export.read.findings import finding
from posenc_export.read.inspection import (
    UNMEASURED,
    End,
    Errors,
    Finding,
    FoundEncoding,
    GraphInput,
    Inspection,
    NotJudged,
    Severity,
)
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.accounts import Account
from posenc_export.read.recognise.rotary.rotations import TWO_ANGLES
from posenc_export.read.recognise.stored_places import STORED as STORED_NUMBERS

WRONG = {
    "broadcasts": "runs on with too few positions",
    "repeats": "runs on and reads rows again",
    "overruns": "runs on and reads what lies in memory behind its table",
}
"""What a file does beyond its end, where it does not refuse."""
NO_POSITION = "no position"
"""The name that recognisers give to angles that are all 0."""
FLOAT32 = 2.0**-22
"""What an angle in float32 loses a position: its rounding, and that of its frequency."""
ROUNDOFF = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "int8": 2.0**-6, "uint8": 2.0**-6}
"""What a number near 1 loses in a dtype, twice."""
AWAY = "external data that are not beside the file"
TOLD = ("close to ", "angles of no known form ", STORED_NUMBERS)
"""How the names of numbers begin that say all there is to say."""
LISTED = 8
"""Values without a name that are listed one by one."""


def judged(inspection: Inspection, is_strict: bool = False) -> Iterator[Finding]:
    """Yield the findings of an inspection that holds all that was read.

    Args:
        inspection: what was read.
        is_strict: whether the bound of errors is one that somebody asked for: float32 does not excuse an error then.
    """
    for encoding in inspection.encodings:
        yield from _of_numbers(encoding, is_strict)
    yield from _unnamed([e for e in inspection.encodings if e.family == "not recognised"], is_strict)
    for end in inspection.ends:
        yield from _of_end(end)
    yield from fixed_axes(inspection.inputs)
    if inspection.missing:
        severity: Severity = "error" if is_strict else "warning"
        yield finding("missing-data", ", ".join(inspection.missing), AWAY, severity)


def unmeasured_of(inspection: Inspection) -> Iterator[NotJudged]:
    """Yield encodings whose errors are known for a part of the positions alone that a call may have."""
    end = min((end.last_right or end.tried for end in inspection.ends), default=None)
    for encoding in inspection.encodings:
        if encoding.family == "not recognised" or encoding.error is None or encoding.rows is not None:
            continue
        measured = encoding.errors
        if measured is None or measured.last_position is None:
            yield NotJudged(encoding.where_it_meets, f"errors of {encoding.family} were measured in a short call alone")
            continue
        last = measured.last_position
        known = f"errors of {encoding.family} were measured up to {measured.place} {last:,}"
        if measured.beyond:
            yield NotJudged(encoding.where_it_meets, f"{known}: {measured.beyond}")
        # a call's length is no size of a grid, and does not bound positions that come in
        elif encoding.positions == "range" and not measured.grid and end and (measured.samples or last + 1) < end:
            words = f"{known}, and calls go on to {end:,}"
            yield NotJudged(encoding.where_it_meets, words + (UNMEASURED if measured.is_late else ""))


def not_judged_of(inspection: Inspection) -> Iterator[NotJudged]:
    """Yield what of an inspection is neither right nor wrong, as far as its other fields say so."""
    for encoding in inspection.encodings:
        if encoding.family == "not recognised":
            yield NotJudged(encoding.where_it_meets, unnamed_words(encoding))
    for name in inspection.missing:
        yield NotJudged(name, AWAY)


def unjudged_findings(entries: Sequence[NotJudged], is_strict: bool) -> Iterator[Finding]:
    """Yield a finding for what was not judged, and a last one for those that are too many.

    Args:
        entries: what no other finding is about.
        is_strict: whether somebody asked for a bound, which could not be held against these.
    """
    severity: Severity = "error" if is_strict else "warning"
    for entry in entries[:LISTED]:
        # a limit that ran out is no disagreement
        yield finding("not-judged", entry.place, entry.reason, "warning" if entry.is_late else severity)
    others = entries[LISTED:]
    if others:
        yield finding("not-judged", others[0].place, f"{len(others)} more places were not judged", severity)


def _of_numbers(encoding: FoundEncoding, is_strict: bool) -> Iterator[Finding]:
    if encoding.name == NO_POSITION:
        yield finding("no-position", encoding.where, f"{encoding.family}: every position gets the same numbers")
        return
    if "tables" in encoding.parameters:
        words = f"{encoding.family}: the table of cosines holds sines, and that of sines cosines"
        yield finding("no-rotation", encoding.where, words)
    if encoding.moved:
        some = ", ".join(map(str, encoding.moved[:LISTED]))
        words = f"logarithms are in half precision: roundings choose the row of distances {some}"
        yield finding(
            "half-noise", encoding.where, f"{encoding.family}: {words}{', ...' * bool(encoding.moved[LISTED:])}"
        )
        return
    measured = encoding.errors
    if measured is None or not measured.errors:
        # so far off that its columns are those of the form in no order
        if encoding.error is not None and encoding.error > NOISE:
            yield finding("off-formula", encoding.where, f"{encoding.family}: off by {ceiling(encoding.error)}")
        elif is_strict and not encoding.is_trained and encoding.family != "not recognised":
            words = f"{encoding.family} ({encoding.name}): not judged, since its error was not measured"
            yield finding("off-formula", encoding.where, words)
        return
    if measured.slope:
        yield from _of_bias(encoding, measured, is_strict)
        return
    points = list(zip(measured.positions, measured.errors, strict=True))
    noisy = [position for position, error in points if error > NOISE]
    # below 2^17 no angle in float32 is off by as much
    if encoding.rows is None and noisy:
        words = f"{encoding.family} angles are computed in half precision: noise from about position {noisy[0]:,} on"
        yield finding("half-noise", encoding.where, words)
        return
    # one rule for all tables: what the element type loses that they are stored in is for --fail-above to ask for
    held = max((encoding.dtype, encoding.stored_dtype), key=_roundoff)
    off = [p for p, error in points if error > measured.bound + (0.0 if is_strict else excused(p, held))]
    if off:
        first = measured.exceeds_from if is_strict else off[0]
        position, worst = max(points, key=lambda point: point[1])
        words = f"off by more than {measured.bound:g} from {measured.place} {first:,} on"
        words = f"{words}, by {ceiling(worst)} at {position:,}"
        yield finding("off-formula", measured.tensor or encoding.where, f"{encoding.family}: {words}")


def _of_bias(encoding: FoundEncoding, measured: Errors, is_strict: bool) -> Iterator[Finding]:
    """Yield what is wrong with a bias whose numbers grow: float32 and half precision lose digits of each of them."""
    points = list(zip(measured.positions, measured.errors, strict=True))
    # the slope, the distance and their product are rounded
    relative = FLOAT32 + 2 * ROUNDOFF.get(max((encoding.dtype, encoding.stored_dtype), key=_roundoff), 0.0)
    excuses = [0.0 if is_strict else relative * measured.slope * position**measured.power for position, _ in points]
    off = [p for (p, error), excuse in zip(points, excuses, strict=True) if not error <= measured.bound + excuse]
    if not off:
        return
    position, worst = max(points, key=lambda point: point[1])
    where, family = measured.tensor or encoding.where, encoding.family
    if not is_strict and math.isinf(worst) and off[0] == position:
        # where nobody asks for such a length, nothing is wrong
        words = f"{family}: {encoding.dtype} has no number as large as those from {measured.place} {position:,} on"
        yield finding("not-finite", where, words, "warning")
        return
    first = measured.exceeds_from if is_strict else off[0]
    words = f"off by more than {measured.bound:g} from {measured.place} {first:,} on"
    yield finding("off-formula", where, f"{family}: {words}, by {ceiling(worst)} at {position:,}")


def _roundoff(dtype: str) -> float:
    return ROUNDOFF.get(dtype, 0.0)


def of_inputs(entries: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Yield a finding for each input of which nothing says whether it holds positions: its name, and its table."""
    for name, table in entries:
        words = (
            f"picks rows of {table}: words, or learned positions? Taken for words; --positions {name} says otherwise"
        )
        yield finding("not-recognised", name, words)


def of_sides(accounts: Sequence[Account], named: Sequence[Named]) -> Iterator[Finding]:
    """Yield what is wrong with attentions, and what is not known of them; the same of several in one finding."""
    rotations = [entry.form for entry in named if entry.form.traits.is_turned or entry.form.family == "not recognised"]
    # where every rotation has the numbers of a formula whose pairs turn apart, that is no fault
    is_apart = bool(rotations) and all(form.parameters.get("layout") == "axis_tiled" for form in rotations)
    for kind in ("error", "note"):
        alike: dict[str, tuple[str, list[int]]] = {}
        for number, account in enumerate(accounts):
            for fault in account.faults if kind == "error" else account.unsure:
                if not (is_apart and TWO_ANGLES in fault.words):
                    alike.setdefault(fault.words, (fault.node, []))[1].append(number)
        for words, (node, layers) in alike.items():
            severity: Severity = "error" if kind == "error" else "note"
            yield finding("sides", node, f"{layers_named(layers)}: {words}", severity)


def excused(position: int, dtype: str) -> float:
    """Return by how much numbers may be off where nothing is wrong but the dtype: angles in float32 grow with it."""
    return position * FLOAT32 + ROUNDOFF.get(dtype, 0.0)


def _unnamed(encodings: Sequence[FoundEncoding], is_strict: bool) -> Iterator[Finding]:
    """Yield a finding for values that no recogniser knows, and a last one for those that are too many."""
    severity: Severity = "error" if is_strict else "note"
    # a vocoder has hundreds of sines
    for encoding in encodings[:LISTED]:
        yield finding("not-recognised", encoding.where_it_meets, unnamed_words(encoding), severity)
    others = encodings[LISTED:]
    if others:
        words = f"{len(others)} more values are none of the known forms"
        yield finding("not-recognised", others[0].where_it_meets, words, severity)


def unnamed_words(encoding: FoundEncoding) -> str:
    """Return what is said of a value without a name: what it is, where it comes from, and where it meets data."""
    if encoding.name.startswith(TOLD):
        value = f"{encoding.dtype}{list(encoding.shape)} meets data here: " if encoding.shape else ""
        return f"{value}{encoding.name}"
    made = encoding.name or "numbers"
    several = "" if " and " in made or not encoding.name else "s"
    source = "the length" if encoding.positions == "range" else encoding.positions.removeprefix("mask ")
    value = f"{encoding.dtype}{list(encoding.shape)}"
    return f"{made} follow{several} from {source} and meet{several} data here: {value}, none of the known forms"


def _of_end(end: End) -> Iterator[Finding]:
    if end.last_right is None:
        return
    if end.beyond in WRONG:
        words = f"right up to {end.at(end.last_right)}; at {end.last_right + 1:,} it {WRONG[end.beyond]}"
        yield finding("wrong-beyond", end.node, f"{words}: {end.reason}")
    else:
        words = f"right up to {end.at(end.last_right)}; longer calls are refused: {end.reason}"
        yield finding("ends", end.node, words)


def fixed_axes(inputs: Iterable[GraphInput]) -> Iterator[Finding]:
    """Yield a finding where tokens have a fixed batch or length: inputs of whole numbers with two axes."""
    fixed = []
    for entry in inputs:
        if len(entry.shape) != 2 or not entry.dtype.startswith(("int", "uint", "bool")):
            continue
        pairs = zip(("batch", "length"), entry.shape, strict=True)
        words = [f"{name} {size}" for name, size in pairs if isinstance(size, int)]
        # a step of one token is made so: its length alone is fixed
        if words and words != ["length 1"]:
            fixed.append(f"{entry.name}: {', '.join(words)}")
    if fixed:
        yield finding("fixed-axis", "", "; ".join(fixed))
