"""A file's encodings, held against what its model's config says, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from posenc.formulas.alibi import slopes_of
from posenc.formulas.families import FAMILIES
from posenc_export.common.errors import decoded
from posenc_export.read.comparing.attending import compare_attending
from posenc_export.read.comparing.biases import comparable, readings_of_sides, same_attention
from posenc_export.read.comparing.expected import Expected, expected_of
from posenc_export.read.comparing.frequencies import lists_of, rotary_differences, rotation_in, rotation_of
from posenc_export.read.comparing.parameters import (
    TELLS,
    USUAL,
    ParameterDifference,
    alike,
    differences,
    layers_named,
    shown,
)
from posenc_export.read.findings import finding
from posenc_export.read.inspection import ComparedFile, Finding, FoundEncoding, Inspection, Severity
from posenc_models.config.read import Reading

SAME_WORD = {"heads": "num_heads", "num_heads": "heads"}
"""Names of schemes for what another scheme calls otherwise."""
MOST_POSITIONS = 4
"""Positions that a token has at most."""
COUNTED = ("positions", "mask")
"""How a model says that it counts the tokens that a mask leaves in."""
SLOPES = 1e-3
"""A relative difference of two slopes that may be how they were read."""
SHARED = ("rope_theta", "rope_type", "factor", "frequencies")
"""Parameters that an optimizer's table takes from another layer."""


def compare_config(inspection: Inspection, path: Path) -> tuple[tuple[Finding, ...], ComparedFile]:
    """Return what differs between a file and a config.json, or that of a model's folder; and what was compared.

    Raises ValueError, in one line, where the config cannot be read, or where its encodings are not known.
    """
    expected = expected_of(path)
    findings = tuple(made for entry in _by_family(expected) for made in _compared(inspection, entry))
    findings = (*findings, *_no_part(inspection, expected), *compare_attending(inspection, path))
    agrees = all(entry.name == "not-compared" for entry in findings)
    count, layers = _encodings(inspection, expected), _layers(inspection, expected)
    return findings, ComparedFile(decoded(str(path)), count, agrees, *layers, _lists(inspection, expected))


def _encodings(inspection: Inspection, expected: Sequence[Expected]) -> int:
    """Return how many encodings of a file are of the families that a config has."""
    families = {entry.family for entry in expected}
    of_grids = any(map(_of_grid, expected))
    return sum(e.family in families or (of_grids and e.traits.is_learned) for e in inspection.named)


def _layers(inspection: Inspection, expected: Sequence[Expected]) -> tuple[int | None, int | None]:
    """Return how many layers of a file rotate, and how many do by a config; None where it is not of such layers."""
    entry = next((entry for entry in expected if entry.by_layer), None)
    if entry is None:
        return None, None
    rotated = _layers_of(encoding for encoding in inspection.encodings if encoding.family == entry.family)
    return len(rotated), sum(reading is not None for reading in entry.readings)


def _lists(inspection: Inspection, expected: Sequence[Expected]) -> tuple[str, ...]:
    """Return the names of longrope's lists by which rotations of a file turn, and those of a config."""
    readings = [reading for entry in expected for reading in entry.readings if reading is not None]
    rotations = {id(reading): rotation_of(reading.parameters, is_whole=True) for reading in readings}
    turned = [encoding for encoding in inspection.encodings if encoding.traits.is_turned]
    found = (lists_of(rotation_in(one), other, one.dtype) for one in turned for other in rotations.values())
    return tuple(dict.fromkeys(name for names in found for name in names))


def _layers_of(encodings: Iterable[FoundEncoding]) -> set[int]:
    """Return the layers that have one of some encodings."""
    return {layer for encoding in encodings for layer in encoding.layers}


def _no_part(inspection: Inspection, expected: Sequence[Expected]) -> Iterator[Finding]:
    """Yield a finding where parts of a model are in a file without their encodings.

    A part may lie in another file. One that has all attentions of the model has all of its parts, and a file of layers
    has one of them at least.
    """
    if not inspection.attentions or not expected or not all(entry.part for entry in expected):
        return
    families = [encoding.family for encoding in inspection.encodings]
    learned = [encoding for encoding in inspection.encodings if encoding.traits.is_learned]
    wanted = [entry.family for entry in expected]
    if inspection.attentions == expected[0].attentions:
        for entry in expected:
            # rows of a grid are stored without it where images have one size
            there = families.count(entry.family) + (len(learned) if _of_grid(entry) else 0)
            if there < min(wanted.count(entry.family), 1 + FAMILIES[entry.family].is_in_each):
                yield _absent(inspection, entry)
                return
    elif not set(wanted).intersection(families) and not (learned and any(map(_of_grid, expected))):
        yield _absent(inspection, expected[0])


