"""A user's module, seen from outside: whether calls change what it gives, and how much of that is noise.

It has no reference and no derived bounds. What its graph may differ by follows from what eager PyTorch itself would: by
16 eps of its scale, and by how far its outputs move when each result on the way moves by one ulp, as they do between
libraries. That is stochastic arithmetic (Vignes, 1993): it measures rounding alone, and neither bias nor mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.encoding import Encoding, Tolerance, eps
from posenc.ports import Array, Floats
from posenc_export.arrays import FLOATS, call_on_arrays
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.errors import first_line
from posenc_export.validation.checks import Behaviour
from posenc_export.validation.compare import judge, measure, scale_of
from posenc_export.validation.feeds import feeds_for
from posenc_export.validation.record import at_rows

OWN_EPS, MOVES = 16, 2
"""A graph may differ from its eager module by 16 eps of the scale, and twice how far one ulp a result moves that."""
NOISE = 1e-3
"""Share of the scale from which on what rounding moves is noise, of which nothing can be proved; 4 eps of half."""
JUMPS = 1 / 8
"""Share of the elements that may move so far: at the edge of a bucket one ulp chooses another row of a table. Those
widen no tolerance: a graph must choose as eager does."""


def own_tolerances(encoding: Encoding, golden: GoldenCase, seed: int) -> tuple[GoldenCase, str]:
    """Return a case with the tolerances of a module without a reference, and in words where it is noise."""
    if golden.case.refused:
        return golden, ""
    floats = {name: value for name, value in golden.eager.items() if value.dtype.name in FLOATS}
    grain = max((eps(value.dtype.name) for value in floats.values()), default=0.0)
    scale = max((scale_of(value, value.dtype.name) for value in floats.values()), default=0.0)
    moves = _moves(encoding, golden, seed)
    steady = moves[moves <= (max(NOISE, 4 * grain) * scale or np.inf)]
    noisy = moves.size - steady.size > JUMPS * moves.size
    moved = float(np.max(moves if noisy else steady, initial=0.0))
    eager = Tolerance(atol=OWN_EPS * grain * scale + MOVES * moved, rtol=OWN_EPS * grain)
    errors = [measure(v, golden.reference[k]).max_abs for k, v in floats.items() if k in golden.reference]
    own = max((error for error in errors if np.isfinite(error)), default=0.0)
    case = replace(golden.case, eager_tolerance=eager, tolerance=replace(eager, atol=eager.atol + own))
    share = moved / scale if scale else 0.0
    words = f"{golden.case.name}: outputs move by {share:.2g} of their scale where each result moves by one ulp"
    return replace(golden, case=case), words if noisy else ""


def _moves(encoding: Encoding, golden: GoldenCase, seed: int) -> Floats:
    """Return how far each ordinary element of the outputs moves when each result on the way moves by one ulp."""
    with OneUlp(seed):
        outputs = _outputs(encoding, encoding.uncalled(), golden.case, seed)
    moves = []
    for port in encoding.outputs:
        expected, actual = golden.eager[port.name], at_rows(port, outputs[port.name], golden.rows)
        if expected.dtype.name in FLOATS and actual.shape == expected.shape:
            ordinary = np.abs(expected.astype(np.float64)) <= scale_of(expected, expected.dtype.name)
            moves.append(np.abs(actual[ordinary].astype(np.float64) - expected[ordinary].astype(np.float64)))
    return np.concatenate(moves) if moves else np.zeros(0)


class OneUlp(TorchDispatchMode):
    """Move every result of an operator that rounds by one ulp, up or down at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Run an operator, and move what it gives."""
        result = func(*args, **(kwargs or {}))
        if not _rounds(func) or not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        up = torch.rand(result.shape, generator=self.generator) < 0.5
        infinity = torch.tensor(torch.inf, dtype=result.dtype)
        moved = torch.nextafter(result, torch.where(up, infinity, -infinity))
        return torch.where(torch.isfinite(moved), moved, result)


EXACT = {"clone", "copy", "cat", "stack", "index", "index_select", "embedding", "gather", "where", "neg", "abs"}
"""Operators whose results are numbers that they were given."""


def _rounds(func: OpOverload[..., object]) -> bool:
    """Return whether an operator computes new numbers: it is no view, no copy, and changes nothing in place."""
    name = func.__name__.partition(".")[0].strip("_")
    tagged = torch.Tag.pointwise in func.tags or torch.Tag.reduction in func.tags or name in SUMS
    return tagged and not func._schema.is_mutable and name not in EXACT


SUMS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "native_layer_norm", "cumsum", "scaled_dot_product_attention"}
"""Operators that sum products and have no tag that says so."""


def behaviour(encoding: Encoding, called: Encoding, cases: Sequence[GoldenCase], seed: int) -> Behaviour:
    """Call one copy in every case, ascending and descending; return what that showed."""
    usable = [golden for golden in cases if not golden.case.refused]
    for golden in (*usable, *reversed(usable)):
        words = _other(encoding, called, golden, seed)
        if words:  # the longest calls show best whether it would be so without any call before
            alone = (_other(encoding, encoding.uncalled(), one, seed) for one in (golden, *reversed(usable)))
            difference = next(filter(None, alone), "")
            both = f"two copies of the module give other outputs of the same inputs: {difference}"
            return Behaviour(random=both) if difference else Behaviour(order=words)
    return Behaviour()


def _other(encoding: Encoding, called: Encoding, golden: GoldenCase, seed: int) -> str:
    """Return in words where a module gives other outputs in a case than were recorded; nothing where it does not."""
    try:
        outputs = _outputs(encoding, called, golden.case, seed)
    except Exception as error:
        return f"{golden.case.name}: {type(error).__name__}: {first_line(error)}"
    for port in encoding.outputs:
        actual = at_rows(port, outputs[port.name], golden.rows)
        expected = golden.eager[port.name]
        judgement = judge(measure(actual, expected), _of_the_same(expected))
        if not judgement.passed:
            return f"{golden.case.name}: {judgement.reason}"
    return ""


def _of_the_same(expected: Array) -> Tolerance:
    """Return what two calls of one module may differ by: sums whose order follows from where in memory they lie."""
    if expected.dtype.name not in FLOATS:
        return Tolerance()
    grain = OWN_EPS * eps(expected.dtype.name)
    return Tolerance(atol=grain * scale_of(expected, expected.dtype.name), rtol=grain)


def _outputs(encoding: Encoding, called: Encoding, case: Case, seed: int) -> Mapping[str, Array]:
    feeds = feeds_for(encoding.inputs, case, seed)
    outputs = call_on_arrays(called.module, [feeds[port.name] for port in encoding.inputs])
    return {port.name: output for port, output in zip(encoding.outputs, outputs, strict=True)}
