"""The encoding that a manifest describes, made again: by this version, of what the bundle says alone.

A manifest comes from a stranger. What is made of it is bounded by the size of its files, no path that it names is read,
and where nothing can be made of it, that is said.
"""

from __future__ import annotations

import os
from dataclasses import replace

from posenc.encoding import Encoding
from posenc.memory import at_most
from posenc.ports import Mask, Port, Positions
from posenc.scheme import SCHEMES, build
from posenc.spec import TORCH_NAMES, Spec
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.rules import rules_of
from posenc_export.carries import kind_of
from posenc_export.errors import check_machine, first_line
from posenc_export.machine import versions

OF_FILES = ("weights",)
"""Parameters that name files."""
ROOM, MOST = 2**26, 2**24
"""Bytes of an array, and the largest number of a parameter, that any manifest may ask for; one of large files, more."""
LARGER = 4
"""So many times the bytes of its files: float64 where float16 was written."""


class NotHeld(Exception):
    """An encoding cannot be made again; the text says why, in a few words."""


def rebuilt(manifest: Manifest, own: bool) -> Encoding:
    """Return the encoding of a manifest, its numbers at random drawn with its seed; raise NotHeld where there is none.

    own: whether this program has just made it, so that files which it names are the user's own.
    """
    if not rules_of(manifest.family).registered:
        raise NotHeld("a module of your own is not known here")
    if manifest.scheme not in SCHEMES.names():
        raise NotHeld(f"this version does not know the scheme {manifest.scheme}")
    if not own:
        _check(manifest)
    room = 2**63 if own else max(ROOM, LARGER * _bytes(manifest))
    encoding = _built(manifest, spec_of(manifest), room)
    rows_before = _offset(encoding.inputs) - _offset(manifest.inputs)
    if rows_before:  # a table with rows before that of position 0 counts them as well
        encoding = _built(manifest, spec_of(manifest, rows_before), room)
    if (encoding.inputs, encoding.outputs) != (manifest.inputs, manifest.outputs):
        raise NotHeld(f"this version makes {manifest.scheme} with other inputs or outputs")
    return encoding


def explicit_sibling(manifest: Manifest, encoding: Encoding) -> Encoding | None:
    """Return the same encoding where positions are an input, if there is one that takes what else it takes."""
    try:
        spec = replace(spec_of(manifest), positions="explicit", position_offset=0)
        sibling = _built(manifest, spec, max(ROOM, LARGER * _bytes(manifest)))
    except NotHeld:
        return None
    others = [[p.name for p in one.inputs if not kind_of(p.carries).gives_positions] for one in (sibling, encoding)]
    explicit = [port for port in sibling.inputs if isinstance(port.carries, Positions)]
    alike = others[0] == others[1] and len(explicit) == 1 and len(explicit[0].axes) == 2
    return sibling if alike and len(sibling.outputs) == len(encoding.outputs) else None


def spec_of(manifest: Manifest, rows_before: int = 0) -> Spec:
    """Return the spec that a bundle was made by; raise NotHeld where there is none like it.

    rows_before: how many rows of its table are before that of position 0, which its port for a mask counts as well.
    """
    dtypes = {name: dtype for dtype, name in TORCH_NAMES.items()}
    try:
        return Spec(
            mode=manifest.mode,  # type: ignore[arg-type]
            method=manifest.method or "exact",  # type: ignore[arg-type]
            positions=manifest.positions,  # type: ignore[arg-type]
            max_len=manifest.max_len,
            dtype=dtypes[manifest.dtype],
            position_offset=_offset(manifest.inputs) - rows_before,
        )
    except (KeyError, ValueError) as error:
        raise NotHeld(f"this version has no such form: {first_line(error)}") from error


def _offset(inputs: tuple[Port, ...]) -> int:
    """Return where positions from a mask begin: those of a grid are counted from 1, which nobody asked for."""
    for port in inputs:
        grid = any(axis.kind == "grid" for axis in port.axes)
        if isinstance(port.carries, Mask) and port.carries.offset is not None and not grid:
            return port.carries.offset
    return 0


def _check(manifest: Manifest) -> None:
    """Raise NotHeld for what names a file of another machine, and for numbers that no such file has a use for."""
    named = [name for name in OF_FILES if manifest.params.get(name) is not None]
    if named:
        raise NotHeld(f"{named[0]} are a file of whoever made the bundle")
    most = max(MOST, _bytes(manifest))
    for name, value in manifest.params.items():
        if isinstance(value, int) and abs(value) > most:
            raise NotHeld(f"{name} is {value}, beyond what files of {_bytes(manifest):,} bytes hold")


def _bytes(manifest: Manifest) -> int:
    return sum(artifact.bytes for artifact in manifest.artifacts)


def _built(manifest: Manifest, spec: Spec, room: int) -> Encoding:
    import torch

    try:
        with at_most(room), torch.random.fork_rng(devices=[]):
            torch.manual_seed(manifest.seed or 0)
            return build(manifest.scheme, spec, **_parameters(manifest))
    except Exception as error:
        check_machine(error)
        raise NotHeld(f"this version cannot make it: {first_line(error)}") from error


def _parameters(manifest: Manifest) -> dict[str, object]:
    """Return the parameters, names of files as this locale has them: a manifest is UTF-8."""
    named = {name: manifest.params[name] for name in OF_FILES if isinstance(manifest.params.get(name), str)}
    return {**manifest.params, **{name: os.fsdecode(text.encode()) for name, text in named.items()}}


def written_elsewhere(manifest: Manifest) -> str:
    """Return by what other versions, of what makes tables, a bundle was written; nothing where by these."""
    here = versions()
    other = (name for name in ("torch", "numpy") if manifest.versions.get(name) != here.get(name))
    return ", ".join(f"{name} {manifest.versions.get(name, 'of no known version')}" for name in other)