def _by_family(expected: Sequence[Expected]) -> list[list[Expected]]:
    families: dict[str, list[Expected]] = {}
    for entry in expected:
        families.setdefault(entry.family, []).append(entry)
    return list(families.values())


def _compared(inspection: Inspection, entries: Sequence[Expected]) -> Iterator[Finding]:
    """Yield what differs in the encodings of a family."""
    family = entries[0].family
    traits = FAMILIES[family]
    encodings = [encoding for encoding in inspection.encodings if encoding.family == family]
    learned = [encoding for encoding in inspection.encodings if encoding.traits.is_learned]
    if not encodings and learned and (rows := _of_grid(entries[0])):
        for encoding in learned:
            stored = {**encoding.parameters, "rows": _with_cut_rows(encoding, entries[0], rows["rows"])}
            for difference in differences(stored, rows, encoding.dtype):
                yield finding("parameter", encoding.where, f"learned: {difference} by the config")
        return
    if not encodings:
        # a part of a model may lie in another file, as a decoder's beside its encoder
        if not any(entry.part for entry in entries):
            yield _absent(inspection, entries[0])
        return
    if entries[0].by_layer:
        yield from _by_layer(inspection, encodings, entries[0].readings)
    else:
        readings = [reading for entry in entries for reading in entry.readings if reading is not None]
        for encoding in encodings:
            yield from _nearest(inspection, encoding, readings)
    if traits.is_turned:
        first = next((r for entry in entries for r in entry.readings if r is not None), None)
        yield from () if first is None else _one_position(inspection, encodings, first)
    if traits.is_everywhere:
        yield from _left_out(inspection, encodings)
    yield from _unmasked(inspection, encodings, entries)
    yield from _short(inspection, encodings, entries)


def _with_cut_rows(encoding: FoundEncoding, entry: Expected, rows: object) -> int | None:
    """Return how many rows a table has, with those that the model leaves out where just these are not there."""
    cut = next(reading.cut for reading in entry.readings if reading is not None)
    return encoding.rows + cut if encoding.rows is not None and encoding.rows + cut == rows else encoding.rows


def _of_grid(entry: Expected) -> dict[str, object]:
    """Return the table of learned places of an image, as a file of a fixed size adds it; nothing of other schemes."""
    parameters = next(reading.parameters for reading in entry.readings if reading is not None)
    grid, prefix = parameters.get("grid"), parameters.get("prefix", 0)
    if not isinstance(grid, Sequence) or not isinstance(prefix, int):
        return {}
    return {"rows": prod(map(int, grid)) + prefix, "d_model": parameters.get("d_model")}


def _absent(inspection: Inspection, entry: Expected) -> Finding:
    reading = next(reading for reading in entry.readings if reading is not None)
    part = f" in its {entry.part}" if entry.part else ""
    words = f"the config has {entry.family} positions ({reading.scheme}){part}, and none were recognised in the file"
    # what was not recognised, or not read, may be them: the file is not held against its config, which is no pass
    unknown = [encoding.where for encoding in inspection.encodings if encoding.family == "not recognised"]
    if inspection.stopped:
        words += f": not judged, since reading stopped at {inspection.stopped}"
    elif inspection.missing:
        words += f": not judged without {', '.join(inspection.missing[:3])}"
    elif unknown:
        words += f": not judged, since {unknown[0]} meets data and is none of the known forms"
    # it may lie behind the place where a limit ran out
    return finding("parameter", "", words, "warning" if inspection.is_late else None)


def _nearest(inspection: Inspection, encoding: FoundEncoding, readings: Sequence[Reading]) -> Iterator[Finding]:
    """Yield what differs from the reading that is most like an encoding."""
    fitting = readings_of_sides(inspection, encoding, readings)
    least = min((list(between(encoding, reading)) for reading in fitting), key=len)
    for difference in least:
        if difference.name == "form" and same_attention(inspection, encoding, difference):
            continue
        words = f"{encoding.family}: {difference} by the config"
        if difference.name == "form" and not comparable(inspection, encoding):
            words = f"{words}, which are one where later keys are hidden; whether they are is not known"
            yield finding("not-compared", encoding.where, words)
            continue
        yield finding("parameter", encoding.where, words)


