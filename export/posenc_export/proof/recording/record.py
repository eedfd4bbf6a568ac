"""Golden data: the outputs of the eager module and of the float64 reference in every case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Port, axes_of
from posenc_export.bundle.carries import bounds_of
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.rules import rules_of
from posenc_export.bundle.sampling import long_axis, sample, sampled_rows
from posenc_export.common.arrays import FLOATS, call_on_arrays, call_on_copies, same_bits
from posenc_export.common.errors import BadInput, NoReference, ToolFailed, check_machine, first_line
from posenc_export.common.estimate import Estimate
from posenc_export.proof.judging.compare import measure
from posenc_export.proof.judging.verdict import NO_REFERENCE
from posenc_export.proof.planning.quick import cost
from posenc_export.proof.runtimes import Progress
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import advice


@dataclass(frozen=True)
class CaseRecord:
    """A case as it was recorded.

    Args:
        golden: The case, with its inputs and outputs.
        written: The inputs that the module writes into.
        no_reference: Why the case has no reference, or nothing.
    """

    golden: GoldenCase
    written: tuple[str, ...] = ()
    no_reference: str = ""


@dataclass(frozen=True)
class GoldenCases:
    """The cases that were recorded, and those that a user's module itself refuses, each in words."""

    records: tuple[CaseRecord, ...]
    dropped: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[GoldenCase, ...]:
        """The cases with what was recorded of them."""
        return tuple(record.golden for record in self.records)

    @property
    def written(self) -> tuple[str, ...]:
        """The inputs that the module writes into, in any case."""
        return tuple(dict.fromkeys(name for record in self.records for name in record.written))

    def reference(self, words: str) -> str:
        """Return what the cases are held against: the target's words, with the reason where cases have no reference."""
        usable = [record for record in self.records if not (record.golden.case.refused or record.golden.case.hard)]
        reasons = [record.no_reference for record in usable if record.no_reference]
        if not reasons:
            return words
        if len(reasons) == len(usable):
            return f"{NO_REFERENCE}: {reasons[0]}"
        return f"{words}; {NO_REFERENCE} in {len(reasons)} of {len(usable)} cases: {reasons[0]}"


WEIGHTS_COST = 32
"""What it costs to read the weights of a model, in tokens: each call does, however short it is."""
RECORDING = "recording the eager outputs and the reference"


def record(encoding: Encoding, cases: Sequence[Case], seed: int, progress: Progress = lambda _: None) -> GoldenCases:
    """Run a fresh copy of the module, and the reference, in every case; of large outputs some rows are kept.

    A user's module with several lengths may refuse some of their combinations: those cases are dropped. Raises BadInput
    where it refuses all of them, or any other case.

    Args:
        encoding: The module and its reference.
        cases: The calls.
        seed: For the numbers that go in.
        progress: Told of each call, and how long the rest takes.
    """
    records: list[CaseRecord] = []
    dropped: list[str] = []
    refused_alike: list[RefusedByModule] = []
    several = (
        not rules_of(encoding.family).known_refusals and sum(axis.is_length for axis in axes_of(encoding.inputs)) > 1
    )
    costs = [0 if case.refused else WEIGHTS_COST + cost(case, encoding.inputs) for case in cases]
    rest = Estimate(costs)
    for number, case in enumerate(cases):
        if number == 1:  # the first call made the copy in float64, too, and tells nothing of the others
            rest = Estimate([0, *costs[1:]])
        progress(f"{RECORDING}: call {number + 1} of {len(cases)}{rest.after(number)}")
        try:
            records.append(_record(encoding.uncalled(), case, feeds_for(encoding.inputs, case, seed)))
        except RefusedByModule as error:
            if not several and not case.hard:
                raise
            dropped.append(f"{case.name}: {error.message}")
            if _alike(encoding.inputs, case) and not case.hard:
                refused_alike.append(error)
    if dropped and not records:
        raise BadInput(f"the module itself refuses every way in which its lengths meet: {dropped[0]}")
    if refused_alike and any(_alike(encoding.inputs, entry.golden.case) for entry in records):
        raise refused_alike[0]  # it takes equal lengths, but not all of them
    return GoldenCases(tuple(records), tuple(dropped))


def _alike(ports: Sequence[Port], case: Case) -> bool:
    """Return whether all lengths of a case are equal."""
    return len({case.sizes[axis.name] for axis in axes_of(ports) if axis.is_length}) == 1


class RefusedByModule(BadInput):
    """The module itself fails in a case."""


