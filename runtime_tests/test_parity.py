"""Scheme x parameters x mode x method x positions x dtype x format x runtime x length, from the registries."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import pytest

import posenc
from conftest import Running, need, one_of_each
from posenc.parameters import Value
from posenc.ports import axes_of
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import SCHEMES
from posenc.spec import DType, Method, Mode, Positions, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.exporter import ExportOptions, ExportResult, export_target
from posenc_export.formats import DEFAULT_OPSET, FORMATS, OPSETS
from posenc_export.runtimes import RUNTIMES
from posenc_export.targets.scheme import scheme_target
from posenc_export.validation.run import validate_bundle
from posenc_export.validation.verdict import ValidateOptions, worst

MAX_LEN = 70
MODES: list[tuple[Any, Method]] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
POSITIONS: tuple[Positions, ...] = get_args(Positions)
DTYPES: tuple[DType, ...] = get_args(DType)
MEANINGLESS = ("width", "rope_type")
"""Choices that mean nothing without others: they are among the samples."""

SUMS = {
    ("clipped_relative", "baked"),
    ("clipped_relative", "dynamic"),
    ("decomposed_relative", "baked"),
    ("decomposed_relative", "dynamic"),
    ("interpolated", "dynamic"),
    ("swin_bias", "dynamic"),
    ("swin_cpb", "dynamic"),
}
"""Products of matrices: each runtime adds in an order of its own; a tolerance that is derived says how far that is."""

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
    try:
        return posenc.build(scheme, spec, **params).family
    except UnsupportedSpec:
        return ""


def by_length(params: Parameters) -> bool:
    """Whether a call's length changes what is computed."""
    return bool(ROPE_TYPES[str(params.get("rope_type", "default"))].by_length) or params.get("center") == "length"


WITH_VARIANTS = ("additive", "rotary", "cos_sin")
"""Families whose variants are tried baked and exact; those of others in one form, computed where that can be."""


def _has_variants(family: str, spec: Spec) -> bool:
    return family in WITH_VARIANTS and spec.method != "trig"


def form_of(spec: Spec) -> tuple[str, str]:
    return spec.mode, spec.method


def form_of_variants(scheme: str, params: Parameters | None = None) -> tuple[str, str]:
    """The form that variants are tried in: computed, where there is such a form of a scheme and of parameters."""
    dynamic = (Spec("dynamic", "exact", positions, MAX_LEN) for positions in POSITIONS)
    computed = "dynamic" not in SCHEMES[scheme].unsupported.modes
    if params is not None:
        computed = any(family_of(scheme, spec, params) for spec in dynamic)
    return ("dynamic" if computed else "baked"), "exact"


def dtypes(scheme: str, family: str, spec: Spec, params: Parameters) -> tuple[DType, ...]:
    """Every dtype of the smallest sample in one form where positions are as by default; else fewer.

    Variants differ in what they do before the last cast, which all of a scheme share: float32 shows it, but where rows
    are added to x, in a sum that some round twice. Where positions are not as by default, only those count that look at
    positions in other ways there, in one form: rows added to x do, and what has a switch or a center.
    """
    smallest, usual = params == SCHEMES[scheme].samples[0], spec.positions == SCHEMES[scheme].positions
    computed, one_form = spec.method != "trig", form_of(spec) == form_of_variants(scheme, params)
    if not smallest and not _has_variants(family, spec) and not one_form:
        return ()
    if usual:
        return (
            (DTYPES if one_form else DTYPES[:1])
            if smallest
            else DTYPES[: 2 if computed and family == "additive" else 1]
        )
    looks = family == "additive" or by_length(params) or "center" in params
    return DTYPES[:1] if smallest or (looks and one_form) else ()


def combinations() -> Iterator[Any]:
    """Every one; for the quick run each scheme, and each form and way to give positions of a family; few in half."""
    seen: set[object] = set()
    for scheme in SCHEMES:
        for (mode, method), params, positions in product(MODES, variants(scheme), POSITIONS):
            spec = Spec(mode, method, positions, MAX_LEN)
            family = family_of(scheme, spec, params)
            for dtype in dtypes(scheme, family, spec, params) if family else ():
                words = "-".join(f"{k}={v}" for k, v in params.items())
                name = f"{scheme}-{mode}-{method}-{positions}-{dtype}-{words}"
                usual = positions == SCHEMES[scheme].positions
                choices = {
                    (family, form_of(spec)),
                    (family, positions),
                    (family if family in WITH_VARIANTS else "", dtype),
                }
                plain = dtype == "fp32" and form_of(spec) == form_of_variants(scheme) and usual
                quick = params == SCHEMES[scheme].samples[0] and dtype in DTYPES[:2] and (plain or choices - seen)
                seen |= choices if quick else set()
                marks = () if quick else (pytest.mark.exhaustive,)
                yield pytest.param(scheme, replace(spec, dtype=dtype), params, id=name, marks=marks)


def run(scheme: str, spec: Spec, params: Parameters, folder: Path, **options: Any) -> ExportResult:
    return export_target(lambda: scheme_target(scheme, spec, params, 0), ExportOptions(**options), folder / "bundle")