def _by_layer(
    inspection: Inspection, encodings: Sequence[FoundEncoding], readings: Sequence[Reading | None]
) -> Iterator[Finding]:
    """Yield what differs in layers, those that differ alike in one finding."""
    numbered = _layer_numbers(inspection, encodings, readings)
    if numbered is None:
        yield from _too_few(inspection, encodings, readings)
        for encoding in encodings:
            yield from _nearest(inspection, encoding, [reading for reading in readings if reading is not None])
        return
    yield from _unlike_layers(numbered, readings)
    for encoding, layers in zip(encodings, numbered, strict=True):
        # layers that differ in the same words are one finding
        wrong: dict[str, tuple[ParameterDifference, list[int]]] = {}
        for layer in layers:
            reading = readings[layer]
            for difference in () if reading is None else between(encoding, reading):
                wrong.setdefault(str(difference), (difference, []))[1].append(layer)
        for difference, among in wrong.values():
            yield _of_layers(encoding, difference, among, layers)


def _layer_numbers(
    inspection: Inspection, encodings: Sequence[FoundEncoding], readings: Sequence[Reading | None]
) -> list[tuple[int, ...]] | None:
    """Return for each encoding the config's numbers of its layers; None where they cannot be told."""
    if inspection.attentions == len(readings):
        return [encoding.layers for encoding in encodings]
    # other attentions, or none that are recognised: rotated layers are told apart by their order alone
    rotated = sorted(_layers_of(encodings))
    rotating = [number for number, reading in enumerate(readings) if reading is not None]
    if len(rotated) != len(rotating):
        return None
    number = dict(zip(rotated, rotating, strict=True))
    return [tuple(number[layer] for layer in encoding.layers) for encoding in encodings]


def _too_few(
    inspection: Inspection, encodings: Sequence[FoundEncoding], readings: Sequence[Reading | None]
) -> Iterator[Finding]:
    """Yield a finding where fewer layers rotate than the config says, whichever they are."""
    rotated = _layers_of(encodings)
    rotating = sum(reading is not None for reading in readings)
    # of an attention that an optimizer has fused, the layers behind may not be told apart
    if inspection.attentions >= len(readings) and rotated and len(rotated) < rotating:
        words = f"{len(rotated)} of {inspection.attentions} attentions rotate; by the config {rotating} layers do"
        yield finding("layers", "", words)


def _unlike_layers(numbered: Sequence[tuple[int, ...]], readings: Sequence[Reading | None]) -> Iterator[Finding]:
    """Yield a finding where other layers rotate than the config says."""
    rotated = {layer for layers in numbered for layer in layers}
    rotating = {number for number, reading in enumerate(readings) if reading is not None}
    words = []
    if rotated - rotating:
        words.append(f"{layers_named([*rotated - rotating])} rotate, and should not by the config")
    if rotating - rotated:
        words.append(f"{layers_named([*rotating - rotated])} do not rotate, and should by the config")
    if words:
        yield finding("layers", "", "; ".join(words))


def _of_layers(
    encoding: FoundEncoding, difference: ParameterDifference, wrong: list[int], layers: tuple[int, ...]
) -> Finding:
    """Return the finding of layers that differ alike: they share a table with others, or the table is wrong."""
    where = encoding.where
    # a table that is right for some of its layers was meant for those
    if set(wrong) == set(layers) or difference.name not in SHARED:
        return finding("parameter", where, f"{layers_named(wrong)}: {difference} by the config")
    words = (
        f"one table, {difference.name} {shown(difference.got)}, is used by {layers_named(layers)}; "
        f"by the config {layers_named(wrong)} {'has' if len(wrong) == 1 else 'have'} {shown(difference.expected)}"
    )
    return finding("shared-table", where, words)


def between(encoding: FoundEncoding, reading: Reading) -> Iterator[ParameterDifference]:
    """Yield what differs between an encoding of a file and the reading of a config."""
    if encoding.traits.is_turned:
        yield from rotary_differences(
            rotation_in(encoding), rotation_of(reading.parameters, is_whole=True), encoding.dtype
        )
        yield from _of_sections(encoding, reading)
        return
    if not encoding.parameters.keys().isdisjoint(("slopes", "bias_max")):
        yield from _of_slopes(encoding, reading)
    got, expected = dict(encoding.parameters), dict(reading.parameters)
    expected |= {SAME_WORD[name]: value for name, value in reading.parameters.items() if name in SAME_WORD}
    if encoding.rows is not None:
        got["rows"] = encoding.rows
    if "max_len" in reading.spec:
        expected["rows"] = reading.spec["max_len"]
    if encoding.traits.is_absolute and "scale" in got:
        expected.setdefault("scale", 1.0)
    if encoding.traits.is_learned and "offset" in got:
        expected["offset"] = reading.spec.get("position_offset", 0)
    # a default that the config leaves out is not compared: what stands there is
    yield from differences(got, expected, encoding.dtype)


