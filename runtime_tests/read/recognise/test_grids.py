"""Features of places are named by their halves: sines of rows and columns, or learned ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posenc_export.read.recognise.added.tables import form_of_grid
from posenc_export.read.recognise.lookups import form_of_rows
from posenc_export.read.recognise.rotary.image import angles_form


@pytest.mark.parametrize("sides", [(7, 9), (13, 13), (4, 25)])
def test_sines_of_detr_are_named(sides: tuple[int, int]) -> None:
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    module = DetrSinePositionEmbedding(32, normalize=True)
    mask = torch.ones(1, *sides, dtype=torch.bool)
    pos = module(torch.Size([1, 3, *sides]), mask.device, torch.float32, mask).numpy()
    # (1, 64, height, width) or (1, places, 64) -> (height, width, 64)
    grid = np.moveaxis(pos[0], 0, -1) if pos.ndim == 4 else pos[0].reshape(*sides, -1)
    form = form_of_rows(grid)
    assert form is not None
    assert (form.family, form.name, form.parameters["order"]) == ("grid", "sine_2d", "row_first")
    assert form.parameters["temperature"] == 1e4
    assert (form.parameters["normalize"], form.parameters["scale"]) == (True, 2 * np.pi)
    assert form.parameters["row_step"] == pytest.approx(2 * np.pi / sides[0], rel=1e-4)


def test_places_that_are_counted_are_not_normalized() -> None:
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    mask = torch.ones(1, 7, 7, dtype=torch.bool)
    pos = DetrSinePositionEmbedding(32)(torch.Size([1, 3, 7, 7]), mask.device, torch.float32, mask).numpy()
    form = form_of_rows(np.moveaxis(pos[0], 0, -1) if pos.ndim == 4 else pos[0].reshape(7, 7, -1))
    assert form is None or "normalize" not in form.parameters


@pytest.mark.parametrize("class_token", [False, True])
def test_sines_of_mae_are_named(class_token: bool) -> None:
    from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding

    rows = build_2d_sinusoidal_position_embedding(6, 7, 32, cls_token=class_token)
    form = form_of_grid(rows.numpy())
    assert form is not None
    assert (form.family, form.name, form.parameters["grid"]) == ("grid", "sincos_2d", (6, 7))
    assert form.parameters["order"] == "row_first"
    assert form.parameters.get("class_tokens", 0) == int(class_token)


@pytest.mark.parametrize("sides", [(4, 4), (5, 7), (14, 14)])
@pytest.mark.parametrize("base", [100.0, 1000.0])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_angles_of_dinov3_are_named(sides: tuple[int, int], base: float, layout: str) -> None:
    # (height, width, 2), from -1 to 1, then 2 pi times a frequency for each pair of an axis
    centers = np.stack(np.meshgrid(*(2 * (np.arange(n) + 0.5) / n - 1 for n in sides), indexing="ij"), -1)
    angles = 2 * np.pi * centers.reshape(-1, 2, 1) * base ** -np.linspace(0, 1, 8, endpoint=False)
    angles = angles.reshape(len(angles), -1)
    wide = np.tile(angles, 2) if layout == "halves" else np.repeat(angles, 2, 1)
    form = angles_form(np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32))
    assert form is not None
    assert dict(form.parameters) == {"head_dim": 32, "rope_theta": base, "layout": layout}
    line = np.arange(len(wide))[:, None] * np.tile(base ** -np.linspace(0, 1, 16, endpoint=False), 2)
    assert angles_form(np.cos(line), np.sin(line)) is None


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_angles_of_rows_and_columns_that_are_counted_are_named(layout: str, tokens: int) -> None:
    """EVA-02 turns patches alone, MLCD the token of its class too, by angles that are learned."""
    places = np.stack(np.meshgrid(np.arange(4), np.arange(6), indexing="ij"), -1).reshape(-1, 2, 1)
    angles = (places * 1e4 ** -np.linspace(0, 1, 8, endpoint=False)).reshape(24, 16)
    angles = np.concatenate([np.random.default_rng(0).normal(size=(tokens, 16)), angles])
    wide = np.tile(angles, 2) if layout == "halves" else np.repeat(angles, 2, 1)
    form = angles_form(np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32))
    assert form is not None
    named = {"head_dim": 32, "layout": layout, "rope_theta": 1e4} | ({"class_tokens": 1} if tokens else {})
    assert (form.name, dict(form.parameters)) == ("rope_2d", named)
    assert angles_form(np.sin(wide).astype(np.float32), np.cos(wide).astype(np.float32)) is None


def test_numbers_that_are_not_finite_are_not_named() -> None:
    assert form_of_rows(np.full((4, 4, 16), np.inf)) is None
    assert form_of_grid(np.full((16, 16), np.nan)) is None


@pytest.mark.parametrize("spacing", ["paper", "half"])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_sines_of_rows_and_columns_have_the_parameters_of_their_scheme(layout: str, spacing: str) -> None:
    """Demucs has interleaved sines of places counted from 0; those of DETR are counted from 1, and named otherwise."""
    exponents = np.arange(8) / (8 if spacing == "paper" else 7)
    waves = [
        np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(angle), 16)
        if layout == "interleaved"
        else np.concatenate([np.sin(angle), np.cos(angle)], 1)
        for angle in (np.arange(side)[:, None] * 1e4**-exponents for side in (5, 6))
    ]
    rows, columns = np.broadcast_to(waves[0][:, None], (5, 6, 16)), np.broadcast_to(waves[1][None], (5, 6, 16))
    form = form_of_rows(np.concatenate([columns, rows], -1).astype(np.float32))
    assert form is not None
    named = {"dim": 32, "base": 1e4, "order": "column_first", "layout": layout, "spacing": spacing}
    assert (form.name, dict(form.parameters)) == ("sincos_2d", named)


def test_learned_rows_and_columns_are_named() -> None:
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(5, 16)), rng.normal(size=(8, 16))
    grid = np.concatenate([np.tile(columns, (5, 1, 1)), np.repeat(rows[:, None], 8, 1)], -1)
    form = form_of_rows(grid)
    assert form is not None
    assert (form.name, form.parameters["order"]) == ("learned rows and columns", "column_first")


def test_other_features_are_not_named() -> None:
    rng = np.random.default_rng(1)
    ramp = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 7), indexing="ij"), -1)
    for grid in (rng.normal(size=(6, 7, 16)), np.zeros((6, 7, 16)), np.ones((6, 7, 16)), ramp, np.repeat(ramp, 2, -1)):
        assert form_of_rows(grid) is None
    assert form_of_grid(rng.normal(size=(36, 16))) is None


@pytest.mark.parametrize(("start", "name"), [(0, "rope_2d"), (1, None)], ids=["one series for both", "by turns"])
def test_axes_with_frequencies_by_turns_are_left_to_what_finds_all_their_nodes(start: int, name: str | None) -> None:
    """Pixtral's rows have every second frequency, its columns the others: two products are not all of it."""
    series = 1e4 ** (-np.arange(16) / 16)
    down, across = series[0::2], series[start::2]
    row, column = np.divmod(np.arange(20), 5)
    angle = np.concatenate([row[:, None] * down, column[:, None] * across], 1).astype(np.float32)
    angles = np.concatenate([angle, angle], 1)
    form = angles_form(np.cos(angles), np.sin(angles))
    assert (None if form is None else form.name) == name
