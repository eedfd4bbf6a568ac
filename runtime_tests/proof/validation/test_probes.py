"""What plans try beside lengths and positions: numbers and masks that read every row, holes, unlike lengths."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from posenc.encoding import Encoding
from posenc.ports import Integers
from posenc.scheme import SCHEMES, build
from posenc.spec import Spec, UnsupportedSpec
from posenc_export.bundle.case import Case
from posenc_export.bundle.consistency import misfits
from posenc_export.proof.planning.plan import plan
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.runtimes import check_feeds
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import trace_sizes


def cases_of(encoding: Encoding, max_len: int) -> tuple[Case, ...]:
    return plan(Scope(encoding, trace_sizes(encoding.inputs, set(), max_len), max_len)).cases


@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_some_steps_read_every_row_of_a_timestep(mode: str) -> None:
    encoding = build("timestep", Spec(mode, max_len=1001), dim=8)  # type: ignore[arg-type]
    waves: Any = encoding.module.waves
    probes = [case.probe_values for case in cases_of(encoding, 1001) if case.probe_values]
    units = np.array(probes).ravel() * waves.units
    assert (units == units.round()).all()
    assert set((units % waves.radix).astype(int)) == set(range(len(waves.low_sin)))
    assert set((units // waves.radix).astype(int)) == set(range(max(1, len(waves.high_sin))))


@pytest.mark.exhaustive
def test_more_steps_than_calls_may_have_are_tried_in_even_ones() -> None:
    encoding = build("timestep", Spec("baked", max_len=1001), dim=256, scale=1000.0)
    probes = [case.probe_values for case in cases_of(encoding, 1001) if case.probe_values]
    assert 1 < len(probes) <= 8
    assert max(map(max, probes)) > 900


def read(counts: Integers, axis: int, most: int) -> set[int]:
    """The rows that counts along an axis read."""
    whole = np.maximum(np.take(counts, [-1], axis), 1)
    return set(((whole - 1) * (most + 1) + counts).ravel().tolist())


def test_masks_read_every_fraction_that_a_mask_can() -> None:
    encoding = build("sine_2d", Spec("baked", positions="mask", max_len=64), dim=8)
    rows: set[int] = set()
    for case in cases_of(encoding, 64):
        if case.probe_masks:
            (mask,) = feeds_for(encoding.inputs, case, 0).values()
            rows |= read(mask.cumsum(1), 1, 64) | read(mask.cumsum(2), 2, 64)
    fewer = {(whole - 1) * 65 + count for whole in range(1, 65) for count in range(whole + 1)}
    assert rows >= fewer - {63 * 65}  # of 64 places that all count there is none before the first


def test_a_mask_has_holes_and_a_sequence_never_none() -> None:
    encoding = build("rope", Spec("dynamic", positions="mask", max_len=64), head_dim=8)
    holes = [case for case in cases_of(encoding, 64) if case.padding == "holes"]
    masks = [feeds_for(encoding.inputs, case, 0)["attention_mask"] for case in holes]
    assert any((np.diff(mask, axis=-1) == 1).any() and (np.diff(mask, axis=-1) == -1).any() for mask in masks)
    assert all((mask.sum(-1) > 0).all() for mask in masks)


def test_keys_that_come_before_the_first_query_are_tried_where_rows_change() -> None:
    encoding = build("clipped_relative", Spec("baked", positions="implicit", max_len=64), head_dim=8, left=20, right=3)
    tried = {case.sizes["seq_k"] - case.sizes["seq"] for case in cases_of(encoding, 64) if not case.refused}
    assert tried >= {19, 20, 21, 22}


def test_keys_that_no_call_can_have_are_not_planned() -> None:
    encoding = build("clipped_relative", Spec("baked", positions="implicit", max_len=21), head_dim=8, left=20, right=3)
    assert max(case.sizes["seq_k"] for case in cases_of(encoding, 21) if not case.refused) == 21


def shared(encoding: Encoding) -> set[tuple[str, str]]:
    """Each input and axis of a length that another input has, too."""
    named = [(port.name, axis.name) for port in encoding.inputs for axis in port.dynamic.values() if axis.is_length]
    return {(port, axis) for port, axis in named if sum(axis == other for _, other in named) > 1}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_input_is_tried_as_one_token_behind_several_and_the_other_way_round(scheme: str) -> None:
    for positions in ("implicit", "offset", "explicit", "mask"):
        mode = "baked" if "dynamic" in SCHEMES[scheme].unsupported.modes else "dynamic"
        try:
            spec = Spec(mode, positions=positions, max_len=64)  # type: ignore[arg-type]
            encoding = build(scheme, spec, **SCHEMES[scheme].samples[0])
        except UnsupportedSpec:
            continue
        unlike = [case for case in cases_of(encoding, 64) if case.unlike]
        tried = {(port, axis, n > case.sizes[axis]) for case in unlike for port, (axis, n) in flat(case)}
        assert tried == {(*one, longer) for one in shared(encoding) for longer in (True, False)}
        for case in unlike:
            assert case.refused
            assert "expected one size" in check_feeds(feeds_for(encoding.inputs, case, 0), encoding.inputs)
            with pytest.raises((ValueError, RuntimeError)):
                encoding.module(*(torch.from_numpy(array) for array in feeds_for(encoding.inputs, case, 0).values()))


def flat(case: Case) -> list[tuple[str, tuple[str, int]]]:
    return [(port, one) for port, sizes in case.unlike.items() for one in sizes.items()]


def test_a_manifest_says_which_sizes_are_unlike_and_of_which_port() -> None:
    encoding = build("rope", Spec(max_len=64), head_dim=8)
    case = next(case for case in cases_of(encoding, 64) if case.unlike)
    assert case.to_json()["unlike"] == case.unlike
    assert "unlike" not in replace(case, unlike={}).to_json()
    whole = next(one for one in cases_of(encoding, 64) if not one.refused)
    for wrong in (replace(case, unlike={"q": {"nothing": 1}}), replace(case, unlike={"x": {"seq": 1}})):
        assert "must name axes of that input" in " ".join(misfits(encoding.inputs, encoding.outputs, (whole, wrong)))
    wrong = replace(case, refused=False)
    assert "must be empty where a case is not refused" in " ".join(
        misfits(encoding.inputs, encoding.outputs, (whole, wrong))
    )
