"""The line of an inspection that can be typed: a scheme takes its parameters, or there is no line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import posenc
from posenc import parameters
from posenc.formulas.alibi import slopes_of
from posenc.formulas.fitting import Form, Guess, Observation, Parameter, find_scheme
from posenc.formulas.rope import of_heads
from posenc.formulas.t5_bias import buckets
from posenc.scheme import SCHEMES
from posenc_export.read.recognise.added.tables import form_of_grid
from posenc_export.read.recognise.lookups import form_of_rows, stored_rows

HEAD: dict[str, Parameter] = {"head_dim": 16, "rotary_dim": 16, "layout": "halves", "rope_theta": 1e4}
YARN: dict[str, Parameter] = {"factor": 4.0, "original_max_position_embeddings": 64, "attention_factor": 1.1}
SPACING = 2.0**-23
DISTANCE = np.arange(17) - np.arange(17)[:, None]


def rotation(name: str, **read: Parameter) -> Form | None:
    """Return the form of a rotation with parameters that were read."""
    return of_heads(Form("rotary", name, {**HEAD, **read}), {})


def waves(rows: int = 40, width: int = 16, *, cosines_first: bool = False) -> np.ndarray:
    """Return sines and cosines of the first rows, in halves."""
    angle = np.arange(rows)[:, None] * 1e4 ** (-np.arange(width // 2) / (width // 2))
    halves = [np.sin(angle), np.cos(angle)]
    return np.concatenate(halves[::-1] if cosines_first else halves, 1).astype(np.float32)


def places(before: int = 0) -> np.ndarray:
    """Return the rows of a grid of 4 by 5 places, with rows of zeros before."""
    down, across = waves(4), waves(5)
    row, column = np.divmod(np.arange(20), 5)
    return np.concatenate([np.zeros((before, 32), np.float32), np.concatenate([across[column], down[row]], 1)])


def bias(slopes: np.ndarray, steps: np.ndarray) -> Form | None:
    """Return what a bias of slopes is."""
    return find_scheme(Observation("bias", slopes[:, None, None] * steps, SPACING))


TYPED: dict[str, Callable[[], Form | None]] = {
    "a part of the head": lambda: rotation("default", rotary_dim=8, attention_factor=1.0),
    "backward": lambda: rotation("default", direction="backward"),
    "linear": lambda: rotation("linear", factor=2.0),
    "proportional": lambda: rotation("proportional", partial_rotary_factor=0.5),
    "yarn": lambda: rotation("yarn", **YARN),
    "mrope": lambda: rotation("mrope", sections=(4, 2, 2), section_layout="sectioned"),
    "sinusoidal": lambda: form_of_rows(waves()),
    "learned": lambda: stored_rows(64, 16, 0),
    "alibi": lambda: bias(slopes_of(4, 8.0), -np.abs(DISTANCE)),
    "sincos_2d": lambda: form_of_grid(places()),
}
"""Forms that a scheme has."""
UNTYPED: dict[str, Callable[[], Form | None]] = {
    "a factor that the type has not": lambda: rotation("default", attention_factor=1.2),
    "features in no layout": lambda: rotation("default", layout="pairs (0, 2) (1, 3)"),
    "frequencies that were rounded": lambda: rotation("default", frequencies_dtype="float16"),
    "cosines first": lambda: form_of_rows(waves(cosines_first=True)),
    "a token of a class": lambda: form_of_grid(places(1)),
    "slopes of no rule": lambda: bias(np.array([0.5, 0.1, 0.7]), -np.abs(DISTANCE)),
    "distances with a sign": lambda: bias(slopes_of(4, 8.0), DISTANCE),
}
"""Forms that share their name with a scheme, or a family, and have what no scheme takes."""


@pytest.mark.parametrize("kind", TYPED)
def test_a_line_is_a_scheme_that_takes_its_parameters(kind: str) -> None:
    form = TYPED[kind]()
    assert form is not None
    scheme, *words = form.line.split(" -p ")
    taken = parameters.parse(words, SCHEMES[scheme].parameters, scheme)
    posenc.build(scheme, posenc.Spec(max_len=64), **taken)


@pytest.mark.parametrize("kind", UNTYPED)
def test_what_no_scheme_has_is_no_line(kind: str) -> None:
    form = UNTYPED[kind]()
    assert form is not None
    assert form.line == ""


def test_what_the_place_of_rows_tells_is_in_the_line() -> None:
    index = buckets(np.arange(40) - np.arange(40)[:, None], 32, 128, bidirectional=True, edge=0.0)
    form = find_scheme(Observation("lookup", index, 0.0, rows=32))
    assert form is not None
    assert form.beside(heads=4).line.startswith("t5_bias -p heads=4 -p num_buckets=32 -p max_distance=128")


def test_a_guess_of_a_part_of_a_bias_is_no_match() -> None:
    seen = Observation("bias", slopes_of(4, 8.0)[:, None, None] * -np.abs(DISTANCE), SPACING)
    assert seen.agrees(Guess({}, seen.numbers))
    assert not seen.agrees(Guess({}, seen.numbers[:2]))
    assert not seen.agrees(Guess({}, seen.numbers[:0]))
