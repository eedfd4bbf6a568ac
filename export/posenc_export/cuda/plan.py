"""The bundles that are made, and the runtimes of a device that prove them: from the registries alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import get_args

import posenc
from posenc.parameters import Value
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import DType, Mode, Positions, Spec, UnsupportedSpec
from posenc_export.runtimes import RUNTIMES, Missing

MAX_LEN = 70
"""Positions of a bundle: more than one block of digits, and quickly run."""
BOTH = ("onnx", "torchscript")
SMALLEST = (*BOTH, "pt2")
"""Formats of a scheme's smallest sample; the other samples compute something else, and are written the same way."""
HALVES: tuple[DType, ...] = ("fp16", "bf16")
WAYS: tuple[Positions, ...] = ("offset", "explicit", "mask")


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
    """Return plans of the named schemes, or of all: samples in each mode, the smallest in more dtypes and ways."""
    names = tuple(schemes) or tuple(SCHEMES)
    return [plan for name in names for plan in _of_scheme(SCHEMES[name]) if _exists(plan)]


def runtimes_of(device: str, formats: Iterable[str] = SMALLEST) -> list[str]:
    """Return the runtimes of a device that read any of the formats."""
    read = set(formats)
    return [runtime.name for runtime in RUNTIMES.values() if runtime.device == device and runtime.format in read]


def why_nothing_runs(device: str) -> str:
    """Return why no runtime of a device can run here; an empty text where one can. Quick: nothing is exported."""
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
            # a sample without its default positions is tried with explicit ones
            explicit = Spec(mode, positions="explicit", max_len=MAX_LEN)
            ways = (BundlePlan(scheme.name, way, params, _written(scheme, BOTH)) for way in (spec, explicit))
            yield from [plan for plan in ways if _exists(plan)][:1]
        specs = [replace(spec, dtype=dtype) for dtype in HALVES]
        specs += [replace(spec, positions=positions) for positions in WAYS]
        specs += [replace(spec, method="trig")] if mode == "dynamic" else []
        for spec in specs:
            yield BundlePlan(scheme.name, spec, smallest, _written(scheme, BOTH))


def _written(scheme: Scheme, formats: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in formats if name not in scheme.unsupported.formats)


def _exists(plan: BundlePlan) -> bool:
    """Return whether the encoding exists: some ways to give positions mean nothing to some schemes."""
    try:
        posenc.build(plan.scheme, plan.spec, **plan.params)
    except UnsupportedSpec:
        return False
    return True
