"""The encodings of two files, one made of the other: what an optimizer or a quantizer has changed."""

from __future__ import annotations

from collections.abc import Iterator

from posenc_export.read.comparing.biases import same_attention
from posenc_export.read.comparing.frequencies import rotary_differences, rotation_in
from posenc_export.read.comparing.parameters import ParameterDifference, differences, layers_named, shown
from posenc_export.read.findings import finding
from posenc_export.read.inspection import Finding, FoundEncoding, Inspection

WIDTHS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 1}
"""Dtypes by how well they hold a number."""


def compare_files(now: Inspection, before: Inspection) -> tuple[Finding, ...]:
    """Return what differs in the encodings of a file from those of the one that it was made of."""
    return (*_of_layers(now, before), *_of_others(now, before))


def _of_layers(now: Inspection, before: Inspection) -> Iterator[Finding]:
    """Yield what differs in layers; by their order, where their numbers cannot be compared."""
    sides = [_by_layer(side) for side in (now, before)]
    if now.attentions != before.attentions and len(sides[0]) == len(sides[1]):
        # fused attentions are not all seen: the order of layers is the same before and after
        sides = [list(enumerate(encoding for _, encoding in side)) for side in sides]
    ours, theirs = (dict(side) for side in sides)
    lost, new = sorted(theirs.keys() - ours.keys()), sorted(ours.keys() - theirs.keys())
    if lost:
        words = f"{layers_named(lost)} had {theirs[lost[0]].family} positions before, and none now"
        yield finding("differs", theirs[lost[0]].where, words)
    if new:
        words = f"{layers_named(new)} had no positions before, and {ours[new[0]].family} ones now"
        yield finding("differs", ours[new[0]].where, words)
    changed: dict[tuple[int, str], tuple[FoundEncoding, ParameterDifference, list[int]]] = {}
    for layer in sorted(ours.keys() & theirs.keys()):
        for difference in between(ours[layer], theirs[layer]):
            if difference.name == "form" and same_attention(now, ours[layer], difference):
                continue
            key = id(ours[layer]), str(difference)
            changed.setdefault(key, (ours[layer], difference, []))[2].append(layer)
    for encoding, difference, layers in changed.values():
        yield _changed(encoding, difference, layers)


def _changed(encoding: FoundEncoding, difference: ParameterDifference, layers: list[int]) -> Finding:
    """Return the finding of layers that have changed alike."""
    was = f"{layers_named(layers)} had {shown(difference.expected)} before"
    if set(layers) != set(encoding.layers) and difference.name in ("rope_theta", "rope_type", "factor", "frequencies"):
        shared = f"one table, {difference.name} {shown(difference.got)}, is used by {layers_named(encoding.layers)}"
        return finding("shared-table", encoding.where, f"{shared}; {was}")
    return finding("differs", encoding.where, f"{difference.name} is {shown(difference.got)} now; {was}")


def _of_others(now: Inspection, before: Inspection) -> Iterator[Finding]:
    """Yield what differs in the encodings in front of all layers, family by family, in their order."""
    families = dict.fromkeys(e.family for side in (now, before) for e in side.encodings if not _is_layered(e))
    for family in families:
        if family == "not recognised":
            continue
        ours, theirs = ([e for e in side.encodings if e.family == family] for side in (now, before))
        if len(ours) != len(theirs):
            yield finding("differs", "", f"{len(theirs)} {family} encodings before, {len(ours)} now")
            continue
        for encoding, old in zip(ours, theirs, strict=True):
            for difference in between(encoding, old):
                words = f"{difference.name} is {shown(difference.got)} now, was {shown(difference.expected)} before"
                yield finding("differs", encoding.where, f"{family}: {words}")


def between(encoding: FoundEncoding, old: FoundEncoding) -> Iterator[ParameterDifference]:
    """Yield what differs between an encoding and what it was."""
    if encoding.family != old.family:
        yield ParameterDifference("family", encoding.family, old.family)
        return
    # the coarser of the two dtypes says what can be told apart
    dtype = min(encoding.dtype, old.dtype, key=lambda name: WIDTHS.get(name, 4))
    if encoding.traits.is_turned:
        yield from rotary_differences(rotation_in(encoding), rotation_in(old), dtype)
    else:
        if encoding.name != old.name:
            yield ParameterDifference("form", encoding.name, old.name)
        yield from differences(encoding.parameters, old.parameters, dtype)
    # an optimizer may fold positions of a range into a table: only two tables are compared
    if "rows" not in encoding.parameters and None not in (encoding.rows, old.rows) and encoding.rows != old.rows:
        yield ParameterDifference("rows", encoding.rows, old.rows)


def _is_layered(encoding: FoundEncoding) -> bool:
    return encoding.traits.is_compared and bool(encoding.layers)


def _by_layer(inspection: Inspection) -> list[tuple[int, FoundEncoding]]:
    """Return each layer with its encoding, in order; the first where a layer has several."""
    layers: dict[int, FoundEncoding] = {}
    for encoding in inspection.encodings:
        for layer in encoding.layers if _is_layered(encoding) else ():
            layers.setdefault(layer, encoding)
    return sorted(layers.items(), key=lambda item: item[0])
