"""Positions from an attention mask: those of RoBERTa, OPT and left-padded generation, proved with every padding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

import posenc
from helpers.combinations import run
from helpers.shared import one_of_each
from posenc.call import counted as counted_in_numpy
from posenc.lookup import counted
from posenc.spec import Spec, UnsupportedSpec
from posenc_export.write.targets.feeds import feeds_for

MASKS = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
"""No padding, left, right, one token, none."""


def test_two_is_that_of_roberta() -> None:
    padding, token = 1, 7
    ids = torch.where(MASKS == 1, token, padding)
    expected = RobertaEmbeddings.create_position_ids_from_input_ids(ids, padding)
    assert torch.equal(counted(MASKS, 2), expected)


def test_two_is_that_of_opt() -> None:
    table = OPTLearnedPositionalEmbedding(20, 4)
    assert torch.equal(table.weight[counted(MASKS, 2)], table(MASKS))


def test_zero_counts_tokens_from_the_first_and_leaves_padding_at_zero() -> None:
    expected = [[0, 1, 2, 3, 4], [0, 0, 0, 1, 2], [0, 1, 2, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    assert counted(MASKS, 0).tolist() == expected


@pytest.mark.parametrize("offset", [0, 1, 2, 5])
def test_the_reference_counts_alike(offset: int) -> None:
    np.testing.assert_array_equal(counted_in_numpy(MASKS.numpy(), offset), counted(MASKS, offset).numpy())


MASKED: list[Any] = [
    ("learned", {"d_model": 8}, "baked"),
    ("sinusoidal", {"d_model": 8}, "dynamic"),
    ("sinusoidal", {"d_model": 8, "output": "rows"}, "baked"),
    ("rope", {"head_dim": 16}, "dynamic"),
    ("rope", {"head_dim": 16, "tensor_layout": "bshd"}, "baked"),
    ("xpos", {"head_dim": 16}, "dynamic"),
]


@pytest.mark.parametrize("offset", one_of_each([2, 0], lambda _: ""))
@pytest.mark.parametrize(("scheme", "params", "mode"), one_of_each(MASKED, lambda _: ""))
def test_every_padding_agrees_everywhere(
    tmp_path: Path, scheme: str, params: dict[str, Any], mode: Any, offset: int
) -> None:
    spec = Spec(mode, "exact", "mask", 40, position_offset=offset)
    result = run(scheme, spec, params, tmp_path)
    assert result.passed, [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"]
    cases = [case for case in result.manifest.cases if not case.refused]
    assert {case.padding for case in cases} == {"left", "right", "none", "holes"}
    masks = [feeds_for(result.manifest.inputs, case, 0)["attention_mask"] for case in cases]
    assert any(0 in mask[:, 0] for mask in masks)
    assert any(0 in mask[:, -1] for mask in masks)
    if mode == "baked":
        assert any(case.refused for case in result.manifest.cases)
        assert max(case.max_position for case in cases) == 39


def test_a_mask_counts_one_position_a_token() -> None:
    for scheme in ("mrope", "rope_2d"):
        with pytest.raises(UnsupportedSpec, match=f"{scheme} has no mask form"):
            posenc.build(scheme, Spec("dynamic", positions="mask"))


def test_an_offset_goes_with_a_mask() -> None:
    with pytest.raises(ValueError, match="position_offset must be at least 0, and goes with positions mask, got 2"):
        Spec(positions="explicit", position_offset=2)
