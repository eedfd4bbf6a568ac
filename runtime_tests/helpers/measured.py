"""Whole models: exported by the project, and compared with eager apart from it, at sizes that nothing was traced at."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

import posenc_export
from posenc.ports import Array, Axis, Indices, Mask, Port, axes_of
from posenc_export.common.arrays import call_on_arrays
from posenc_export.common.errors import PosencError
from posenc_export.write.inputs.ports import parse_ports
from whole import Whole

FILES = ("text", "decoders", "vision", "speech")
CLOSE = 2e-5
"""Share of the scale by which ONNX Runtime may differ from eager: sums in another order, other sines."""
WISHES = (53, 5, 29, 1, 67, 19)
"""Lengths, of which none is one that is traced."""
TURNS = 6


@dataclass(frozen=True)
class Measured:
    """What came of a model: how many calls agreed, the largest error as a share of the scale, the verdict and why.

    verdict: certified, refused or wrong; wrong is a model that was certified although its file gives other numbers.
    """

    name: str
    inputs: str
    calls: int
    error: float | None
    verdict: str
    why: str = ""
    notes: tuple[str, ...] = ()


def rows() -> list[Whole]:
    """Return every model."""
    return [row for file in FILES for row in importlib.import_module(f"whole.{file}").ROWS]


def made(row: Whole) -> nn.Module:
    """Return the model as `export` makes it."""
    module, _, name = row.factory.partition(":")
    torch.manual_seed(0)
    model: nn.Module = getattr(importlib.import_module(module), name)(model=row.model)
    return model.eval()


def measure(row: Whole, folder: Path) -> Measured:
    """Export a model, and call its file, also one that was refused, at sizes of this function's own."""
    warnings.filterwarnings("ignore")
    why, notes = exported(row, folder)
    path = folder / ("bundle-failed" if why else "bundle") / "model.onnx"
    calls, error = compared(row, path) if path.exists() else (0, None)
    right = error is not None and error <= CLOSE
    verdict = "refused" if why else "certified" if right else "wrong"
    return Measured(row.name, ", ".join(row.inputs), calls, error, verdict, why, notes)


def exported(row: Whole, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return why a model is refused, or nothing, and the notes of its report."""
    try:
        result = posenc_export.export(
            row.factory,
            to=folder / "bundle",
            inputs=parse_ports(row.inputs),
            parameters={"model": row.model},
            formats=["onnx"],
            runtimes=["ort-cpu"],
            max_len=row.max_len,
        )
    except PosencError as error:
        return error.message, ()
    failed = (f"{v.check}: {v.detail}" for v in result.verdicts if v.status == "fail")
    return "; ".join(failed), result.manifest.notes


def compared(row: Whole, path: Path) -> tuple[int, float]:
    """Return how many calls were made, and the largest error of all, as a share of the scale of its output."""
    ports, module = parse_ports(row.inputs), made(row)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    taken = {value.name for value in session.get_inputs()}
    errors = []
    for turn, sizes in enumerate(sizes_of(ports, row.max_len)):
        feeds = feeds_of(ports, sizes, turn)
        expected = call_on_arrays(module, [feeds[port.name].copy() for port in ports])
        actual = session.run(None, {name: array for name, array in feeds.items() if name in taken})
        kept = tokens_of(ports, feeds)
        errors += [share(one, other, kept) for one, other in zip(actual, expected, strict=True)]
    return turn + 1, max(errors)


def sizes_of(ports: Sequence[Port], max_len: int) -> Iterator[Mapping[str, int]]:
    """Yield sizes: each length another, batches of 1, 2 and 3."""
    axes = [axis for axis in axes_of(tuple(ports)) if axis.size is None]
    for turn in range(TURNS):
        yield {axis.name: _size(axis, turn, i, max_len) for i, axis in enumerate(axes)}


def _size(axis: Axis, turn: int, place: int, max_len: int) -> int:
    if axis.kind == "batch":
        return 1 + turn % 3
    wish = WISHES[(turn + 2 * place) % len(WISHES)]
    return axis.allowed(min(wish * axis.multiple, max_len // 2), max_len)


def feeds_of(ports: Sequence[Port], sizes: Mapping[str, int], turn: int) -> dict[str, Array]:
    """Return inputs: ids at random from 3 on, masks that leave out nothing, the left or the right by turns."""
    generator = np.random.default_rng(1000 + turn)
    return {port.name: _feed(port, port.shape(sizes), turn, generator) for port in ports}


def _feed(port: Port, shape: tuple[int, ...], turn: int, generator: np.random.Generator) -> Array:
    if isinstance(port.carries, Mask):
        return _mask(shape, ("none", "left", "right")[turn % 3])
    if isinstance(port.carries, Indices):
        return generator.integers(3, port.carries.end or 2, shape)
    return generator.standard_normal(shape).astype(np.float32)


def _mask(shape: tuple[int, ...], side: str) -> Array:
    """Return a mask in which the last sequence of a batch is padded most; one token at least is left."""
    padding = 0 if side == "none" else np.minimum(1 + 2 * np.arange(shape[0])[:, None], shape[1] - 1)
    places = np.arange(shape[1])
    seen = places >= padding if side == "left" else places < shape[1] - padding
    return np.broadcast_to(seen, shape).astype(np.int64)


def tokens_of(ports: Sequence[Port], feeds: Mapping[str, Array]) -> Array | None:
    """Return which tokens a mask leaves in, (batch, tokens); None without a mask."""
    return next((feeds[port.name] > 0 for port in ports if isinstance(port.carries, Mask)), None)


def share(actual: Array, expected: Array, tokens: Array | None) -> float:
    """Return the largest error of an output as a share of its scale, rows of tokens that are left out aside."""
    assert actual.shape == expected.shape
    actual, expected = (_of_tokens(array, tokens).astype(np.float64) for array in (actual, expected))
    assert np.isfinite(expected).all()
    return float(np.abs(actual - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-30))


def _of_tokens(array: Array, tokens: Array | None) -> Array:
    """Return rows of tokens: (batch, tokens, ...), or keys and values (layers, 2, batch, heads, tokens, dim)."""
    if tokens is None:
        return array
    by_token = np.moveaxis(array, (2, 4), (0, 1)) if array.ndim == 6 else array
    return np.asarray(by_token[tokens[:, -by_token.shape[1] :]])
