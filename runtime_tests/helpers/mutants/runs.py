"""The mutants of a combination of scheme, form and way to give positions: at `posenc validate`, or at export."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from onnx import ModelProto

import posenc_export
from helpers.mutants.equivalent import equivalent
from helpers.mutants.mutations import KINDS, Kind, Mutant, Mutation, mutants
from helpers.mutants.outcomes import MODEL, Outcome, failures, in_a_child, loads, subject, tried
from posenc.scheme import SCHEMES
from posenc_export.proof.exporter import ExportResult
from posenc_export.proof.exporter import write as writing
from posenc_export.write.targets import Target

EACH = 24
"""Mutants of a combination."""
OF_THE_MODULE = 4
"""One in so many mutants at export is of the module, not of the file."""


@dataclass(frozen=True)
class Combination:
    """A scheme in one form, with one way to give positions."""

    scheme: str
    mode: str
    positions: str

    def __str__(self) -> str:
        return f"{self.scheme}-{self.mode}-{self.positions}"

    @property
    def parameters(self) -> dict[str, object]:
        """Those of the smallest sample."""
        return dict(SCHEMES[self.scheme].samples[0])


@dataclass(frozen=True)
class Result:
    """What became of the mutants of a combination, and in how many seconds."""

    combination: Combination
    outcomes: tuple[Outcome, ...]
    seconds: float


def mutated(combination: Combination, each: int = EACH, seed: int = 0, kinds: tuple[Kind, ...] = KINDS) -> Result:
    """Export a combination, and try so many of its mutants."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        exported(combination, Path(scratch) / "bundle", validate=False)
        whole = subject(Path(scratch) / "bundle")
        drawn = mutants(whole.model, (seed, *str(combination).encode()), kinds)
        counting = (one for one in (tried(whole, mutant) for mutant in drawn) if one.became != "not loaded")
        outcomes = tuple(islice(counting, each))
    return Result(combination, outcomes, time.monotonic() - begin)


def exported(combination: Combination, folder: Path, *, validate: bool) -> ExportResult:
    """Export a combination as ONNX, with the proof or without."""
    return posenc_export.export(
        combination.scheme,
        to=folder,
        parameters=combination.parameters,
        mode=combination.mode,
        positions=combination.positions,
        formats=("onnx",),
        runtimes=("ort-cpu",) if validate else (),
        validate=validate,
    )


def mutated_at_export(
    combination: Combination, each: int = EACH, seed: int = 0, kinds: tuple[Kind, ...] = KINDS
) -> Result:
    """Export a combination so many times, of which each time the file or the module is made wrong before the proof."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        exported(combination, Path(scratch) / "whole", validate=False)
        model = ModelProto.FromString((Path(scratch) / "whole" / MODEL).read_bytes())
        drawn = mutants(model, (seed, *str(combination).encode()), kinds)
        usable = (mutant for mutant in drawn if in_a_child(partial(loads, mutant.model)))
        outcomes = tuple(
            _wrong_at_export(combination, mutant, i, Path(scratch) / str(i))
            for i, mutant in enumerate(islice(usable, each))
        )
    return Result(combination, outcomes, time.monotonic() - begin)


def _wrong_at_export(combination: Combination, mutant: Mutant, number: int, folder: Path) -> Outcome:
    """Export with one thing wrong, by turns in the file and in the module."""
    if number % OF_THE_MODULE == OF_THE_MODULE - 1:
        return _with_another_module(combination, folder, number)
    return _with_another_file(combination, folder, mutant)


def _with_another_file(combination: Combination, folder: Path, mutant: Mutant) -> Outcome:
    """Export, and put a mutant in the place of the file once it is written; its digests are taken then."""
    stamp, whole = writing._stamp, []

    def stamped(target: Target, facts: Any, options: Any, place: Path, cases: Any) -> None:
        stamp(target, facts, options, place, cases)
        whole.append(ModelProto.FromString((place / MODEL).read_bytes()))
        (place / MODEL).write_bytes(mutant.model.SerializeToString())

    with patch.object(writing, "_stamp", stamped):
        result = exported(combination, folder, validate=True)
    if not result.passed:
        return Outcome(mutant.mutation, "refused", failures(result.verdicts))
    rule = equivalent(whole[0], mutant.model, mutant.mutation, result.manifest)
    return Outcome(mutant.mutation, "equivalent" if rule else "survived", rule)


def _with_another_module(combination: Combination, folder: Path, number: int) -> Outcome:
    """Export, and make a row of a buffer of the module zero once the file is written."""
    write, names = writing.write_formats, []

    def changed(target: Target, *rest: Any) -> Any:
        draft = write(target, *rest)
        names.append(_zeroed(target.encoding.module, number))
        return draft

    with patch.object(writing, "write_formats", changed):
        result = exported(combination, folder, validate=True)
    mutation = Mutation("rows and elements", "row zeroed in the module", names[0])
    return Outcome(mutation, "survived" if result.passed else "refused", failures(result.verdicts))


def _zeroed(module: torch.nn.Module, number: int) -> str:
    """Make a row of a table of a module zero, and return which."""
    tables = [(name, one) for name, one in module.named_buffers() if one.ndim > 1 and one.shape[0] > 1]
    tables += [(name, one.data) for name, one in module.named_parameters() if one.ndim > 1 and one.shape[0] > 1]
    name, table = tables[number % len(tables)]
    row = next(row for row in range(table.shape[0] // 2, table.shape[0]) if table[row].any())
    table[row] = 0
    return f"{name}[{row}]"
