"""Every scheme with parameters, mode, method, positions and dtype: what is exported, run and held bit by bit."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import pytest

import posenc
from posenc.parameters import Value
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import SCHEMES
from posenc.spec import DType, Method, Positions, Spec, UnsupportedSpec
from posenc_export.proof.exporter import ExportOptions, ExportResult, export_target
from posenc_export.write.formats.header.functions import FUNCTIONS
from posenc_export.write.targets.scheme import scheme_target

MAX_LEN = 70
MODES: list[tuple[Any, Method]] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
POSITIONS: tuple[Positions, ...] = get_args(Positions)
DTYPES: tuple[DType, ...] = get_args(DType)
MEANINGLESS = ("width", "rope_type")
"""Choices that mean nothing without others: they are among the samples."""

Parameters = Mapping[str, Value]


def variants(scheme: str) -> Iterator[Parameters]:
    """The smallest sample, each other choice of each parameter that has a list of them, and the other samples."""
    small, *more = SCHEMES[scheme].samples
    yield small
    for parameter in SCHEMES[scheme].parameters.values():
        if parameter.name not in MEANINGLESS and len(parameter.choices) > 1:
            others = (cast("Value", choice) for choice in parameter.choices if choice != parameter.default)
            yield from ({**small, parameter.name: other} for other in others)
    yield from (sample for sample in more if sample != small and sample.get("rope_type") != "default")


def family_of(scheme: str, spec: Spec, params: Parameters) -> str:
    """The family of an encoding, or nothing where there is none of such a spec: test_schemes.py has those."""
    return _family_of(scheme, spec, tuple(params.items()))


@cache  # every encoding that is asked for is made, and many are asked for again and again
def _family_of(scheme: str, spec: Spec, params: tuple[tuple[str, Value], ...]) -> str:
    try:
        return posenc.build(scheme, spec, **dict(params)).family
    except UnsupportedSpec:
        return ""


def by_length(params: Parameters) -> bool:
    """Whether a call's length changes what is computed."""
    return bool(ROPE_TYPES[str(params.get("rope_type", "default"))].by_length) or params.get("center") == "length"


def _has_variants(family: str, spec: Spec) -> bool:
    """Whether variants are tried stored and computed: in families that headers hold; in others one form is enough."""
    return family in FUNCTIONS and spec.method != "trig"


def form_of(spec: Spec) -> tuple[str, str]:
    return spec.mode, spec.method


def form_of_variants(scheme: str, params: Parameters | None = None) -> tuple[str, str]:
    """The form that variants are tried in: computed, where there is such a form of a scheme and of parameters."""
    dynamic = (Spec("dynamic", "exact", positions, MAX_LEN) for positions in POSITIONS)
    computed = "dynamic" not in SCHEMES[scheme].unsupported.modes
    if params is not None:
        computed = any(family_of(scheme, spec, params) for spec in dynamic)
    return ("dynamic" if computed else "baked"), "exact"


def forms_of(scheme: str) -> list[tuple[Any, Method]]:
    """The forms that a scheme has, that of its variants first."""
    forms = [
        one for one in MODES if any(family_of(scheme, Spec(*one, p, MAX_LEN), smallest(scheme)) for p in POSITIONS)
    ]
    return sorted(forms, key=lambda one: one != form_of_variants(scheme))


def smallest(scheme: str) -> Parameters:
    return SCHEMES[scheme].samples[0]


def dtypes(scheme: str, spec: Spec) -> tuple[DType, ...]:
    """The dtypes of the smallest sample in a form, with positions given in a way.

    Of forms, ways and dtypes each pair is there, in the place of every three: the next form begins with the next dtype,
    and so does the next way. What a scheme is by default has those that no other of its forms and ways has.
    """
    forms = forms_of(scheme)
    ways = sorted(POSITIONS, key=lambda one: one != SCHEMES[scheme].positions)
    there = [
        (form, way)
        for form, way in product(forms, ways)
        if family_of(scheme, Spec(form[0], form[1], way, MAX_LEN), smallest(scheme))
    ]
    chosen = {one: DTYPES[(forms.index(one[0]) + ways.index(one[1])) % len(DTYPES)] for one in there}
    here = (form_of(spec), cast("Positions", spec.positions))
    rest = tuple(dtype for dtype in DTYPES if dtype not in chosen.values())
    return (chosen[here], *(rest if here == there[0] else ()))


def dtypes_of_variants(scheme: str, family: str, spec: Spec, params: Parameters) -> tuple[DType, ...]:
    """The dtypes of another sample, or another choice of a parameter, in a form, with positions given in a way.

    Variants differ in what they do before the last cast, which all of a scheme share: float32 shows it, but where rows
    are added to x, in a sum that some round twice. Where positions are not as by default, only those count that look at
    positions in other ways there, in one form: rows added to x, cosines and sines, and what has a switch or a center.
    """
    one_form = form_of(spec) == form_of_variants(scheme, params)
    if not _has_variants(family, spec) and not one_form:
        return ()
    if spec.positions == SCHEMES[scheme].positions:
        return DTYPES[: 2 if spec.method != "trig" and family == "additive" else 1]
    looks = family in ("additive", "cos_sin") or by_length(params) or "center" in params
    return DTYPES[:1] if looks and one_form else ()


def combinations() -> Iterator[Any]:
    """Every one; for the quick run each family, and the modes and dtypes of those that headers have functions for."""
    seen: set[object] = set()
    for scheme in SCHEMES:
        for (mode, method), params, positions in product(MODES, variants(scheme), POSITIONS):
            spec = Spec(mode, method, positions, MAX_LEN)
            family = family_of(scheme, spec, params)
            if not family:
                continue
            is_smallest = params == smallest(scheme)
            of = dtypes(scheme, spec) if is_smallest else dtypes_of_variants(scheme, family, spec, params)
            for dtype in of:
                words = "-".join(f"{k}={v}" for k, v in params.items())
                name = f"{scheme}-{mode}-{method}-{positions}-{dtype}-{words}"
                headers = family if family in FUNCTIONS else ""
                choices = {family, (headers, mode), (headers, dtype)}
                quick = is_smallest and dtype in DTYPES[:2] and bool(choices - seen)
                seen |= choices if quick else set()
                marks = () if quick else (pytest.mark.exhaustive,)
                yield pytest.param(scheme, replace(spec, dtype=dtype), params, id=name, marks=marks)


def run(scheme: str, spec: Spec, params: Parameters, folder: Path, **options: Any) -> ExportResult:
    return export_target(lambda: scheme_target(scheme, spec, params, 0), ExportOptions(**options), folder / "bundle")
