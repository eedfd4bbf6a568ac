"""What rotary schemes refuse: parameters, shapes, positions and specs, each in one line that says why."""

from typing import Any

import pytest
import torch

import posenc
from helpers.shared import EXPLICIT


@pytest.mark.parametrize(
    ("scheme", "params", "text"),
    [
        ("rope", {"head_dim": 63}, "head_dim must be an even number of at least 2, got 63"),
        ("rope", {"head_dim": 64, "rotary_dim": 7}, "rotary_dim must be an even number of at least 2, got 7"),
        ("rope", {"head_dim": 64, "rotary_dim": 66}, r"rotary_dim \(66\) must be at most head_dim \(64\)"),
        ("rope", {"rope_theta": 1.0}, "rope_theta must be a finite number above 1, got 1.0"),
        ("rope", {"rope_type": "linear"}, "rope_type=linear needs factor: give -p factor=VALUE"),
        ("rope", {"rope_type": "linear", "factor": 0.0}, "factor must be above 0, got 0.0"),
        ("rope", {"rope_type": "linear", "factor": -2.0}, "factor must be above 0, got -2.0"),
        ("rope", {"factor": 2.0}, "rope_type=default takes no factor: it takes nothing more"),
        ("rope", {"rope_type": "lin"}, "rope_type must be default or dynamic or .*, got 'lin'"),
        ("rope", {"head_dim": "64"}, "head_dim must be int, got '64'"),
        ("rope", {"rope_type": "linear", "factor": True}, "factor must be float, got True"),
        ("rope", {"output": "rows"}, "output must be rotate or cos_sin, got 'rows'"),
        ("mrope", {"head_dim": 16, "sections": (2, 3, 3), "section_layout": "interleaved"}, "at most a third"),
        ("mrope", {"sections": 8}, "sections must be a list of int, got 8"),
        ("xpos", {"center": 40000}, "center must be at most 34560, from where position 0 still fits fp32, got 40000"),
        ("xpos", {"gamma": 1e300}, "gamma is too large for anything to fade"),
        (
            "rope",
            {"head_dim": 2, "rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 9},
            "rope_type=dynamic needs at least 4 rotated features, got 2",
        ),
        (
            "rope",
            {"head_dim": 8, "rope_type": "longrope", "original_max_position_embeddings": 9, "factor": 2.0}
            | {"short_factor": (1.0,) * 4, "long_factor": (1.0,) * 3},
            "long_factor must have 4 numbers, one a pair of 8 features, got 3",
        ),
        (
            "rope",
            {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0}
            | {"original_max_position_embeddings": 9},
            r"high_freq_factor \(1.0\) must be at least low_freq_factor \(4.0\)",
        ),
        (
            "rope",
            {"rope_type": "proportional", "partial_rotary_factor": 1.5},
            "partial_rotary_factor must be at most 1, got 1.5",
        ),
        ("mrope", {"head_dim": 16, "sections": (2, 2, 2)}, "sum to the 8 pairs that are rotated, got 2,2,2"),
        ("mrope", {"head_dim": 16, "sections": (4, 4)}, "sections must be at least three"),
        (
            "mrope",
            {"head_dim": 16, "sections": (2, 4, 2), "section_layout": "interleaved"},
            "height and width at most a third, got 2,4,2",
        ),
        (
            "mrope",
            {"head_dim": 4, "sections": (2,), "section_layout": "features"},
            "two to four, one a position",
        ),
        (
            "mrope",
            {"head_dim": 16, "sections": (4, 4), "section_layout": "features", "output": "cos_sin"},
            "section_layout=features takes layout=halves, and for cos_sin width=full: a column a feature",
        ),
        (
            "mrope",
            {"head_dim": 16, "sections": (2, 2, 4), "section_layout": "time_last"},
            "time_last sections must be three, with as many of height as of width, got 2,2,4",
        ),
        (
            "mrope",
            {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 9},
            "rope_type=dynamic depends on a call's length",
        ),
        ("rope_2d", {"head_dim": 18}, "head_dim must be a multiple of 4"),
        ("xpos", {"gamma": 0.0}, "gamma must be a finite number above 0, got 0.0"),
        ("xpos", {"center": -1}, "center must be at least 0, or length, got -1"),
        ("xpos", {"scale_base": 4.0}, "max_len must be at most .*: from there on the scale of a key does not fit fp32"),
    ],
)
def test_what_is_refused(scheme: str, params: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        posenc.build(scheme, posenc.Spec("dynamic"), **params)


def test_positions_and_heads_of_the_wrong_shape() -> None:
    module = posenc.build("rope", EXPLICIT, head_dim=16).module
    x = torch.zeros(1, 1, 3, 16)
    with pytest.raises(ValueError, match="positions have 1 axes, expected 2"):
        module(x, x, torch.arange(3))
    with pytest.raises(ValueError, match="heads have 8 features, this encoding has 16"):
        module(x[..., :8], x, torch.arange(3)[None])
    with pytest.raises(IndexError, match=r"positions must be in 0\.\.16777215"):
        module(x, x, torch.tensor([[0, 1, 2**24]]))
    for positions in ("explicit", "offset", "implicit"):
        feeds = {"explicit": torch.zeros(1, 1, dtype=torch.int64), "offset": torch.zeros(1, dtype=torch.int64)}
        decode = posenc.build("rope", posenc.Spec("dynamic", positions=positions), head_dim=16).module
        for module in (decode, torch.jit.script(decode)):
            with pytest.raises(Exception, match="an input has 1 tokens, another 3: expected as many"):
                module(x[:, :, :1], x, *([feeds[positions]] if positions in feeds else []))
    module = posenc.build("rope", posenc.Spec(max_len=3, positions="implicit"), head_dim=16).module
    with pytest.raises(ValueError, match="length 4 is beyond the 3 positions"):
        module(torch.zeros(1, 1, 4, 16), torch.zeros(1, 1, 4, 16))


def test_what_has_no_form_says_so() -> None:
    with pytest.raises(ValueError, match="mrope has no implicit form: each token has several positions"):
        posenc.build("mrope", posenc.Spec("dynamic", positions="implicit"))
    with pytest.raises(ValueError, match="rope_2d has no offset form"):
        posenc.build("rope_2d", posenc.Spec("dynamic", positions="offset"))
    with pytest.raises(ValueError, match="output=cos_sin takes --positions offset, explicit or mask, or --baked"):
        posenc.build("rope", posenc.Spec("dynamic", positions="implicit"), output="cos_sin")