def test_every_scheme_has_combinations_of_each_mode_that_it_supports() -> None:
    tried = {(p.values[0], p.values[1].mode) for p in combinations()}
    for scheme in SCHEMES.values():
        for mode in {"baked", "dynamic"} - scheme.unsupported.modes.keys():
            assert (scheme.name, mode) in tried


@pytest.mark.parametrize(("scheme", "spec", "params"), list(combinations()))
def test_every_combination_agrees_on_every_runtime(
    tmp_path: Path, scheme: str, spec: Spec, params: Parameters, running: Running
) -> None:
    here = running(ExportOptions().formats)
    # Exporting twice, which shows purity and determinism, takes half of the time: once a scheme and mode is enough.
    twice = params == SCHEMES[scheme].samples[0] and spec.dtype == "fp32"
    result = run(scheme, spec, params, tmp_path, validate=twice)
    if not twice:
        verdicts = validate_bundle(Bundle.open(result.folder, trusted=True), ValidateOptions())
        result = replace(result, verdicts=tuple(verdicts))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    agreements = {v.subject: v for v in result.verdicts if v.check == "agrees" and v.status == "pass"}
    assert set(agreements) == here
    cases = [c for c in result.manifest.cases if not c.refused]
    axes = [axis.name for axis in axes_of(result.manifest.inputs) if axis.is_length]
    lengths = {case.sizes[name] for case in cases for name in axes}
    if axes:
        assert {1, 2, MAX_LEN} <= lengths
        assert max(lengths) > 2 * max(result.manifest.trace[name] for name in axes)
    if all(case.eager_tolerance.bits for case in cases):
        for name in {n for n in agreements if RUNTIMES[n].device == "cpu"}:
            eager = worst(agreements[name].comparisons, "eager")
            assert eager is not None
            assert eager.max_abs == 0, f"{name} does not give the eager bits"


def test_the_bits_are_promised_of_tables_and_angle_addition() -> None:
    for scheme, mode in product(SCHEMES.values(), get_args(Mode)):
        if mode not in scheme.unsupported.modes:
            encoding = posenc.build(scheme.name, Spec(mode, max_len=MAX_LEN), **scheme.samples[0])
            sizes = {axis.name: MAX_LEN for axis in axes_of(encoding.inputs)}
            allowed = encoding.eager_tolerance(Case("longest", sizes, max_position=MAX_LEN - 1))
            assert allowed.bits == ((scheme.name, mode) not in SUMS)


@pytest.mark.parametrize("opset", one_of_each(OPSETS, lambda opset: opset == DEFAULT_OPSET))
@pytest.mark.parametrize("mode", one_of_each(["dynamic", "baked"], lambda _: ""))
def test_every_opset(tmp_path: Path, opset: int, mode: Any) -> None:
    spec = Spec(mode, "exact", "explicit", MAX_LEN)
    result = run("sinusoidal", spec, {"d_model": 8}, tmp_path, formats=("onnx",), opset=opset)
    assert not result.failed, result.verdicts
    assert result.manifest.opset == opset
    assert result.manifest.ir_version == OPSETS[opset].ir_version


@pytest.mark.exhaustive
def test_the_self_adjusting_width(tmp_path: Path) -> None:
    for positions in POSITIONS:
        spec = Spec("dynamic", "trig", positions, MAX_LEN)
        result = run("sinusoidal", spec, {"d_model": "auto"}, tmp_path / positions)
        assert not result.failed, result.verdicts
        (dim,) = (axis.name for axis in axes_of(result.manifest.inputs) if axis.kind == "features")
        widths = {case.sizes[dim] for case in result.manifest.cases}
        assert len(widths) >= 3
        assert any(w % 2 for w in widths)


@pytest.mark.parametrize("max_len", one_of_each([3, 4, 11, 12], lambda _: ""))
def test_a_table_of_few_rows(tmp_path: Path, max_len: int) -> None:
    result = run("sinusoidal", Spec(max_len=max_len), {"d_model": 6}, tmp_path)
    assert not result.failed, result.verdicts


def test_what_a_scheme_calls_unsupported_is_refused(tmp_path: Path) -> None:
    for scheme in SCHEMES.values():
        for mode in scheme.unsupported.modes:
            with pytest.raises(Exception, match=scheme.name):
                run(scheme.name, Spec(mode, "exact", None, MAX_LEN), {}, tmp_path)  # type: ignore[arg-type]


def test_external_data_past_the_size_of_a_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.formats.onnx.EXTERNAL_DATA_ABOVE", 1000)
    result = run("sinusoidal", Spec(max_len=64), {"d_model": 16}, tmp_path, formats=("onnx",))
    assert not result.failed, result.verdicts
    files = [(a.format, a.file) for a in result.manifest.artifacts]
    assert files == [("onnx", "model.onnx"), ("onnx.data", "model.onnx.data")]
    assert (result.folder / "model.onnx").stat().st_size < 10_000
    moved = result.folder.rename(tmp_path / "a folder with spaces")
    assert all(v.status != "fail" for v in validate_bundle(Bundle.open(moved, trusted=True), ValidateOptions()))


@pytest.mark.parametrize("name", list(RUNTIMES))
def test_a_runtime_runs_here_or_says_why_not(name: str) -> None:
    need(name)


def test_every_format_has_a_runtime() -> None:
    assert {r.format for r in RUNTIMES.values()} == set(FORMATS)
