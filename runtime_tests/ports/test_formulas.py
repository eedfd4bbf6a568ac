"""Axes of outputs whose sizes are sums of products of those of inputs."""

import json
import re

import numpy as np
import pytest

from posenc.ports import BATCH, SEQ, Axis, Port, axes_of, fixed, sizes_of
from posenc_export.bundle import schema
from posenc_export.write.cpp.names import sizes
from posenc_export.write.targets.sizes import elements, most_terms

HEIGHT, WIDTH = Axis("height", "grid"), Axis("width", "grid", most=64)
X = Port("x", (BATCH, HEIGHT, WIDTH, fixed(8)), "float32")
CALL = {"batch": 7, "height": 2, "width": 3}
FORMULAS = {
    "height*width": (("height", "width"), 6, "axes.height * axes.width"),
    "5+height*width": (("height", "width"), 11, "5 + axes.height * axes.width"),
    "2*height+width": (("height", "width"), 7, "2 * axes.height + axes.width"),
    "-1+2*width": (("width",), 5, "-1 + 2 * axes.width"),
    "1+batch": (("batch",), 8, "1 + axes.batch"),
    "height*height": (("height",), 4, "axes.height * axes.height"),
    "height+width": (("height", "width"), 5, "axes.height + axes.width"),
}
NO_PRODUCTS = ("height*", "*width", "5*", "height*5", "0*height", "05+height", "height++width")
NO_NUMBERS = ("5", "5+", "height+5", "-height", "height+-1", "--1+height")
NO_FORMULAS = NO_PRODUCTS + NO_NUMBERS


@pytest.mark.parametrize("name", FORMULAS)
def test_the_size_of_a_formula(name: str) -> None:
    names, size, text = FORMULAS[name]
    axis = Axis(name, "length")
    y = Port("y", (BATCH, axis, fixed(8)), "float32")
    assert (axis.names, axis.is_formula, axis.size_in(CALL)) == (names, True, size)
    assert y.shape(CALL) == (7, size, 8)
    assert str(y) == f"y: float32[batch, {name}, 8]"
    assert sizes(y) == f"axes.batch, {text}, 8"


def test_a_plain_axis_is_no_formula() -> None:
    assert not any(axis.is_formula for axis in (SEQ, Axis("axis2", "length"), fixed(3)))


def test_its_axes_are_those_that_its_name_holds() -> None:
    y = Port("y", (Axis("5+height*width", "length"), fixed(8)), "float32")
    assert axes_of((X, y)) == [BATCH, HEIGHT, WIDTH], "kinds and limits are those that inputs say"
    assert [axis.name for axis in axes_of((y,))] == ["height", "width"]
    assert sizes_of((X, y), {"x": np.zeros((2, 3, 4, 8)), "y": np.zeros((17, 8))}) == {
        "batch": 2,
        "height": 3,
        "width": 4,
    }


def test_the_budget_counts_its_elements_and_lengths_are_not_shortened_for_it() -> None:
    y = Port("y", (Axis("5+height*width", "length"), fixed(8)), "float32")
    assert elements((y,), CALL) == 11 * 8
    assert elements((y,), {"height": 2}) == 0
    assert most_terms((X, y)) == 1
    assert most_terms((X, Port("z", (Axis("height+width", "length"),), "float32"))) == 2
    assert most_terms(()) == 1


@pytest.mark.parametrize("name", [*FORMULAS, "", "seq", *NO_FORMULAS])
def test_the_schema_takes_sums_of_products_whole_numbers_first(name: str) -> None:
    pattern = json.loads(schema.json_schema())["$defs"]["AxisJson"]["properties"]["name"]["pattern"]
    assert (re.match(pattern, name) is None) == (name in NO_FORMULAS)
