"""Rotary tables of every rope type are named, with the parameters that made them."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_rotary import Made, made_at
from posenc.formulas.fitting import Form
from posenc.formulas.rope_types.dynamic import dynamic_form
from posenc_export.read.recognise.rotary.rows import CosSinRows, rotary_form, rotary_table, row_errors

SEEDS = range(3)
MORE_SEEDS = range(3, 30)
TYPES = ("default", "linear", "llama3", "yarn", "proportional")


def form_of(rows: CosSinRows) -> Form:
    form = rotary_form(rows, np.arange(len(rows)))
    assert form is not None
    return form


def recovered(made: Made, form: Form) -> None:
    """Check that a form has the parameters of what was made, and its numbers."""
    assert form.name == made.name, form
    expected = {"rope_theta": made.theta, "attention_factor": made.frequencies.attention_factor, **made.settings}
    if made.settings.get("beta_fast") == 32.0:
        del expected["beta_fast"]  # what yarn has by default is not said
    if made.settings.get("truncate"):
        del expected["truncate"]
    for name, value in expected.items():
        if name == "beta_fast" and name not in form.parameters:
            continue  # another context has the same ramp with usual betas: the numbers are compared below
        told = any(f" {name}={value:g}" in words for words in form.also)
        assert told or form.parameters[name] == pytest.approx(value, rel=1e-6), (form, made)
    assert form.exact is not None
    table = replace(made).rows(64, "float32")
    assert row_errors(table, form, np.arange(64)).max() < 2e-5


def is_named(made: Made, form: Form, dtype: str) -> None:
    """Check that a form, or what it says may also be, has the type and the base of what was made."""
    words = [f"{form.name} rope_theta={form.parameters.get('rope_theta'):g}", *form.also]
    bases = [float(text.split()[1].split("=")[1]) for text in words if text.startswith(made.name)]
    # a hundredth of a base cannot be seen in bfloat16
    assert any(base == pytest.approx(made.theta, rel=0.015 if dtype == "bfloat16" else 0) for base in bases), form


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TYPES)
def test_float32_tables_give_their_parameters(name: str, seed: int) -> None:
    made = made_at(name, seed)
    recovered(made, form_of(made.rows(500, "float32")))
    recovered(made, form_of(made.rows(37, "float32")))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", MORE_SEEDS)
@pytest.mark.parametrize("name", TYPES)
def test_float32_tables_give_their_parameters_too(name: str, seed: int) -> None:
    made = made_at(name, seed)
    recovered(made, form_of(made.rows(4096, "float32")))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_tables_are_named(name: str, seed: int, dtype: str) -> None:
    made = made_at(name, seed)
    is_named(made, form_of(made.rows(2000, dtype)), dtype)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", MORE_SEEDS)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_tables_are_named_too(name: str, seed: int, dtype: str) -> None:
    made = made_at(name, seed)
    is_named(made, form_of(made.rows(500, dtype)), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("stored", ["float32", "half"])
def test_angles_in_half_precision_are_named_with_an_error(dtype: str, stored: str) -> None:
    made = Made("default", 64, 1e4, {})
    rows = made.rows(1000, stored.replace("half", dtype), angles=dtype)
    form = form_of(rows)
    assert (form.name, form.parameters["rope_theta"]) == ("default", 1e4)
    assert row_errors(rows, form, np.arange(1000)).max() > 0.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("count", [13, 47])
def test_frequencies_that_half_precision_rounded_are_not_taken_for_a_scaling(dtype: str, count: int) -> None:
    for theta in (1e4, 5e5, 1e6):
        form = form_of(Made("default", 16, theta, {}).rows(count, dtype, angles=dtype))
        assert form.name == "default"
        assert form.parameters["rope_theta"] == pytest.approx(theta, rel=0.015)


@pytest.mark.parametrize("seed", SEEDS)
def test_divisors_of_longrope_are_recovered(seed: int) -> None:
    made = made_at("longrope", seed)
    form = form_of(made.rows(100, "float32"))
    assert (form.name, form.parameters["rope_theta"]) == ("longrope", 1e4)
    # a call of no position is a short one
    assert form.parameters["divisors"] == made.settings["short_factor"]
    assert form.parameters["attention_factor"] == pytest.approx(made.frequencies.attention_factor, rel=1e-6)


def test_a_step_is_named_with_a_context_that_fits() -> None:
    settings = {"factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0}
    made = Made("llama3", 128, 5e5, {**settings, "original_max_position_embeddings": 7000})
    form = form_of(made.rows(100, "float32"))
    assert (form.name, form.parameters["factor"]) == ("llama3", 16.0)
    assert form.exact is not None
    assert row_errors(made.rows(100, "float32"), form, np.arange(100)).max() < 2e-5


@pytest.mark.parametrize(("factor", "context"), [(2.0, 64), (4.0, 512)])
def test_bases_that_grow_with_the_call_are_dynamic(factor: float, context: int) -> None:
    forms = {}
    for length in (context // 2, context + 37, 2 * context + 5, 3 * context):
        stretch = max(factor * length / context - (factor - 1), 1)
        base = 1e4 * stretch ** (64 / 62)
        forms[length] = form_of(Made("default", 64, base, {}).rows(length, "float32"))
    form = dynamic_form(forms)
    assert form is not None
    assert (form.name, form.parameters["rope_theta"], form.parameters["factor"]) == ("dynamic", 1e4, factor)
    assert form.parameters["max_position_embeddings"] == context
    assert dynamic_form(dict.fromkeys(forms, forms[context // 2])) is None


@pytest.mark.parametrize("start", [0, 4096])
def test_two_tables_end_to_end_are_longrope(start: int) -> None:
    made, seam = made_at("longrope", 1), 4096
    positions = np.arange(start, start + 2000)
    settings = made.settings
    base = made.theta ** (-np.arange(made.dim // 2) * 2 / made.dim)
    sides = [base / np.asarray(settings[name]) for name in ("short_factor", "long_factor")]
    angles = [np.arange(seam)[:, None] * sides[0], positions[:, None] * sides[1]]
    scale = np.float32(1.19)
    angle = np.concatenate(angles)
    rows = CosSinRows((np.cos(angle) * scale).astype(np.float32), (np.sin(angle) * scale).astype(np.float32))
    form = rotary_table(rows)
    assert form is not None
    assert form.name == "longrope"
    assert form.parameters["short_factor"] == settings["short_factor"]
    assert form.parameters["long_factor"] == settings["long_factor"]
    assert form.parameters["original_max_position_embeddings"] == seam
    assert row_errors(rows, form, np.arange(len(rows))).max() < 1e-6