def _of_sections(encoding: FoundEncoding, reading: Reading) -> Iterator[ParameterDifference]:
    """Yield what differs in which pairs turn by which position of a token."""
    got, expected = encoding.parameters, reading.parameters
    # without sections in the file, a token has one position: that is said once, of the whole file
    if "sections" not in got:
        return
    if "sections" not in expected:
        yield ParameterDifference("sections", got["sections"], "one position a token")
        return
    usual = {"section_layout": "sectioned", "section_axes": tuple(range(len(_numbers(expected["sections"]))))}
    for name in ("sections", "section_layout", "section_axes"):
        ours, theirs = got.get(name, usual.get(name)), expected.get(name, usual.get(name))
        if not alike(ours, theirs, USUAL):
            yield ParameterDifference(name, ours, theirs)


def _one_position(inspection: Inspection, encodings: Sequence[FoundEncoding], reading: Reading) -> Iterator[Finding]:
    """Yield a finding for a file whose tokens have one position, of a model whose tokens have several."""
    sections = reading.parameters.get("sections")
    if sections is None:
        return
    for encoding in encodings:
        if "sections" in encoding.parameters:
            continue
        shapes = [entry.shape for entry in inspection.inputs if entry.name == encoding.positions]
        several = any(isinstance(size, int) and 1 < size <= MOST_POSITIONS for shape in shapes for size in shape[:-1])
        words = f"every pair turns by one position a token; by the config sections of {shown(sections)} turn by several"
        severity: Severity = "error" if several else "note"
        yield finding("parameter", encoding.where, f"rotary: {words}: images cannot be placed", severity)


def _of_slopes(encoding: FoundEncoding, reading: Reading) -> Iterator[ParameterDifference]:
    """Yield where the slopes of heads are others than the config says, by whatever rule the file has them."""
    got, expected = (_slopes(parameters) for parameters in (encoding.parameters, reading.parameters))
    if got is None or expected is None or len(got) != len(expected):
        return
    within = TELLS.get(encoding.dtype, TELLS["bfloat16"] if encoding.parameters.get("bfloat16_slopes") else USUAL)
    if not alike(got, expected, max(within, SLOPES)):
        yield ParameterDifference("slopes", got, expected)


def _slopes(parameters: Mapping[str, object]) -> tuple[float, ...] | None:
    """Return the slope of each head that parameters stand for; None where they say too little."""
    slopes = parameters.get("slopes")
    if isinstance(slopes, Sequence) and not isinstance(slopes, str):
        return tuple(float(slope) for slope in slopes)
    heads, bias_max = parameters.get("heads", parameters.get("num_heads")), parameters.get("bias_max", 8.0)
    scale = parameters.get("scale", 1.0)
    if not isinstance(heads, int) or not isinstance(bias_max, (int, float)) or not isinstance(scale, (int, float)):
        return None
    return tuple((scale * slopes_of(heads, float(bias_max))).tolist())


def _numbers(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _left_out(inspection: Inspection, encodings: Sequence[FoundEncoding]) -> Iterator[Finding]:
    """Yield a finding for attentions without a bias that all attentions of the model have."""
    without = sorted(set(range(inspection.attentions)) - _layers_of(encodings))
    if without and any(entry.layers for entry in encodings):
        words = f"{layers_named(without)} have no {encodings[0].family} positions, and should by the config"
        yield finding("layers", "", words)


def _unmasked(
    inspection: Inspection, encodings: Sequence[FoundEncoding], entries: Sequence[Expected]
) -> Iterator[Finding]:
    """Yield a finding where a file counts all tokens, and its model only those that a mask leaves in."""
    specs = [reading.spec for entry in entries for reading in entry.readings if reading is not None]
    if not specs or not all(COUNTED in spec.items() for spec in specs):
        return
    masks = [entry.name for entry in inspection.taken if entry.role in ("mask", "tokens")]
    for encoding in encodings:
        # tokens left out before a text move all of its distances by one number, which softmax takes away
        if encoding.positions == "range" and masks and not encoding.traits.grows:
            words = "the graph counts all tokens; by the config positions count the tokens that the mask leaves in"
            yield finding("parameter", encoding.where, f"{encoding.family}: {words}")


def _short(
    inspection: Inspection, encodings: Sequence[FoundEncoding], entries: Sequence[Expected]
) -> Iterator[Finding]:
    """Yield a finding for tables with fewer rows than the model has positions."""
    lengths = [r.max_position_embeddings for entry in entries for r in entry.readings if r is not None]
    lengths += [entry.max_length for entry in entries]
    max_length = max((length for length in lengths if length is not None), default=0)
    for encoding in encodings:
        if encoding.traits.is_turned and encoding.rows is not None and encoding.rows < max_length:
            words = f"the table has {encoding.rows} rows, and the model {max_length} positions by the config"
            yield finding("ends", encoding.where, words, "error")
