"""Scheme x parameters x mode x method x positions x dtype x format x runtime x length, from the registries."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

import posenc
from helpers.combinations import MAX_LEN, POSITIONS, Parameters, combinations, form_of, form_of_variants, run, smallest
from helpers.shared import Running, need, one_of_each
from posenc.ports import axes_of
from posenc.scheme import SCHEMES
from posenc.spec import Mode, Spec
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.exporter import ExportOptions
from posenc_export.proof.judging.verdict import ValidateOptions, worst
from posenc_export.proof.running.run import validate_bundle
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.formats import DEFAULT_OPSET, FORMATS, OPSETS


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
    # captures are repeated, to be held against each other, for one of each form and way alone: it doubles an export
    is_usual = spec.positions == SCHEMES[scheme].positions or form_of(spec) == form_of_variants(scheme)
    is_repeated = params == smallest(scheme) and is_usual
    result = run(scheme, spec, params, tmp_path, validate=is_repeated)
    if is_repeated:
        assert {v.check for v in result.verdicts} >= {"purity", "determinism"}
    else:
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
            assert allowed.bits == (mode not in scheme.sums)


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
    monkeypatch.setattr("posenc_export.write.formats.onnx.EXTERNAL_DATA_ABOVE", 1000)
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
