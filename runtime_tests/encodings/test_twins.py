"""Biases and grids: their calls go through all that lengths can be, and no wrong twin of one passes."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
from helpers.bias_twins import EDGE, counted_from_zero, with_an_edge_moved
from helpers.grid_twins import swapped, with_a_wrong_last_row
from helpers.shared import Cli, Running, one_of_each
from posenc.parameters import Value
from posenc.ports import axes_of
from posenc.scheme import SCHEMES
from posenc.spec import Mode, Spec, UnsupportedSpec
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter import ExportOptions, ExportResult, export_target
from posenc_export.proof.planning.plan import Plan, plan
from posenc_export.proof.planning.scope import BUDGET, Scope
from posenc_export.write.formats import FORMATS
from posenc_export.write.targets import Target
from posenc_export.write.targets.scheme import scheme_target
from posenc_export.write.targets.sizes import elements, trace_sizes

RECORDS = {name: SCHEMES[name] for name in ("alibi", "t5_bias", "sincos_2d")}
MAX_LEN, LONG = 70, 2**17
MODES: tuple[Mode, ...] = ("baked", "dynamic")
Parameters = Mapping[str, Value]


# ---- right -----------------------------------------------------------------------------------------------------------


def exported(name: str, spec: Spec, params: Parameters, folder: Path, **options: Any) -> ExportResult:
    return export_target(lambda: scheme_target(name, spec, params, 0), ExportOptions(**options), folder / "bundle")


def calls(result: ExportResult) -> set[tuple[int, int]]:
    """The two lengths of every call that must be answered."""
    names = [axis.name for axis in axes_of(result.manifest.inputs) if axis.is_length]
    return {(c.sizes[names[0]], c.sizes[names[1]]) for c in result.manifest.cases if not c.refused}


def failures(result: ExportResult) -> list[str]:
    return [f"{v.subject} {v.check}: {v.detail}" for v in result.verdicts if v.status == "fail"]


def passing(result: ExportResult, check: str) -> set[str]:
    """The runtimes on which a check passes."""
    return {v.subject for v in result.verdicts if v.check == check and v.status == "pass"}


@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
def test_queries_and_keys_meet_in_every_way_that_makes_sense(tmp_path: Path, name: str) -> None:
    result = exported(name, Spec(max_len=MAX_LEN), RECORDS[name].samples[0], tmp_path, validate=False)
    traced = {axis: size for axis, size in result.manifest.trace.items() if size in (11, 12)}
    assert list(traced.values()) == [11, 12]
    assert calls(result) >= {(n, n) for n in (1, 2, 10, 11, 12, 25, MAX_LEN)}
    assert calls(result) >= {(1, n) for n in (11, 25, MAX_LEN)}
    assert calls(result) >= {(m, n + m) for m in (2, 13) for n in (11, 25)}
    assert all(seq <= seq_k for seq, seq_k in calls(result))


def test_grids_are_long_both_ways(tmp_path: Path) -> None:
    result = exported("sincos_2d", Spec(max_len=MAX_LEN), {"dim": 8}, tmp_path, validate=False)
    sizes = {10, 11, 12, 25, MAX_LEN}
    assert {height for height, width in calls(result) if height > width} >= sizes
    assert {width for height, width in calls(result) if width > height} >= sizes
    assert {1, 2} <= {height for height, _ in calls(result)} & {width for _, width in calls(result)}


# ---- wrong -----------------------------------------------------------------------------------------------------------


Change = Callable[[Any], torch.nn.Module]
TWINS: dict[str, tuple[Change, Callable[[int, int], bool]]] = {
    "alibi": (counted_from_zero, lambda seq, seq_k: seq == seq_k),
    "t5_bias": (with_an_edge_moved, lambda seq, seq_k: seq_k <= EDGE),
    "sincos_2d": (swapped, lambda height, width: height == width),
}
"""What makes a right module wrong, and the calls in which it is right nevertheless."""


def wrong(name: str, spec: Spec, params: Parameters, change: Change) -> Target:
    """A target with the right ports and the right reference, and a wrong module."""
    target = scheme_target(name, spec, params, 0)
    return replace(target, encoding=replace(target.encoding, module=change(target.encoding.module)))


@pytest.mark.parametrize("mode", one_of_each(MODES, lambda _: ""))
@pytest.mark.parametrize("name", one_of_each(TWINS, lambda _: ""))
def test_a_wrong_twin_is_refused(tmp_path: Path, name: str, mode: Mode, running: Running) -> None:
    (change, is_right), params = TWINS[name], SCHEMES[name].samples[0]
    spec = Spec(mode, max_len=MAX_LEN)
    result = export_target(lambda: wrong(name, spec, params, change), ExportOptions(), tmp_path / "bundle")
    assert result.failed
    of_runtimes = [v for v in result.verdicts if v.check == "agrees" and v.status == "fail"]
    assert {v.subject for v in of_runtimes} == running(ExportOptions().formats)
    axes = [axis.name for axis in axes_of(result.manifest.inputs) if axis.is_length]
    cases = {case.name: (case.sizes[axes[0]], case.sizes[axes[1]]) for case in result.manifest.cases}
    for verdict in of_runtimes:
        assert " against reference in " in verdict.detail
        assert "off by" in verdict.detail
        assert {c.against for c in verdict.comparisons if not c.passed} == {"reference"}
        fails = {cases[c.case] for c in verdict.comparisons if not c.passed}
        assert not any(is_right(*lengths) for lengths in fails)
        assert any(is_right(*lengths) for lengths in set(cases.values()) - fails)


def test_a_table_of_columns_is_read_to_its_last_row(tmp_path: Path) -> None:
    spec, options = Spec(max_len=MAX_LEN), ExportOptions(formats=("onnx",))
    twin = partial(wrong, "sincos_2d", spec, {"dim": 8}, with_a_wrong_last_row)
    result = export_target(twin, options, tmp_path / "bundle")
    assert any(f"width{MAX_LEN}" in line and "against reference" in line for line in failures(result))


# ---- large -----------------------------------------------------------------------------------------------------------


def planned(name: str, mode: Mode, budget: int = BUDGET, **params: Any) -> tuple[Scope, Plan]:
    encoding = posenc.build(name, Spec(mode, max_len=LONG), **params)
    scope = Scope(encoding, trace_sizes(encoding.inputs, set(), LONG), LONG, budget)
    return scope, plan(scope)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
def test_the_plan_of_a_long_bias_stays_within_the_budget(name: str, mode: Mode) -> None:
    scope, made = planned(name, mode, heads=8)
    first, second = (axis.name for axis in scope.lengths)
    assert all(elements(scope.ports, case.sizes) <= BUDGET for case in made.cases)
    lengths = {(case.sizes[first], case.sizes[second]) for case in made.cases}
    assert (1, LONG) in lengths
    assert all(seq <= seq_k for seq, seq_k in lengths), "a way to meet that makes no sense"
    assert ((2, LONG + 1) in lengths) == (mode == "baked")
    scope, made = planned(name, mode, budget=2**15, heads=8)
    assert all(elements(scope.ports, case.sizes) <= 2**15 for case in made.cases)
    assert any(line.startswith(f"a call with seq 1 and seq_k {LONG:,} and arrays of ") for line in made.not_tried)


@pytest.mark.parametrize("name", one_of_each(["alibi", "t5_bias"], lambda _: ""))
def test_a_long_bias_passes_within_a_small_budget(tmp_path: Path, name: str) -> None:
    params = RECORDS[name].samples[0]
    result = exported(name, Spec(max_len=MAX_LEN), params, tmp_path, budget=2**14, formats=("onnx",))
    assert failures(result) == []
    assert all(seq <= seq_k for seq, seq_k in calls(result))


# ---- beside ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_the_record_has_samples(cli: Cli, name: str) -> None:
    (record,) = json.loads(cli("schemes", name, "--json").output)
    assert record["samples"] == [dict(sample) for sample in RECORDS[name].samples]
    assert all(parameter["help"] for parameter in record["parameters"])
    for positions in {"offset", "explicit", "mask"} & record["unsupported"].keys():
        reason = record["unsupported"][positions]
        with pytest.raises(UnsupportedSpec, match=re.escape(f"{name} has no {positions} form: {reason}")):
            posenc.build(name, Spec(positions=positions))


@pytest.mark.parametrize("name", RECORDS)
def test_a_header_has_no_functions_for_it(tmp_path: Path, name: str) -> None:
    spec = Spec(max_len=MAX_LEN)
    family = posenc.build(name, spec, **RECORDS[name].samples[0]).family
    assert family not in {posenc.build(other, spec).family for other in ("sinusoidal", "rope")}
    reason = f"it has functions for additive, rotary, cos_sin; encodings of the family {family} are none of them"
    assert FORMATS["header"].refuses(posenc.build(name, spec)) == reason
    with pytest.raises(BadInput, match=f"{name} cannot be exported to header: {reason}"):
        exported(name, spec, {}, tmp_path, formats=("header",))
