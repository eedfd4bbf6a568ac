"""What `posenc inspect` says of a foreign file, held against the truth about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from helpers.foreign.truth import End, Held, Parameter, Truth
from posenc_export.read.inspection import End as SeenEnd
from posenc_export.read.inspection import FoundEncoding, Inspection
from posenc_export.read.judging import NO_POSITION

CLOSE = 1e-6
"""How near a number must be to the true one, relative to it."""
IMPLIED: Mapping[tuple[str, str], tuple[str, ...]] = {
    # the numbers of a file have the factor in the attention factor alone, and tables of windows are folded into biases
    ("rotary", "longrope"): ("factor",),
    ("window", "table"): ("rows",),
}
"""Parameters that follow from others."""
NAMES: Mapping[str, str] = {"angles": "frequencies_dtype"}
"""Names of parameters that `inspect` calls otherwise."""
FAULTS: tuple[tuple[str, str, str], ...] = (
    ("it runs beyond 48 frames", "PE202", "right up to 198 along samples"),
    ("it runs beyond 48 tokens", "PE208", "rope_type default, expected dynamic"),
    ("it runs beyond ", "PE202", "right up to a length of {1}; at"),
    ("cos 1 and sin 0", "PE206", ""),
    ("attention factor 1 where", "PE208", "attention_factor 1, expected 1.138"),
    ("the frequencies are the default ones", "PE208", "rope_type default, expected"),
    ("yarn without truncate", "PE208", "truncate False, expected True"),
    ("layer 1 is rotated and layer 0 is not", "PE214", "layer 1 rotate, and should not"),
    ("pairs are halves", "PE208", "layout halves, expected interleaved"),
    ("the last 8 features", "PE208", "first_feature 8, expected 0"),
    ("a table of 11 rows", "PE201", "right up to a length of 11; longer"),
    ("angles in ", "PE205", "position {1}"),
    ("one table, of theta 10000", "PE207", "layer 1 had 1000000"),
    ("ids of shape (1, sequence)", "PE209", "position_ids have 1 row"),
    ("RotaryEmbedding of ONNX 23", "PE210", "position_ids are left out"),
)
"""How the truth's words for a fault begin, its code, and what the finding says; {1} is the last number of the truth."""
ALWAYS_RIGHT = ("PE203",)
"""Findings that say sizes of inputs as the file has them."""


@dataclass(frozen=True)
class Score:
    """What came of a file.

    Args:
        truth: the record of the file.
        encodings: how many the file holds.
        named: how many of them are named, with their parameters.
        end: whether its end is right to the unit; None for a file that is right at no length.
        fault: whether its fault is named; None for a right file.
        false: findings, and encodings, that the file does not have.
        misses: what is not as it should be, in words.
        seconds: how long it took.
    """

    truth: Truth
    encodings: int
    named: int
    end: bool | None
    fault: bool | None
    false: int
    misses: tuple[str, ...]
    seconds: float = 0.0


def score(truth: Truth, inspection: Inspection) -> Score:
    """Return how an inspection scores; its findings are those with a config, or the file before, where there is one."""
    found = merged(inspection)
    pairs = list(matched(truth, found, has_layers=inspection.attentions > 0))
    wrong = [words for _, _, words in pairs if words]
    used = [seen for _, seen, _ in pairs if seen is not None]
    end = None if truth.end.first is None else _end_is_right(truth.end, inspection.ends)
    fault = _is_found(truth.must_find, inspection) if truth.must_find else None
    false = [*_false_encodings(found, used), *_false_findings(truth, inspection)]
    misses = [f"encoding: {words}" for words in wrong]
    misses += [f"end: {_ends(inspection)}, expected {truth.end.last} {truth.end.beyond}"] if end is False else []
    misses += [f"fault: {truth.must_find!r} is not found"] if fault is False else []
    misses += [f"false: {words}" for words in false]
    if misses and inspection.stopped:
        misses.append(f"stopped: {inspection.stopped}")
    return Score(truth, len(pairs), len(pairs) - len(wrong), end, fault, len(false), tuple(misses))


def _ends(inspection: Inspection) -> str:
    return ", ".join(f"{end.last_right} {end.beyond}" for end in inspection.ends) or "none"


def merged(inspection: Inspection) -> list[FoundEncoding]:
    """Return encodings; tables of layers that differ in nothing but their numbers are one."""
    merged: dict[tuple[object, ...], FoundEncoding] = {}
    for encoding in inspection.encodings:
        if encoding.name == NO_POSITION:
            continue  # what turns nothing is no encoding
        key = (encoding.family, encoding.name, str(sorted(encoding.parameters.items())), encoding.rows)
        before = merged.get(key)
        layers = encoding.layers if before is None else (*before.layers, *encoding.layers)
        merged[key] = replace(encoding, layers=tuple(sorted(set(layers))))
    return list(merged.values())


