"""Modules that people use: what is certified is right at sizes that nothing was traced at, the rest refused and why."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import posenc_export
from known import Known
from posenc.ports import Port, axes_of
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import FLOATS, call_on_arrays
from posenc_export.common.errors import PosencError
from posenc_export.proof.exporter import ExportResult
from posenc_export.proof.judging.verdict import NO_REFERENCE
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets.calling import InARow, by_name
from posenc_export.write.targets.feeds import feeds_for

FILES = ("absolute", "rotary", "relative", "grids", "shapes", "wrong", "packages", "blocks", "idioms", "lies")
KNOWN = [row for file in FILES for row in importlib.import_module(f"known.{file}").ROWS]
CERTIFIED = [row for row in KNOWN if not row.refused]
SIZES = (1, 5, 19, 29, 37, 53, 61, 67)
"""Lengths, of which none is one that is traced, or stands beside it."""
CLOSE = 2e-5
"""Share of the scale by which ONNX Runtime may differ from eager: sums in another order, other sines."""


def test_there_are_enough_of_each() -> None:
    assert len(KNOWN) >= 115
    assert len(CERTIFIED) >= 80
    assert all(row.why for row in KNOWN)


def marked(row: Known) -> object:
    return pytest.param(row, marks=() if row.quick else (pytest.mark.exhaustive,), id=f"{row.name}{_of(row)}")


def _of(row: Known) -> str:
    return "".join(f"-{key}-{value}" for key, value in row.params.items()) + f"-{len(row.inputs)}{row.inputs[0][-4:-1]}"


def made(row: Known) -> nn.Module:
    """The module, made by the test itself: as `export` makes it, with the same seed."""
    file, name = row.factory.split(":")
    torch.manual_seed(0)
    module: nn.Module = getattr(importlib.import_module(f"known.{file}"), name)(**row.params)
    return module.eval()


def export(row: Known, folder: Path) -> ExportResult:
    return posenc_export.export(
        f"known.{row.factory}",
        to=folder / "bundle",
        inputs=parse_ports(row.inputs),
        parameters=row.params,
        formats=["onnx"],
        runtimes=["ort-cpu"],
        max_len=row.max_len,
    )


@pytest.mark.parametrize("row", [marked(row) for row in KNOWN])
def test_a_module_is_certified_and_right_or_refused_for_its_reason(row: Known, tmp_path: Path) -> None:
    reason, lines = outcome(row, tmp_path)
    assert bool(reason) == bool(row.refused), reason or "certified"
    assert row.refused in reason
    assert any(row.note in line for line in ("", *lines)), lines
    if not reason:
        without = any(line.startswith(NO_REFERENCE) for line in lines)
        assert without == row.note.startswith(NO_REFERENCE), lines
        check(row, tmp_path / "bundle" / "model.onnx")


def outcome(row: Known, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Why a module is refused, or nothing, and the lines of the report: its notes, and what it was held against."""
    try:
        result = export(row, folder)
    except PosencError as error:
        return error.message, ()
    wrong = (f"{v.check}: {v.detail}" for v in result.verdicts if v.status == "fail")
    return "; ".join(wrong), (*result.manifest.notes, result.manifest.reference)


def check(row: Known, path: Path) -> None:
    """Run the file in ONNX Runtime at sizes of this test's own, and the module in eager."""
    ports = parse_ports(row.inputs)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    tried = 0
    for sizes in sizes_of(ports, row.max_len):
        feeds = feeds_for(ports, Case(f"known {sizes}", sizes), seed=17)
        module = made(row)
        module = InARow(module, by_name(module, [port.name for port in ports]))
        expected = call_on_arrays(module, [feeds[port.name].copy() for port in ports])
        names = {value.name for value in session.get_inputs()}
        actual = session.run(None, {name: array for name, array in feeds.items() if name in names})
        for one, other in zip(actual, expected, strict=True):
            assert one.shape == other.shape, sizes
            compare(one, other)
        tried += 1
    assert tried >= (3 if axes_of(ports) else 1)


def compare(actual: np.ndarray, expected: np.ndarray) -> None:
    if expected.dtype.name not in FLOATS:
        assert np.array_equal(actual, expected)
        return
    finite = np.isfinite(expected) & (np.abs(expected) < 1e8)
    assert np.array_equal(actual[~finite], expected[~finite])
    scale = max(float(np.abs(expected[finite]).max(initial=0.0)), 1e-30)
    assert np.abs(actual[finite] - expected[finite]).max(initial=0.0) <= CLOSE * scale


def sizes_of(ports: tuple[Port, ...], max_len: int) -> Iterator[Mapping[str, int]]:
    """Yield sizes of this test's own: each length another, and batches of 1 and 2."""
    axes = axes_of(ports)
    for turn in range(4):
        sizes = {}
        for i, axis in enumerate(axes):
            wish = SIZES[(2 * turn + 3 * i + 1) % len(SIZES)] if axis.is_length else 1 + turn % 2
            sizes[axis.name] = axis.allowed(min(wish * axis.multiple, max_len), max_len)
        yield sizes
