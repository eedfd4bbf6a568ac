"""An inspection as lines for people: the file, its encodings, its ends, its findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from posenc_export.common.markdown import plain
from posenc_export.common.rounding import ceiling
from posenc_export.read.findings import FINDINGS
from posenc_export.read.inspection import (
    AskedFit,
    End,
    Explained,
    Finding,
    FoundEncoding,
    GraphInput,
    Inspection,
    Rounded,
    Size,
)

SHOWN = 3
"""Names that a line lists."""
LARGE = 12
"""Inputs that are listed."""
FEW = 4
"""Inputs of a kind that are listed one by one: the caches of two layers."""
WORDS = {
    "rope_theta": "theta",
    "attention_factor": "attention factor",
    "rotary_dim": "width",
    "head_dim": "of heads of",
    "num_heads": "heads",
    "d_model": "width",
}
"""Parameters that people call otherwise."""
PLAIN = ("its name", "its name and its numbers", "its type", "the operator that takes it")
"""Reasons that a reader sees for himself."""
ASKED_COLUMNS = ("asked", "guesses", "nearest guess", "off by", "allowed")
"""The columns of the formulas that were asked."""
NOT_ITS = ("says that they are not its own", "has guesses of other shapes alone")
"""What a formula says that made no guess, or none that numbers can be compared with."""
LISTED = 4
"""Numbers of a parameter that is a list."""


def inspection_lines(inspection: Inspection, verdict: str, whole: bool = False) -> Iterator[str]:
    """Yield the verdict and what needs action, then what the file holds, and last what the file is.

    Args:
        inspection: what was found.
        verdict: what becomes of the file, in words.
        whole: whether findings are explained, and no list is cut.
    """
    yield f"{inspection.file}: {verdict}"
    yield from finding_lines(inspection.findings, whole)
    yield from _compared(inspection)
    yield ""
    yield from body_lines(inspection, whole)
    yield from file_lines(inspection, whole)
    for entry in inspection.explained:
        if entry.is_asked or whole:
            yield ""
            yield from explained_lines(entry)


def explained_lines(entry: Explained) -> Iterator[str]:
    """Yield what is seen at a node: what comes in, what it is recognised as, and the formulas that were asked."""
    yield f"{entry.name}{f', {entry.op_type}' if entry.op_type else ''}{f': {entry.words}' if entry.words else ''}"
    yield from (f"  takes {operand}" for operand in entry.operands)
    for seen in entry.observed:
        shapes = " or ".join(seen.shapes)
        yield f"  {seen.kind}: numbers that {seen.how}, {seen.axes} = {shapes}, {seen.dtype}"
        first = ", ".join(f"{number:.5g}" for number in seen.numbers)
        yield f"    {seen.lowest:.5g} to {seen.highest:.5g}; the first are {first}"
        if seen.stored:
            yield f"    made of {'; '.join(seen.stored)}"
        if not seen.fits:
            yield "    no formula was asked: all numbers are alike, or not finite"
            continue
        rows = [asked_row(fit) for fit in seen.fits]
        yield from (
            f"    {line}" for line in plain(ASKED_COLUMNS, rows, ASKED_COLUMNS[1:2] + ASKED_COLUMNS[3:]).splitlines()
        )


def asked_row(fit: AskedFit) -> tuple[str, ...]:
    """Return a formula that was asked as a row of a table."""
    nearest = " ".join([fit.name, *(f"{name}={value}" for name, value in fit.parameters.items())]).strip()
    off = "" if fit.off is None else "agrees" if fit.agrees else f"{fit.off:.2g}"
    allowed = "" if fit.allowed is None else f"{fit.allowed:.2g}"
    return fit.scheme, str(fit.guesses), nearest or NOT_ITS[fit.guesses > 0], off, allowed


def file_lines(inspection: Inspection, whole: bool = False) -> Iterator[str]:
    """Yield what the file is: its size, its inputs, and what these were taken for."""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(inspection.opsets.items()))
    yield f"file: {_count(inspection.nodes, 'node')}; opset {opsets}"
    groups: dict[tuple[str, str, tuple[Size, ...]], list[GraphInput]] = {}
    for entry in inspection.inputs:
        # caches differ by the number of their layer, and by whether they are of keys or values
        kind = re.sub(r"\d+|key|value|(?<![a-z])[kv](?![a-z])", "#", entry.name.lower())
        groups.setdefault((kind, entry.dtype, entry.shape[2:]), []).append(entry)
    words = [word for entries in groups.values() for word in _inputs(entries, whole)]
    yield f"inputs: {_first_of(words, None if whole else LARGE) or 'none'}"
    taken = [f"{entry.name} is {entry.role} by {entry.why}" for entry in inspection.taken if entry.why not in PLAIN]
    if taken:
        yield f"taken: {_first_of(taken, None if whole else LARGE)}"


def _inputs(entries: Sequence[GraphInput], whole: bool) -> list[str]:
    """Return inputs of a kind: each of a few, and the first of many with how many there are."""
    if whole or len(entries) <= FEW:
        return [_input(entry) for entry in entries]
    return [f"{_input(entries[0])} and {len(entries) - 1} like it"]


def _compared(inspection: Inspection) -> Iterator[str]:
    """Yield with which config, or file before, the file agrees; findings say where it does not."""
    so_far = ", as far as the file was read" if inspection.stopped else ""
    for one in inspection.compared:
        if one.agrees and one.encodings:
            layers = f", in {_count(one.layers or 0, 'layer')}: by it, {one.of_layers} rotate"
            layers = layers if one.layers != one.of_layers else ""
            lists = f", by {' and '.join(one.lists)}" if one.lists else ""
            yield f"agrees with {one.file}{so_far}: {_count(one.encodings, 'encoding')} compared{lists}{layers}"
        elif one.agrees:
            yield f"nothing to compare with {one.file}: no encoding of this file is of a kind that it has"


def body_lines(inspection: Inspection, whole: bool = False) -> Iterator[str]:
    """Yield the encodings, where they end, and what half precision does to them."""
    if not inspection.named:
        # what lies behind may hold one
        yield _nothing(inspection)
    for encoding in inspection.named:
        yield from _encoding(encoding, None if whole else SHOWN)
    for end in inspection.ends:
        yield _end(end)
    yield from _not_judged(inspection, whole)
    if inspection.stopped:
        yield f"stopped: {inspection.stopped}"


def _not_judged(inspection: Inspection, whole: bool) -> Iterator[str]:
    """Yield the places that were not judged: why, of a single one, or where no list is cut."""
    places = list(dict.fromkeys(entry.place for entry in inspection.not_judged))
    if whole or len(inspection.not_judged) == 1:
        yield from (f"not judged: {entry.place}: {entry.reason}" for entry in inspection.not_judged)
    elif places:
        yield f"not judged: {_count(len(places), 'place')}: {some(places)}"


def _nothing(inspection: Inspection) -> str:
    """Return what is said where no encoding has a name: that there is nothing to name, or that it was not named."""
    words = "no positional encoding was recognised"
    if inspection.stopped:
        return f"{words} before reading stopped"
    if inspection.not_judged:
        return f"{words}, and positions may be in what was not judged"
    if any(entry.severity == "error" for entry in inspection.findings):
        return words
    return f"{words}: nothing that follows from positions meets data"


def finding_lines(findings: Sequence[Finding], whole: bool = False) -> Iterator[str]:
    """Yield the findings, the gravest first; where all is said, with what each means and what to do."""
    for entry in findings:
        where = f"{entry.where}: " if entry.where else ""
        yield f"{entry.code} {entry.severity}  {entry.name}: {where}{entry.detail}"
        if whole:
            yield f"  it means: {FINDINGS[entry.name].failure}"
            yield f"  what to do: {FINDINGS[entry.name].remedy}"


def _encoding(encoding: FoundEncoding, most: int | None) -> Iterator[str]:
    form = f" ({encoding.name})" if encoding.name not in ("", encoding.family) else ""
    yield f"{encoding.family}{form}: {parameters_in_words(encoding.parameters) or 'no parameters'}"
    if encoding.scheme:
        yield f"  scheme: {encoding.scheme}"
    if encoding.also:
        yield f"  fits as well: {_first_of(encoding.also, most)}"
    stored = f"{_count(encoding.rows, 'row')} stored" if encoding.rows is not None else "computed in the graph"
    held = encoding.stored_dtype if encoding.rows is not None and encoding.stored_dtype else encoding.dtype
    yield f"  {stored}, {held}; positions from {encoding.positions}"
    layers = f"{_count(len(encoding.layers), 'layer')}: " if encoding.layers else ""
    yield f"  {layers}{_count(len(encoding.nodes), 'node')}: {_first_of(encoding.nodes, most)}"
    if encoding.stored:
        yield f"  made of: {_first_of(encoding.stored, most)}"
    # an infinite error is none in JSON
    if encoding.error is not None or encoding.errors is not None:
        yield f"  {_error(encoding)}"
    if encoding.rounded:
        yield f"  in half precision: {'; '.join(map(_rounded, encoding.rounded))}"


def _error(encoding: FoundEncoding) -> str:
    """Return the error against float64 in words: the worst of what was measured."""
    measured = encoding.errors
    if measured is None or not measured.errors:
        return f"error against float64: {ceiling(encoding.error or 0.0)} in a short call; longer ones were not measured"
    worst = max(range(len(measured.errors)), key=lambda i: measured.errors[i])
    # a row that nobody looked at is not said to be right
    of_some = f", of {measured.sampled:,} sampled {_sampled(encoding)}" if measured.sampled is not None else ""
    place = measured.place
    at = f"at {place} {measured.positions[worst]:,}"
    if measured.grid:
        at += f" of grids up to {' x '.join(f'{side:,}' for side in measured.grid)}"
    elif encoding.rows is None and measured.sampled is None and measured.last_position is not None:
        at += f" of {place}s 0 to {measured.last_position:,}"
    words = f"error against float64{of_some}: at most {ceiling(measured.errors[worst])}, {at}"
    if measured.exceeds_from is None:
        return words
    return f"{words}; above {measured.bound:g} from {place} {measured.exceeds_from:,} on"


def _sampled(encoding: FoundEncoding) -> str:
    if encoding.rows is None and encoding.errors is not None:
        return f"positions up to {encoding.errors.last_position or 0:,}"
    return f"rows of {encoding.rows or 0:,}"


def _rounded(rounded: Rounded) -> str:
    if rounded.noise_from is not None:
        return f"{rounded.dtype} noise from position {rounded.noise_from:,} on"
    return f"{rounded.dtype} off by at most {ceiling(rounded.worst)}" if rounded.worst is not None else rounded.dtype


def _end(end: End) -> str:
    if end.last_right is None:
        return f"no end found up to {end.at(end.tried)}{f': {end.reason}' if end.reason else ''}"
    longer = "are refused" if end.beyond == "refuses" else "run, and are wrong"
    return f"ends at {end.at(end.last_right)}: longer calls {longer} ({end.node}: {end.reason})"


def parameters_in_words(parameters: Mapping[str, object]) -> str:
    """Return parameters as people write them."""
    return ", ".join(f"{WORDS.get(name, name)} {_value(value)}" for name, value in parameters.items())


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, (list, tuple)):
        ending = f", ... {len(value)} in all" if len(value) > LISTED else ""
        return f"({', '.join(map(_value, value[:LISTED]))}{ending})"
    return str(value)


def _input(entry: GraphInput) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in entry.shape)
    return f"{entry.name} {entry.dtype}[{sizes}]"


def some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    return _first_of(names, SHOWN)


def _first_of(names: Sequence[str], most: int | None) -> str:
    more = 0 if most is None else len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
