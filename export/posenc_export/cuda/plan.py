"""Which bundles are made, and on which runtimes of a device each is proved: from the registries alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

import posenc
from posenc.parameters import Value
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import DType, Mode, Spec, UnsupportedSpec
from posenc_export.runtimes import RUNTIMES, Missing

MAX_LEN = 70
"""Positions of each: more than one block of the digits, and quickly run."""
BOTH = ("onnx", "torchscript")
SMALLEST = (*BOTH, "pt2")
"""Formats of a scheme's smallest sample; other samples differ in what is computed, and not in how it is written."""
HALVES: tuple[DType, ...] = ("fp16", "bf16")


@dataclass(frozen=True)
class BundlePlan:
    """A bundle to make and to prove: what is exported, and in which formats."""

    scheme: str
    spec: Spec
    params: Mapping[str, Value]
    formats: tuple[str, ...]

    def __str__(self) -> str:
        words = (f"{name}={value}" for name, value in self.params.items())
        how = self.spec.mode if self.spec.method == Spec.method else f"{self.spec.mode} ({self.spec.method})"
        return " ".join((self.scheme, how, str(self.spec.positions or ""), self.spec.dtype, *words)).replace("  ", " ")


def plans(schemes: Iterable[str] = ()) -> list[BundlePlan]:
    """Return every sample of the schemes named, or of all, in every mode; of the smallest, more dtypes and ways."""
    names = tuple(schemes) or tuple(SCHEMES)
    return [plan for name in names for plan in _of_scheme(SCHEMES[name]) if _exists(plan)]


def runtimes_of(device: str, formats: Iterable[str] = SMALLEST) -> list[str]:
    """Return the runtimes of a device that read any of the formats."""
    read = set(formats)
    return [runtime.name for runtime in RUNTIMES.values() if runtime.device == device and runtime.format in read]


def why_nothing_runs(device: str) -> str:
    """Return why no runtime of a device can run here, or nothing where one can: quick, before anything is exported."""
    reasons: dict[str, list[str]] = {}
    for name in runtimes_of(device):
        try:
            RUNTIMES[name].check()
        except Missing as missing:
            reasons.setdefault(str(missing), []).append(name)
        else:
            return ""
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _of_scheme(scheme: Scheme) -> Iterator[BundlePlan]:
    smallest, *others = scheme.samples
    for mode in (mode for mode in get_args(Mode) if mode not in scheme.unsupported.modes):
        spec = Spec(mode, max_len=MAX_LEN)
        yield BundlePlan(scheme.name, spec, smallest, _written(scheme, SMALLEST))
        for params in others:
            explicit = Spec(mode, positions="explicit", max_len=MAX_LEN)
            ways = (BundlePlan(scheme.name, one, params, _written(scheme, BOTH)) for one in (spec, explicit))
            yield from [one for one in ways if _exists(one)][:1]
        for dtype in HALVES:
            yield BundlePlan(scheme.name, Spec(mode, max_len=MAX_LEN, dtype=dtype), smallest, _written(scheme, BOTH))
        for positions in ("offset", "explicit", "mask"):
            spec = Spec(mode, positions=positions, max_len=MAX_LEN)
            yield BundlePlan(scheme.name, spec, smallest, _written(scheme, BOTH))
    if "dynamic" not in scheme.unsupported.modes:
        spec = Spec("dynamic", "trig", max_len=MAX_LEN)
        yield BundlePlan(scheme.name, spec, smallest, _written(scheme, BOTH))


def _written(scheme: Scheme, formats: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in formats if name not in scheme.unsupported.formats)


def _exists(plan: BundlePlan) -> bool:
    """Return whether there is such an encoding: some ways to give positions mean nothing to some schemes."""
    try:
        posenc.build(plan.scheme, plan.spec, **plan.params)
    except UnsupportedSpec:
        return False
    return True