def _record(encoding: Encoding, case: Case, feeds: Mapping[str, Array]) -> CaseRecord:
    if case.refused:  # floats are left out, and read back as zeros, but where they have bounds
        names = [p.name for p in encoding.inputs if p.dtype not in FLOATS or bounds_of(p)]
        return CaseRecord(GoldenCase(case, {name: feeds[name] for name in names}))
    outputs, written = _called(encoding, case, feeds)
    eager, rows = _eager(encoding.outputs, case, outputs)
    reference, reason = _reference(encoding, feeds, eager, rows)
    rows |= {p.name: at for p in encoding.inputs if (at := _sparse(p, feeds[p.name])) is not None}
    stored = {p.name: at_rows(p, feeds[p.name], rows) for p in encoding.inputs}
    return CaseRecord(GoldenCase(case, stored, eager, reference, rows), written, reason)


def _eager(ports: Sequence[Port], case: Case, outputs: Sequence[Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the outputs of the eager module by name, and the rows that are kept of large ones."""
    rows: dict[str, Array] = {}
    eager: dict[str, Array] = {}
    for port, output in zip(ports, outputs, strict=True):
        if output.dtype.name in FLOATS and np.isnan(output).any() and not case.hard:
            raise BadInput(
                f"the module itself gives NaN in {port.name} at {case.name}: nothing can be compared with it"
            )
        _check_shape(port, case, output.shape)
        at = sampled_rows(port, output.shape)  # None where the whole output is kept
        rows |= {} if at is None else {port.name: at}
        eager[port.name] = at_rows(port, output, rows)
    return eager, rows


def _check_shape(port: Port, case: Case, shape: tuple[int, ...]) -> None:
    """Raise BadInput where an output's shape is not what its axes were found to be when the module was inspected."""
    known = [axis.size is not None or set(axis.names) <= case.sizes.keys() for axis in port.axes]
    expected = [axis.size_in(case.sizes) if is_known else -1 for axis, is_known in zip(port.axes, known, strict=True)]
    if len(shape) != len(expected) or any(n not in (-1, size) for n, size in zip(expected, shape, strict=True)):
        raise BadInput(
            f"the module gives {port} of the shape {shape} at {case.name}: what its axes are changes with the sizes of "
            "its inputs; fix the sizes on which that depends, or give max_len up to which it does not"
        )


def _called(encoding: Encoding, case: Case, feeds: Mapping[str, Array]) -> tuple[list[Array], tuple[str, ...]]:
    """Return the outputs of the module, and the inputs that a user's module writes into: it is called on copies."""
    inputs = [feeds[p.name] for p in encoding.inputs]
    try:
        if not rules_of(encoding.family).may_keep_state:
            return call_on_arrays(encoding.module, inputs), ()
        outputs, after = call_on_copies(encoding.module, inputs)
    except Exception as error:
        check_machine(error)
        reason = f"fails at {case.name}: {type(error).__name__}: {first_line(error)}"
        if rules_of(encoding.family).known_refusals:  # a scheme is ours: its user can mend nothing in it
            raise ToolFailed(f"the encoding {reason}") from error
        raise RefusedByModule(f"the module itself {reason}{advice(encoding.inputs, case.sizes)}") from error
    pairs = zip(encoding.inputs, inputs, after, strict=True)
    return outputs, tuple(port.name for port, before, array in pairs if not same_bits(before, array))


def _reference(
    encoding: Encoding, feeds: Mapping[str, Array], eager: Mapping[str, Array], rows: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """Return the reference of each output at the rows that are kept, and why there is none, or nothing.

    Integers of a user's module have none: float64 may round to others, as in an argmax of nearly equal numbers.
    """
    own = not rules_of(encoding.family).derived_tolerances
    judged = [port for port in encoding.outputs if not own or eager[port.name].dtype.name in FLOATS]
    if not judged:
        return {}, "its outputs are integers or flags, which must be equal"
    try:
        whole = encoding.reference(feeds, rows.get(encoding.outputs[0].name))
    except NoReference as reason:
        return {}, str(reason)
    reference = {}
    for port in judged:
        value = np.asarray(whole[port.name], np.float64)
        if value.shape != eager[port.name].shape:  # a reference may give every row
            value = at_rows(port, value, rows)
        if own and value.shape != eager[port.name].shape:
            return {}, f"in float64 the module gives {port.name} of another shape, {value.shape}"
        reference[port.name] = value
    return reference, ""


def at_rows(port: Port, array: Array, rows: Mapping[str, Array]) -> Array:
    """Return an array at the rows that are kept of its port, or all of it."""
    return sample(array, rows.get(port.name), long_axis(port, array.shape))


def _sparse(port: Port, feed: Array) -> Array | None:
    """Return the rows of a large input that are drawn at random: the others are zeros."""
    return sampled_rows(port, feed.shape) if feed.dtype.name in FLOATS else None


def worst_error(cases: Sequence[GoldenCase]) -> float | None:
    """Return the largest error of eager outputs, which a graph must equal, against the reference; None without one."""
    errors = [measure(golden.eager[k], value).max_abs for golden in cases for k, value in golden.reference.items()]
    return max(errors, default=None)
