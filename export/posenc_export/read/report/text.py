"""An inspection as lines for people: the file, its encodings, its ends, its findings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from posenc_export.read.inspection import End, Finding, FoundEncoding, GraphInput, Inspection, Rounded, Size

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
LISTED = 4
"""Numbers of a parameter that is a list."""


def head_lines(inspection: Inspection) -> Iterator[str]:
    """Yield what the file is: this is known before anything of it is interpreted."""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(inspection.opsets.items()))
    yield f"{inspection.file}: {_count(inspection.nodes, 'node')}; opset {opsets}"
    groups: dict[tuple[str, str, tuple[Size, ...]], list[GraphInput]] = {}
    for entry in inspection.inputs:
        # caches differ by the number of their layer, and by whether they are of keys or values
        kind = re.sub(r"\d+|key|value|(?<![a-z])[kv](?![a-z])", "#", entry.name.lower())
        groups.setdefault((kind, entry.dtype, entry.shape[2:]), []).append(entry)
    words = [word for entries in groups.values() for word in _inputs(entries)]
    more = len(words) - LARGE
    yield f"inputs: {', '.join(words[:LARGE]) or 'none'}{f' and {more} more' if more > 0 else ''}"


def _inputs(entries: Sequence[GraphInput]) -> list[str]:
    """Return inputs of a kind: each of a few, and the first of many with how many there are."""
    if len(entries) <= FEW:
        return [_input(entry) for entry in entries]
    return [f"{_input(entries[0])} and {len(entries) - 1} like it"]


def body_lines(inspection: Inspection) -> Iterator[str]:
    """Yield the encodings, where they end, and what half precision does to them."""
    yield from _taken(inspection)
    named = [encoding for encoding in inspection.encodings if encoding.family != "not recognised"]
    if not named:
        # what lies behind may hold one
        yield _nothing(inspection)
    for encoding in named:
        yield from _encoding(encoding)
    for end in inspection.ends:
        yield _end(end)
    if inspection.not_judged:
        places = list(dict.fromkeys(entry.place for entry in inspection.not_judged))
        yield f"not judged: {_count(len(places), 'place')}: {some(places)}"
    if inspection.stopped:
        yield f"stopped: {inspection.stopped}"


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


def _taken(inspection: Inspection) -> Iterator[str]:
    """Yield what inputs were taken for, where their names do not say it themselves."""
    words = [f"{entry.name} is {entry.role} by {entry.why}" for entry in inspection.taken if entry.why not in PLAIN]
    if words:
        yield f"taken: {', '.join(words[:LARGE])}"


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings, the gravest first."""
    for entry in findings:
        where = f"{entry.where}: " if entry.where else ""
        yield f"{entry.code} {entry.severity}  {entry.name}: {where}{entry.detail}"


def verdict_line(inspection: Inspection) -> str:
    """Return the verdict, and how to read more of the gravest finding."""
    more = [f"posenc explain {inspection.findings[0].code} says what to do"] if inspection.findings else []
    return "; ".join([inspection.verdict, *more])


def _encoding(encoding: FoundEncoding) -> Iterator[str]:
    form = f" ({encoding.name})" if encoding.name not in ("", encoding.family) else ""
    yield f"{encoding.family}{form}: {parameters_in_words(encoding.parameters) or 'no parameters'}"
    if encoding.scheme:
        yield f"  scheme: {encoding.scheme}"
    if encoding.also:
        yield f"  fits as well: {some(encoding.also)}"
    stored = f"{_count(encoding.rows, 'row')} stored" if encoding.rows is not None else "computed in the graph"
    held = encoding.stored_dtype if encoding.rows is not None and encoding.stored_dtype else encoding.dtype
    yield f"  {stored}, {held}; positions from {encoding.positions}"
    layers = f"{_count(len(encoding.layers), 'layer')}: " if encoding.layers else ""
    yield f"  {layers}{_count(len(encoding.nodes), 'node')}: {some(encoding.nodes)}"
    if encoding.stored:
        yield f"  made of: {some(encoding.stored)}"
    if encoding.error is not None:
        yield f"  {_error(encoding)}"
    if encoding.rounded:
        yield f"  in half precision: {'; '.join(map(_rounded, encoding.rounded))}"


def _error(encoding: FoundEncoding) -> str:
    """Return the error against float64 in words: the worst of what was measured."""
    measured = encoding.errors
    if measured is None or not measured.errors:
        return f"error against float64: {up(encoding.error or 0.0)} in a short call; longer ones were not measured"
    worst = max(range(len(measured.errors)), key=lambda i: measured.errors[i])
    # a row that nobody looked at is not said to be right
    of_some = f", of {measured.sampled:,} sampled {_sampled(encoding)}" if measured.sampled is not None else ""
    at = f"at position {measured.positions[worst]:,}"
    if encoding.rows is None and measured.sampled is None and measured.last_position is not None:
        at += f" of positions 0 to {measured.last_position:,}"
    words = f"error against float64{of_some}: at most {up(measured.errors[worst])}, {at}"
    if measured.exceeds_from is None:
        return words
    return f"{words}; above {measured.bound:g} from position {measured.exceeds_from:,} on"


def _sampled(encoding: FoundEncoding) -> str:
    if encoding.rows is None and encoding.errors is not None:
        return f"positions up to {encoding.errors.last_position or 0:,}"
    return f"rows of {encoding.rows or 0:,}"


def up(number: float) -> str:
    """Return a number with two digits, rounded up: what is at most this is true of the number, too."""
    if not number or not math.isfinite(number):
        return f"{number:.2g}"
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    # what is a number of two digits already stays, whatever its last bit is
    return f"{math.ceil(number / step - 1e-9) * step:.2g}"


def _rounded(rounded: Rounded) -> str:
    if rounded.noise_from is not None:
        return f"{rounded.dtype} noise from position {rounded.noise_from:,} on"
    return f"{rounded.dtype} off by at most {rounded.worst:.2g}" if rounded.worst is not None else rounded.dtype


def _end(end: End) -> str:
    if end.last_right is None:
        return f"no end up to {end.tried:,} along {end.axis}{f': {end.reason}' if end.reason else ''}"
    longer = "are refused" if end.beyond == "refuses" else "run, and are wrong"
    return f"ends at {end.last_right:,} along {end.axis}: longer calls {longer} ({end.node}: {end.reason})"


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
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
