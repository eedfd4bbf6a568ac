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
Form = tuple[Any, Method]
MODES: list[Form] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
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


def form_of(spec: Spec) -> Form:
    return spec.mode, spec.method


def form_of_variants(scheme: str, params: Parameters | None = None) -> Form:
    """The form that variants are tried in: computed, where there is such a form of a scheme and of parameters."""
    dynamic = (Spec("dynamic", "exact", positions, MAX_LEN) for positions in POSITIONS)
    computed = "dynamic" not in SCHEMES[scheme].unsupported.modes
    if params is not None:
        computed = any(family_of(scheme, spec, params) for spec in dynamic)
    return ("dynamic" if computed else "baked"), "exact"


def forms_of(scheme: str) -> list[Form]:
    """The forms that a scheme has, that of its variants first."""
    forms = [
        one for one in MODES if any(family_of(scheme, Spec(*one, p, MAX_LEN), smallest(scheme)) for p in POSITIONS)
    ]
    return sorted(forms, key=lambda one: one != form_of_variants(scheme))


def smallest(scheme: str) -> Parameters:
    return SCHEMES[scheme].samples[0]


Cells = dict[tuple[Form, Positions], tuple[DType, ...]]
"""Forms, and ways to give positions, in which a sample is tried, with their dtypes."""


def cells_of_smallest(scheme: str) -> Cells:
    """The forms and ways in which the smallest sample is tried, all that there are, with their dtypes.

    Each form is tried in float32 with positions as by default. Each other form and way has one of the other dtypes, so
    that each of them meets several forms and ways; what a scheme is by default has those that no other place has.
    """
    forms = forms_of(scheme)
    ways = sorted(POSITIONS, key=lambda one: one != SCHEMES[scheme].positions)
    there = [
        (form, way)
        for form, way in product(forms, ways)
        if family_of(scheme, Spec(form[0], form[1], way, MAX_LEN), smallest(scheme))
    ]
    first = [next(cell for cell in there if cell[0] == form) for form in forms]
    wide, *others = DTYPES
    cells: Cells = {
        (form, way): (wide if (form, way) in first else others[(forms.index(form) + ways.index(way)) % len(others)],)
        for form, way in there
    }
    used = {dtype for dtypes in cells.values() for dtype in dtypes}
    return {**cells, there[0]: (*cells[there[0]], *(dtype for dtype in DTYPES if dtype not in used))}


def cells_of_variant(scheme: str, params: Parameters) -> Cells:
    """The forms and ways in which another sample, or another choice of a parameter, is tried, with their dtypes.

    Variants differ in what they do before the last cast, which all of a scheme share: float32 shows it, but where rows
    are added to x, in a sum that some round twice. They are tried in other forms in families that headers hold, and
    where positions are given in other ways if they look at them in other ways there: rows added to x, cosines and
    sines, and what has a switch or a center. Another form and another way are tried at once.
    """
    form = form_of_variants(scheme, params)

    def family(form: Form, way: Positions) -> str:
        return family_of(scheme, Spec(form[0], form[1], way, MAX_LEN), params)

    by_default = SCHEMES[scheme].positions
    usual = next((way for way in (by_default, *POSITIONS) if family(form, way)), None)
    if usual is None:
        return {}
    forms = [one for one in MODES if one != form and family(one, usual) in FUNCTIONS and one[1] != "trig"]
    looks = family(form, usual) in ("additive", "cos_sin") or by_length(params) or "center" in params
    ways = [way for way in POSITIONS if looks and way != usual and family(form, way)]
    others: list[tuple[Form, Positions]] = []
    for number in range(max(len(forms), len(ways))):
        other = (forms[number % len(forms)] if forms else form, ways[number % len(ways)] if ways else usual)
        alone = [(other[0], usual), (form, other[1])]
        others += [other] if family(*other) else [cell for cell in alone if cell != (form, usual)]
    of_first, of_others = DTYPES[:1], DTYPES[:1]
    if family(form, usual) == "additive":
        of_first, of_others = DTYPES[: 1 if others else 2], DTYPES[1:2]
    return {(form, usual): of_first, **dict.fromkeys(others, of_others)}


def cells_of(scheme: str, params: Parameters) -> Cells:
    return cells_of_smallest(scheme) if params == smallest(scheme) else cells_of_variant(scheme, params)


def combinations() -> Iterator[Any]:
    """Every one; for the quick run each family, and the modes and dtypes of those that headers have functions for."""
    seen: set[object] = set()
    for scheme in SCHEMES:
        samples = [(params, cells_of(scheme, params)) for params in variants(scheme)]
        for (mode, method), (params, cells), positions in product(MODES, samples, POSITIONS):
            spec = Spec(mode, method, positions, MAX_LEN)
            family = family_of(scheme, spec, params)
            for dtype in cells.get(((mode, method), positions), ()):
                words = "-".join(f"{k}={v}" for k, v in params.items())
                name = f"{scheme}-{mode}-{method}-{positions}-{dtype}-{words}"
                headers = family if family in FUNCTIONS else ""
                choices = {family, (headers, mode), (headers, dtype)}
                quick = params == smallest(scheme) and dtype in DTYPES[:2] and bool(choices - seen)
                seen |= choices if quick else set()
                marks = () if quick else (pytest.mark.exhaustive,)
                yield pytest.param(scheme, replace(spec, dtype=dtype), params, id=name, marks=marks)


def run(scheme: str, spec: Spec, params: Parameters, folder: Path, **options: Any) -> ExportResult:
    return export_target(lambda: scheme_target(scheme, spec, params, 0), ExportOptions(**options), folder / "bundle")
