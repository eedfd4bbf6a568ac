"""Eager modules held against their float64 references, as a report does it, without a file and a runtime."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import get_args

import torch

import posenc
from posenc.encoding import Encoding
from posenc.parameters import Value
from posenc.scheme import SCHEMES
from posenc.spec import Method, Mode, Positions, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.recording.record import record
from posenc_export.write.targets.sizes import trace_sizes

MAX_LEN = 70
FEW = 2**14
"""Elements of the largest array of a call: far positions are there, long calls are not."""
MODES: tuple[tuple[Mode, Method], ...] = (("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig"))


def planned(encoding: Encoding) -> list[Case]:
    """Return the calls of an encoding that a report tries, but for large ones and those that are refused."""
    cases = plan(Scope(encoding, trace_sizes(encoding.inputs, set(), encoding.end or MAX_LEN), MAX_LEN, FEW)).cases
    return [case for case in cases if not case.refused]


def disagreements(encoding: Encoding) -> list[str]:
    """Return where outputs of the module are not those of the reference: a line for each output of a planned call."""
    reasons = []
    for golden in record(encoding, planned(encoding), 0).cases:
        for name, reference in golden.reference.items():
            judgement = judge(measure(golden.eager[name], reference), golden.case.tolerance)
            if not judgement.passed:
                reasons.append(f"{golden.case.name} {name}: {judgement.reason}")
    return reasons


@dataclass(frozen=True)
class Form:
    """A scheme with parameters, as a spec asks for it."""

    scheme: str
    spec: Spec
    parameters: Mapping[str, Value]

    def built(self) -> Encoding:
        """Return its encoding, with the same random numbers each time; raise UnsupportedSpec where it has none."""
        torch.manual_seed(0)
        return posenc.build(self.scheme, self.spec, **self.parameters)

    @property
    def is_one(self) -> bool:
        """Whether there is such a form."""
        try:
            return bool(self.built())
        except UnsupportedSpec:
            return False


MORE: Mapping[str, tuple[Mapping[str, Value], ...]] = {
    "alibi": ({"heads": 6, "bfloat16_slopes": True, "scale": 0.3},),
    "interpolated": ({"d_model": 4, "grid": (4, 3), "prefix": 0, "offset": 0.1},),
}
"""Parameters that change what a module computes, and stand in no sample of a scheme."""


def forms(scheme: str) -> Iterator[Form]:
    """Yield every sample of a scheme, and some more parameters, in every mode, and the first in all that it has."""
    some = (*SCHEMES[scheme].samples, *MORE.get(scheme, ()))
    usual = SCHEMES[scheme].positions
    for positions, (mode, method) in product(sorted(get_args(Positions), key=usual.__ne__), MODES):
        for parameters in some if positions == usual else some[:1]:
            form = Form(scheme, Spec(mode, method, positions, MAX_LEN), parameters)
            if form.is_one:
                yield form
