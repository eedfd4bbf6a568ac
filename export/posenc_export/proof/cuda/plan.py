"""The bundles that are made, and the runtimes of a device that prove or place them: from the registries alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import posenc
from posenc.parameters import Value
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import DType, Method, Mode, Positions, Spec, UnsupportedSpec
from posenc_export.common.errors import BadInput
from posenc_export.proof.runtimes import RUNTIMES, Missing
from posenc_export.write.formats import OPSETS, RotaryOp

MAX_LEN = 70
"""Positions of a bundle: more than one block of digits, and quickly run."""
BOTH = ("onnx", "torchscript")
SMALLEST = (*BOTH, "pt2")
"""Formats of a scheme's smallest sample; the other samples compute something else, and are written the same way."""
HALVES: tuple[DType, ...] = ("fp16", "bf16")
WAYS: tuple[Positions, ...] = ("offset", "explicit", "mask")


@dataclass(frozen=True)
class BundlePlan:
    """A bundle to make and to prove: what is exported, in which formats, and how ONNX writes it."""

    scheme: str
    spec: Spec
    params: Mapping[str, Value]
    formats: tuple[str, ...]
    opset: int | None = None
    rotary_op: RotaryOp = "decomposed"

    def __str__(self) -> str:
        words = (f"{name}={value}" for name, value in self.params.items())
        written = (
            f"opset {self.opset}" if self.opset else "",
            "" if self.rotary_op == "decomposed" else self.rotary_op,
        )
        parts = (self.scheme, self.form, str(self.spec.positions or ""), self.spec.dtype, *words, *written)
        return " ".join(filter(None, parts))

    @property
    def form(self) -> str:
        """The mode, with the method where it is not the usual one."""
        return self.spec.mode if self.spec.method == Spec.method else f"{self.spec.mode} ({self.spec.method})"


def plans(schemes: Iterable[str] = ()) -> list[BundlePlan]:
    """Return plans of the named schemes, or of all: samples in each mode, the smallest in more dtypes and ways."""
    names = tuple(schemes) or tuple(SCHEMES)
    return [plan for name in names for plan in _of_scheme(SCHEMES[name]) if _exists(plan)]


def placements(schemes: Iterable[str] = ()) -> list[BundlePlan]:
    """Return plans of ONNX files: each way to give positions in each dtype and method, each operator, each opset.

    That is of the smallest sample; the others are planned once in each mode, as in `plans`.
    """
    names = tuple(schemes) or tuple(SCHEMES)
    return [plan for name in names for plan in _placements_of(SCHEMES[name]) if _exists(plan)]


def _placements_of(scheme: Scheme) -> Iterator[BundlePlan]:
    smallest, *others = scheme.samples
    for mode, method in product(get_args(Mode), get_args(Method)):
        if mode in scheme.unsupported.modes or (mode == "baked" and method != Spec.method):
            continue
        for positions, dtype in product(get_args(Positions), ("fp32", *HALVES)):
            plan = BundlePlan(scheme.name, Spec(mode, method, positions, MAX_LEN, dtype), smallest, ("onnx",))
            yield plan
            yield from (replace(plan, rotary_op=op) for op in get_args(RotaryOp)[1:])
        usual = Spec(mode, method, scheme.positions, MAX_LEN)
        yield from (BundlePlan(scheme.name, usual, smallest, ("onnx",), opset) for opset in [*OPSETS][1:])
        for params in others:
            ways = (
                BundlePlan(scheme.name, way, params, ("onnx",)) for way in (usual, replace(usual, positions="explicit"))
            )
            yield from [plan for plan in ways if _exists(plan)][:1]


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
    """Return whether the encoding exists, and its operator rotates it: some ways mean nothing to some schemes."""
    from posenc_export.write.formats.onnx.rotary_op import with_rotary_op

    try:
        with_rotary_op(posenc.build(plan.scheme, plan.spec, **plan.params).module, plan.rotary_op)
    except (UnsupportedSpec, BadInput):
        return False
    return True
