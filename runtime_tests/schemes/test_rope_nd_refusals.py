"""What the rotation by the axes of a grid refuses: parameters, sizes, positions and forms, each in one line."""

from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
import posenc_export
from helpers.grids import BAKED, DYNAMIC
from posenc.encoding import NoTables
from posenc.spec import Spec, UnsupportedSpec
from posenc_export.common.errors import BadInput

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"axes_dim": (8, 7)}, "axes_dim must be even numbers of at least 2, a pair for each frequency, got 8,7"),
    ({"axes_dim": (16, 16, 8)}, r"axes_dim sum to 40 features, more than the 32 of a head \(head_dim\)"),
    ({"axes_dim": (2,) * 5}, "axes_dim must be the features of one to 4 axes, got 5: 2,2,2,2,2"),
    (
        {"axes_dim": (8, 8), "rope_theta": (10.0,) * 3},
        "rope_theta must be one number, or one for each of 2 axes, got 3",
    ),
    ({"rope_theta": (100.0, 1.0), "axes_dim": (8, 8)}, "rope_theta must be a finite number above 1, got 1.0"),
    (
        {"axes_dim": (8, 8), "rope_theta": (10.0, 20.0), "frequencies": "shared"},
        "rope_theta must be one number where frequencies=shared: axes share them",
    ),
    ({"axes_dim": (4, 8), "frequencies": "alternate"}, "axes_dim must be equal where frequencies=alternate"),
    ({"axes_dim": (8, 8), "axis_order": (0, 0)}, "axis_order must be 0,1 in some order, got 0,0"),
    ({"axes_dim": (8, 8), "first": (1.0, 2.0, 3.0)}, "first must be one number, or one for each of 2 axes, got 3"),
    ({"axes_dim": (8, 8), "first": (float("nan"),)}, "first must be finite numbers, got nan"),
    ({"axes_dim": (8, 8), "scale": (1.0, 0.0)}, "scale must be a finite number other than 0, got 0.0"),
    ({"axes_dim": (8, 8), "centered": (2,)}, "centered must be some of the axes 0,1, each once, got 2"),
    ({"axes_dim": (8, 8), "centered": (1, 1)}, "centered must be some of the axes 0,1, each once, got 1,1"),
    ({"axes_dim": (8, 8), "centered": (1,), "first": (0.0, 1.0)}, "first must be 0 on a centered axis"),
    ({"axes_dim": (4, 8), "layout": "axis_halves"}, "axes_dim must be equal where layout=axis_halves"),
    ({"axes_dim": (8, 8), "layout": "axis_halves", "order": "by_turns"}, "leave order=by_turns out"),
    ({"axes_dim": (8, 8), "layout": "axis_tiled", "order": "by_turns"}, "leave order=by_turns out"),
    (
        {"axes_dim": (8, 8), "layout": "axis_tiled", "frequencies": "shared"},
        "layout=axis_tiled takes frequencies=own or rising, those of each axis, got shared",
    ),
    (
        {"axes_dim": (8, 8), "layout": "axis_tiled", "output": "cos_sin"},
        "layout=axis_tiled has a column a feature: give width=full with output=cos_sin, got half",
    ),
]


@pytest.mark.parametrize(("params", "text"), REFUSED)
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as error:
        posenc.build("rope_nd", DYNAMIC, head_dim=32, **params)
    assert "\n" not in str(error.value)


def test_what_has_no_size_has_no_center() -> None:
    with pytest.raises(UnsupportedSpec, match="explicit positions have no size: give --positions implicit"):
        posenc.build("rope_nd", Spec("dynamic", positions="explicit"), centered=(1,))
    with pytest.raises(UnsupportedSpec, match="rope_nd has no offset form: a grid has no first position to shift"):
        posenc.build("rope_nd", Spec("dynamic", positions="offset"))


def test_grids_of_other_sizes_are_refused() -> None:
    module = posenc.build("rope_nd", BAKED, head_dim=16, axes_dim=(8, 8)).module
    x = torch.zeros(1, 1, 3, 4, 16)
    with pytest.raises(ValueError, match="an input has 5 tokens, another 4: expected as many"):
        module(torch.zeros(1, 1, 3, 5, 16), x)
    with pytest.raises(ValueError, match="length 91 is beyond the 90 positions"):
        module(*[torch.zeros(1, 1, 3, 91, 16)] * 2)
    explicit = posenc.build("rope_nd", Spec("dynamic", positions="explicit"), head_dim=16, axes_dim=(8, 8)).module
    tokens = x.flatten(2, 3)
    with pytest.raises(ValueError, match="an input has 12 tokens, another 11: expected as many"):
        explicit(tokens, tokens, torch.zeros(2, 1, 11, dtype=torch.int64))
    with pytest.raises(ValueError, match="positions have 2 axes, expected 3"):
        explicit(tokens, tokens, torch.zeros(1, 12, dtype=torch.int64))


def test_parts_of_heads_have_no_fused_operator_and_no_header(tmp_path: Path) -> None:
    params: dict[str, Any] = {"head_dim": 16, "axes_dim": (8, 8), "layout": "axis_halves"}
    with pytest.raises(NoTables, match="here each axis has a part of it"):
        posenc.build("rope_nd", BAKED, **params).tables()
    with pytest.raises(BadInput, match='rotary_op="onnx" rotates whole heads, and layout=axis_halves parts of them'):
        posenc_export.export("rope_nd", formats=["onnx"], to=tmp_path / "out", rotary_op="onnx", **params)


@pytest.mark.parametrize("axes_dim", [(16,), (8, 8)])
def test_pairs_that_turn_apart_have_no_fused_operator_and_no_header(axes_dim: tuple[int, ...], tmp_path: Path) -> None:
    params: dict[str, Any] = {"head_dim": 16, "axes_dim": axes_dim, "layout": "axis_tiled"}
    with pytest.raises(NoTables, match="the two features of a pair turn by angles of their own"):
        posenc.build("rope_nd", BAKED, **params).tables()
    with pytest.raises(BadInput, match='rotary_op="onnx" turns a pair by one angle: the two features of a pair turn'):
        posenc_export.export("rope_nd", formats=["onnx"], to=tmp_path / "out", rotary_op="onnx", **params)
