"""Eager modules held against their float64 references, as a report does it, without a file and a runtime."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import get_args

import torch

import posenc
from posenc.encoding import Encoding
from posenc.parameters import Value
from posenc.scheme import SCHEMES
from posenc.spec import Method, Mode, Positions, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.validation.compare import judge, measure
from posenc_export.validation.plan import plan
from posenc_export.validation.record import record
from posenc_export.validation.scope import Scope
from posenc_export.validation.sizes import trace_sizes

MAX_LEN = 70
FEW = 2**17
"""Elements of the largest array of a call: far positions are there, long calls are not."""
MODES: tuple[tuple[Mode, Method], ...] = (("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig"))

Parameters = Mapping[str, Value]


def planned(encoding: Encoding) -> list[Case]:
    """Return the calls of an encoding that a report tries, but for large ones and those that are refused."""
    cases = plan(Scope(encoding, trace_sizes(encoding, set(), encoding.end or MAX_LEN), MAX_LEN, FEW)).cases
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


def built(scheme: str, spec: Spec, sample: Parameters) -> Encoding | None:
    """Return the encoding of a scheme, with the same random numbers each time; None where it has no such form."""
    torch.manual_seed(0)
    try:
        return posenc.build(scheme, spec, **sample)
    except UnsupportedSpec:
        return None


def specs() -> Iterator[Spec]:
    """Yield a spec of every mode, method and way to give positions."""
    for (mode, method), positions in product(MODES, get_args(Positions)):
        yield Spec(mode, method, positions, MAX_LEN)


def forms(scheme: str) -> Iterator[tuple[Spec, Parameters, Encoding]]:
    """Yield every sample of a scheme in every form that it has."""
    for spec, sample in product(specs(), SCHEMES[scheme].samples):
        encoding = built(scheme, spec, sample)
        if encoding is not None:
            yield spec, sample, encoding