def matched(
    truth: Truth, found: Sequence[FoundEncoding], has_layers: bool
) -> Iterator[tuple[Held, FoundEncoding | None, str]]:
    """Yield each encoding of the truth with the one that is it, or is most like it, and what differs."""
    left = list(found)
    wanted = list(truth.in_file)
    for held in truth.in_file:
        # one that is right is not lent to another of its family that is missing
        exact = next((entry for entry in left if _is(held, entry, has_layers)), None)
        if exact is not None:
            left.remove(exact)
            wanted.remove(held)
            yield held, exact, ""
    for held in wanted:
        family = [encoding for encoding in left if encoding.family == held.family]
        tried = [(list(_unlike(held, encoding, has_layers)), encoding) for encoding in family]
        if not tried:
            yield held, None, f"{held.family} {held.form} is not named: {[e.family for e in found]}"
            continue
        words, best = min(tried, key=lambda pair: len(pair[0]))
        left.remove(best)
        yield held, best, f"{held.family} {held.form}: {'; '.join(words)}" if words else ""


def _is(held: Held, encoding: FoundEncoding, has_layers: bool) -> bool:
    """Return whether an encoding is one that is held, with all parameters and layers."""
    return encoding.family == held.family and not list(_unlike(held, encoding, has_layers))


def _unlike(held: Held, encoding: FoundEncoding, has_layers: bool) -> Iterator[str]:
    """Yield what of an encoding is not as the truth has it."""
    if encoding.name != held.form:
        yield f"form {encoding.name}"
    got: dict[str, object] = {"first_feature": 0, "rows": encoding.rows, "truncate": True, **encoding.parameters}
    expected: dict[str, Parameter] = {"first_feature": 0, "truncate": True, **held.parameters}
    for name, value in expected.items():
        if name in IMPLIED.get((held.family, held.form), ()):
            continue
        mine = got.get(NAMES.get(name, name))
        if not same(mine, value):
            yield f"{name} {mine}, expected {value}"
    # attentions of an encoder and a decoder are counted together, and so are those that have no positions
    is_right = len(encoding.layers) == len(held.layers) if held.part else encoding.layers == held.layers
    if has_layers and not is_right:
        yield f"layers {encoding.layers}, expected {held.layers}"


def same(got: object, expected: object) -> bool:
    """Return whether a parameter is the true one: numbers to a millionth of them."""
    if isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(got) == len(expected) and all(map(same, got, expected))
    numbers = (int, float)
    if isinstance(got, numbers) and isinstance(expected, numbers):
        return math.isclose(got, expected, rel_tol=CLOSE)
    return bool(got == expected)


def _end_is_right(end: End, seen: Sequence[SeenEnd]) -> bool:
    """Return whether ends are those at which ONNX Runtime stops or goes wrong."""
    last = next((_counted(entry.last_right, end.unit) for entry in seen), None)
    if end.last is None:
        return last is None or last >= end.tried
    beyond = next((entry.beyond for entry in seen), "goes on")
    return last == end.last and (beyond == "refuses") == (end.beyond == "refuses")


def _counted(last: int | None, unit: str) -> int | None:
    """Return a length in a unit of the truth: two convolutions of kernel 3 and stride 2 make frames of samples."""
    return last if last is None or unit != "frames" else ((last - 1) // 2 - 1) // 2


def _is_found(fault: str, inspection: Inspection) -> bool:
    """Return whether a finding says what is wrong with a file."""
    code, words = next((code, words) for begin, code, words in FAULTS if fault.startswith(begin))
    numbers = [part for part in fault.replace(",", "").split() if part.isdigit()]
    said = words.replace("{1}", numbers[-1] if numbers else "").replace(",", "")
    # thousands have a comma
    return any(entry.code == code and said in entry.detail.replace(",", "") for entry in inspection.findings)


def _false_encodings(found: Sequence[FoundEncoding], used: Sequence[FoundEncoding]) -> Iterator[str]:
    """Yield encodings that a file does not hold."""
    for encoding in found:
        if all(encoding is not other for other in used):
            yield f"{encoding.family} {encoding.name} in {encoding.where}"


def _false_findings(truth: Truth, inspection: Inspection) -> Iterator[str]:
    """Yield findings that say what is not so."""
    for entry in inspection.findings:
        if entry.code not in ALWAYS_RIGHT and not _is_true(truth, inspection, entry.code):
            yield f"{entry.code} {entry.detail}"


def _is_true(truth: Truth, inspection: Inspection, code: str) -> bool:
    """Return whether a finding is so, as far as the truth about the file says it."""
    if code == "PE201":
        # a file that is right at no length may end all the same, and so may one beyond the lengths that were tried
        last = next((entry.last_right for entry in inspection.ends), None)
        is_untried = truth.end.last is None and (last or 0) >= truth.end.tried
        return truth.end.beyond == "refuses" or truth.end.first is None or is_untried
    if code == "PE202":
        return truth.end.beyond in ("wrong", "runs")
    if code == "PE205":
        return truth.dtype == "float16" or "angles" in truth.must_find
    # each fault has one code; one table for both layers is the fault of two files
    codes = {known for begin, known, _ in FAULTS if truth.must_find.startswith(begin)}
    return code in codes or (code == "PE207" and "one table" in truth.must_find)
