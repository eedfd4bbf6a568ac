"""The encoding that a manifest describes, made again by this version from the manifest alone.

A manifest is not trusted: the encoding's size is bounded by that of the bundle's files, no file that the manifest names
is read, and NotHeld says why where no encoding can be made.
"""

from __future__ import annotations

import os
from dataclasses import replace

from posenc.encoding import Encoding
from posenc.memory import at_most
from posenc.ports import Mask, Port, Positions
from posenc.scheme import SCHEMES, build
from posenc.spec import BLOCK_ROWS, TORCH_NAMES, DType, Spec
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import check_machine, first_line
from posenc_export.common.machine import versions

OF_FILES = ("weights",)
"""Parameters that name files."""
ROOM, MAX_PARAMETER = 2**26, 2**24
"""Bytes of an array, and the largest integer parameter, that any manifest may ask for; with large files, more."""
LARGER = 4
"""Arrays may have so many times the bytes of the files: they are made in float64, and may be stored in float16."""


class NotHeld(Exception):
    """An encoding cannot be made again; the text says why, in a few words."""


def rebuilt(manifest: Manifest, own: bool) -> Encoding:
    """Return the encoding of a manifest, with random numbers of its seed; raise NotHeld where it cannot be made.

    Args:
        manifest: The manifest of a bundle.
        own: Whether this program has just written it: files that it names are then the user's own.
    """
    if not rules_of(manifest.family).registered:
        raise NotHeld("a module of your own is not known here")
    if manifest.scheme not in SCHEMES.names():
        raise NotHeld(f"this version does not know the scheme {manifest.scheme}")
    if not own:
        _check(manifest)
    # an untrusted manifest could ask for a table of any size
    room = 2**63 if own else max(ROOM, LARGER * _bytes(manifest))
    encoding = _built(manifest, spec_of(manifest), room)
    rows_before = _offset(encoding.inputs) - _offset(manifest.inputs)
    if rows_before:  # the port's offset counts the rows that a table has before position 0, too
        encoding = _built(manifest, spec_of(manifest, rows_before), room)
    if (encoding.inputs, encoding.outputs) != (manifest.inputs, manifest.outputs):
        raise NotHeld(f"this version makes {manifest.scheme} with other inputs or outputs")
    return encoding


def explicit_sibling(manifest: Manifest, encoding: Encoding) -> Encoding | None:
    """Return the same encoding with positions as an input, if there is one whose other inputs are the same."""
    try:
        spec = replace(spec_of(manifest), positions="explicit", position_offset=0)
        sibling = _built(manifest, spec, max(ROOM, LARGER * _bytes(manifest)))
    except NotHeld:
        return None
    names, own_names = (
        [port.name for port in made.inputs if not kind_of(port.carries).gives_positions] for made in (sibling, encoding)
    )
    explicit = [port for port in sibling.inputs if isinstance(port.carries, Positions)]
    alike = names == own_names and len(explicit) == 1 and len(explicit[0].axes) == 2
    return sibling if alike and len(sibling.outputs) == len(encoding.outputs) else None


def explicit_form(manifest: Manifest, own: bool) -> Encoding:
    """Return the encoding of a manifest with positions as an input; raise NotHeld as `rebuilt` does."""
    rebuilt(manifest, own)
    spec = replace(spec_of(manifest), positions="explicit", position_offset=0)
    return _built(manifest, spec, 2**63 if own else max(ROOM, LARGER * _bytes(manifest)))


def spec_of(manifest: Manifest, rows_before: int = 0) -> Spec:
    """Return the spec that a bundle was made by; raise NotHeld where this version has no such spec.

    Args:
        manifest: The manifest of a bundle.
        rows_before: Rows of its table before that of position 0, which the offset of its mask counts, too.
    """
    dtypes: dict[str, DType] = {name: dtype for dtype, name in TORCH_NAMES.items()}
    try:
        return Spec(
            mode=manifest.mode,
            method=manifest.method or "exact",
            positions=manifest.positions,
            max_len=manifest.max_len,
            dtype=dtypes[manifest.dtype],
            position_offset=_offset(manifest.inputs) - rows_before,
            index_dtype=manifest.index_dtype,  # type: ignore[arg-type]
            # bundles of 0.2 and before do not say it: their graphs have the bits of as many rows as a block has
            table_rows=int(manifest.table_rows or BLOCK_ROWS),
        )
    except (KeyError, ValueError) as error:
        raise NotHeld(f"this version has no such form: {first_line(error)}") from error


def _offset(inputs: tuple[Port, ...]) -> int:
    """Return where positions from a mask begin by the spec: those of a grid begin at 1 without any offset."""
    for port in inputs:
        grid = any(axis.kind == "grid" for axis in port.axes)
        if isinstance(port.carries, Mask) and port.carries.offset is not None and not grid:
            return port.carries.offset
    return 0


def _check(manifest: Manifest) -> None:
    """Raise NotHeld where a manifest names a file of another machine, or numbers too large for its files."""
    named = [name for name in OF_FILES if manifest.params.get(name) is not None]
    if named:
        raise NotHeld(f"{named[0]} are a file of whoever made the bundle")
    largest = max(MAX_PARAMETER, _bytes(manifest))
    for name, value in manifest.params.items():
        if isinstance(value, int) and abs(value) > largest:
            raise NotHeld(f"{name} is {value}, beyond what files of {_bytes(manifest):,} bytes hold")


def _bytes(manifest: Manifest) -> int:
    return sum(artifact.bytes for artifact in manifest.artifacts)


def _built(manifest: Manifest, spec: Spec, room: int) -> Encoding:
    import torch

    try:
        # the global generator keeps its state: a user's program may draw from it
        with at_most(room), torch.random.fork_rng(devices=[]):
            torch.manual_seed(manifest.seed or 0)
            return build(manifest.scheme, spec, **_parameters(manifest))
    except Exception as error:
        check_machine(error)
        raise NotHeld(f"this version cannot make it: {first_line(error)}") from error


def _parameters(manifest: Manifest) -> dict[str, object]:
    """Return the parameters, with names of files in this locale's encoding: a manifest is UTF-8."""
    named = {name: manifest.params[name] for name in OF_FILES if isinstance(manifest.params.get(name), str)}
    return {**manifest.params, **{name: os.fsdecode(text.encode()) for name, text in named.items()}}


def written_elsewhere(manifest: Manifest) -> str:
    """Return which other versions of torch and numpy, which compute tables, a bundle was written by, or nothing."""
    installed = versions()
    unlike = (name for name in ("torch", "numpy") if manifest.versions.get(name) != installed.get(name))
    return ", ".join(f"{name} {manifest.versions.get(name, 'of no known version')}" for name in unlike)
