"""The line of an inspection that can be typed: a scheme takes its parameters, or there is no line."""

from __future__ import annotations

import pytest

import posenc
from posenc import parameters
from posenc.formulas.fitting import Family, Form, Parameter
from posenc.scheme import SCHEMES
from posenc_export.read.schemes import scheme_of

HEAD: dict[str, Parameter] = {"head_dim": 16, "rotary_dim": 16, "layout": "halves", "rope_theta": 1e4}
YARN: dict[str, Parameter] = {"factor": 4.0, "original_max_position_embeddings": 64, "attention_factor": 1.1}
DISTANCES: dict[str, Parameter] = {"d_model": 16, "base": 1e4, "first_distance": 13, "last_distance": -12}
TYPED: list[tuple[Family, str, dict[str, Parameter]]] = [
    ("rotary", "default", {**HEAD, "rotary_dim": 8, "attention_factor": 1.0}),
    ("rotary", "default", {**HEAD, "direction": "backward"}),
    ("rotary", "linear", {**HEAD, "factor": 2.0}),
    ("rotary", "proportional", {**HEAD, "partial_rotary_factor": 0.5}),
    ("rotary", "yarn", {**HEAD, **YARN}),
    ("rotary", "mrope", {**HEAD, "sections": (4, 2, 2), "section_layout": "sectioned"}),
    ("rotary", "rope_2d", {"head_dim": 16, "layout": "halves", "rope_theta": 1e4}),
    ("rotary", "dinov3", {"head_dim": 16, "layout": "halves", "rope_theta": 100.0}),
    ("sinusoidal", "interleaved", {"d_model": 16, "base": 1e4, "layout": "interleaved", "spacing": "paper"}),
    ("learned", "table", {"rows": 64, "d_model": 16, "offset": 0}),
    ("alibi", "distance", {"heads": 4, "form": "distance", "bias_max": 8.0}),
    ("t5", "buckets", {"heads": 4, "num_buckets": 32, "max_distance": 128, "bidirectional": True}),
    ("grid", "sincos_2d", {"dim": 16, "temperature": 1e4, "order": "column_first", "layout": "halves"}),
]
"""Forms that a scheme has."""
UNTYPED: list[tuple[Family, str, dict[str, Parameter]]] = [
    ("grid", "interpolated", {"dim": 32, "rows": 16}),
    ("relative", "transformer_xl", DISTANCES),
    ("rotary", "rope_2d", {"head_dim": 16, "layout": "halves", "rope_theta": 1e4, "class_tokens": 1}),
    ("grid", "sincos_2d", {"dim": 16, "temperature": 1e4, "order": "column_first", "class_tokens": 1}),
    ("rotary", "default", {**HEAD, "attention_factor": 1.2}),
    ("rotary", "default", {**HEAD, "layout": "pairs (0, 2) (1, 3)"}),
    ("alibi", "slopes of no rule", {"heads": 2, "form": "distance", "slopes": (0.5, 0.1)}),
    ("not recognised", "Gather at node", {}),
]
"""Forms that share their name with a scheme, or a family, and have what no scheme takes."""


@pytest.mark.parametrize(("family", "name", "read"), TYPED)
def test_a_line_is_a_scheme_that_takes_its_parameters(family: Family, name: str, read: dict[str, Parameter]) -> None:
    scheme, *words = scheme_of(Form(family, name, read)).split(" -p ")
    taken = parameters.parse(words, SCHEMES[scheme].parameters, scheme)
    posenc.build(scheme, posenc.Spec(max_len=64), **taken)


@pytest.mark.parametrize(("family", "name", "read"), UNTYPED)
def test_what_no_scheme_has_is_no_line(family: Family, name: str, read: dict[str, Parameter]) -> None:
    assert scheme_of(Form(family, name, read)) == ""


def test_what_a_formula_explained_is_its_own_line() -> None:
    assert scheme_of(Form("grid", "sincos_3d", {"dim": 16}, scheme="sincos_3d -p dim=16")) == "sincos_3d -p dim=16"
