"""A file's encodings, held against what its model's config says, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

from posenc.hf.read import Reading
from posenc_export.reading.comparing.expected import Expected, expected_of
from posenc_export.reading.comparing.frequencies import rotary_differences, rotation_in, rotation_of
from posenc_export.reading.comparing.parameters import Difference, differences, layers_named, shown
from posenc_export.reading.findings import finding
from posenc_export.reading.inspection import Encoding, Finding, Inspection
from posenc_export.reading.recognise.named import Family

SAME_WORD = {"heads": "num_heads", "num_heads": "heads"}
"""Names of schemes for what another scheme calls otherwise."""
STORED: Family = "learned"
"""The family of rows that are stored and have no closed form."""
SHARED = ("rope_theta", "rope_type", "factor", "frequencies")
"""Parameters that an optimizer's table takes from another layer."""


def compare_config(inspection: Inspection, path: Path) -> tuple[Finding, ...]:
    """Return what differs between a file and a config.json, or that of a model's folder.

    Raises ValueError, in one line, where the config cannot be read, or where its encodings are not known.
    """
    expected = expected_of(path)
    return tuple(made for entry in _by_family(expected) for made in _compared(inspection, entry))


def _by_family(expected: Sequence[Expected]) -> list[list[Expected]]:
    families: dict[str, list[Expected]] = {}
    for entry in expected:
        families.setdefault(entry.family, []).append(entry)
    return list(families.values())


def _compared(inspection: Inspection, entries: Sequence[Expected]) -> Iterator[Finding]:
    """Yield what differs in the encodings of a family."""
    family = entries[0].family
    encodings = [encoding for encoding in inspection.encodings if encoding.family == family]
    learned = [encoding for encoding in inspection.encodings if encoding.family == STORED]
    if not encodings and learned and (rows := _of_grid(entries[0])):
        for encoding in learned:
            for difference in differences({**encoding.parameters, "rows": encoding.rows}, rows, encoding.dtype):
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
            yield from _nearest(encoding, readings)
    yield from _short(inspection, encodings, entries)


def _of_grid(entry: Expected) -> dict[str, object]:
    """Return the table of learned places of an image, as a file of a fixed size adds it; nothing of other schemes."""
    parameters = next(reading.parameters for reading in entry.readings if reading is not None)
    grid, prefix = parameters.get("grid"), parameters.get("prefix", 0)
    if not isinstance(grid, Sequence) or not isinstance(prefix, int):
        return {}
    return {"rows": prod(map(int, grid)) + prefix, "d_model": parameters.get("d_model")}


def _absent(inspection: Inspection, entry: Expected) -> Finding:
    reading = next(reading for reading in entry.readings if reading is not None)
    words = f"the config has {entry.family} positions ({reading.scheme}), and none were recognised in the file"
    # what was not recognised, or not read, may be them
    unsure = inspection.stopped or inspection.missing or any(e.family == "not recognised" for e in inspection.encodings)
    return finding("parameter", "", words, "warning" if unsure else "error")


def _nearest(encoding: Encoding, readings: Sequence[Reading]) -> Iterator[Finding]:
    """Yield what differs from the reading that is most like an encoding."""
    least = min((list(between(encoding, reading)) for reading in readings), key=len)
    for difference in least:
        yield finding("parameter", encoding.where, f"{encoding.family}: {difference} by the config")


def _by_layer(
    inspection: Inspection, encodings: Sequence[Encoding], readings: Sequence[Reading | None]
) -> Iterator[Finding]:
    """Yield what differs in layers, those that differ alike in one finding."""
    numbered = _layer_numbers(inspection, encodings, readings)
    if numbered is None:
        for encoding in encodings:
            yield from _nearest(encoding, [reading for reading in readings if reading is not None])
        return
    yield from _unlike_layers(numbered, readings)
    for encoding, layers in zip(encodings, numbered, strict=True):
        # layers that differ in the same words are one finding
        wrong: dict[str, tuple[Difference, list[int]]] = {}
        for layer in layers:
            reading = readings[layer]
            for difference in () if reading is None else between(encoding, reading):
                wrong.setdefault(str(difference), (difference, []))[1].append(layer)
        for difference, among in wrong.values():
            yield _of_layers(encoding, difference, among, layers)


def _layer_numbers(
    inspection: Inspection, encodings: Sequence[Encoding], readings: Sequence[Reading | None]
) -> list[tuple[int, ...]] | None:
    """Return for each encoding the config's numbers of its layers; None where they cannot be told."""
    if inspection.attentions == len(readings):
        return [encoding.layers for encoding in encodings]
    # other attentions, or none that are recognised: rotated layers are told apart by their order alone
    rotated = sorted({layer for encoding in encodings for layer in encoding.layers})
    rotating = [number for number, reading in enumerate(readings) if reading is not None]
    if len(rotated) != len(rotating):
        return None
    number = dict(zip(rotated, rotating, strict=True))
    return [tuple(number[layer] for layer in encoding.layers) for encoding in encodings]


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


def _of_layers(encoding: Encoding, difference: Difference, wrong: list[int], layers: tuple[int, ...]) -> Finding:
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


def between(encoding: Encoding, reading: Reading) -> Iterator[Difference]:
    """Yield what differs between an encoding of a file and the reading of a config."""
    if encoding.family == "rotary":
        yield from rotary_differences(
            rotation_in(encoding), rotation_of(reading.parameters, is_whole=True), encoding.dtype
        )
        return
    got, expected = dict(encoding.parameters), dict(reading.parameters)
    expected |= {SAME_WORD[name]: value for name, value in reading.parameters.items() if name in SAME_WORD}
    if encoding.rows is not None:
        got["rows"] = encoding.rows
    if "max_len" in reading.spec:
        expected["rows"] = reading.spec["max_len"]
    # a default that the config leaves out is not compared: what stands there is
    yield from differences(got, expected, encoding.dtype)


def _short(inspection: Inspection, encodings: Sequence[Encoding], entries: Sequence[Expected]) -> Iterator[Finding]:
    """Yield a finding for tables with fewer rows than the model has positions."""
    lengths = [r.max_position_embeddings for entry in entries for r in entry.readings if r is not None]
    max_length = max((length for length in lengths if length is not None), default=0)
    for encoding in encodings:
        if encoding.family == "rotary" and encoding.rows is not None and encoding.rows < max_length:
            words = f"the table has {encoding.rows} rows, and the model {max_length} positions by the config"
            yield finding("ends", encoding.where, words, "warning")
