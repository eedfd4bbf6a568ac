"""The smallest sample of every scheme by each method."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import posenc
from posenc.parameters import Value
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import Method, Mode, Spec, UnsupportedSpec

MAX_LEN = 70
Parameters = dict[str, Value]


def every_sample() -> Iterator[tuple[str, Spec, Parameters]]:
    """The smallest sample of every scheme by each method: parity has the others, and asks the same of them."""
    forms: list[tuple[Mode, Method]] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
    for scheme, (mode, method) in product(SCHEMES.values(), forms):
        if method not in scheme.unsupported.methods and mode not in scheme.unsupported.modes:
            spec = spec_of(scheme, Spec(mode, method, scheme.positions, MAX_LEN), scheme.samples[0])
            if spec is not None:
                yield scheme.name, spec, dict(scheme.samples[0])


def spec_of(scheme: Scheme, spec: Spec, params: Mapping[str, Value]) -> Spec | None:
    """Return a spec with positions as by default, or explicit where a sample takes no others; None without a form."""
    for positions in (spec.positions, "explicit"):
        try:
            posenc.build(scheme.name, replace(spec, positions=positions), **params)
        except UnsupportedSpec:
            continue
        return replace(spec, positions=positions)
    return None
