"""Parts of same_bits.py: values of JSON, many differences alike, and the bundles that are held."""

import pytest

from helpers.differences import of_json
from helpers.differences_of_calls import Difference
from helpers.held import held
from posenc.scheme import SCHEMES
from scripts.same_bits import grouped


def test_values_of_json() -> None:
    old = {"a": [1, 2], "b": 1, "c": 1, "text": "one\ntwo\nthree", "d": [{"name": "x"}, {"name": "x"}]}
    new = {"a": [1], "b": True, "c": 1.0, "text": "one\n2\nthree", "d": [{"name": "x"}, {"name": "y"}]}
    assert [str(difference) for difference in of_json(old, new, "f.json")] == [
        "f.json a[1]: 2 -> nothing",
        "f.json b: 1 -> true",
        "f.json c: 1 -> 1.0",
        "f.json text\n    @@ -1,3 +1,3 @@\n     one\n    -two\n    +2\n     three",
        'f.json d.1.name: "x" -> "y"',
    ]


def test_a_difference_of_many_bundles_is_one_line() -> None:
    difference = Difference("manifest.json family", '"bias"', '"biases"')
    lines = grouped([(difference, name) for name in "abcde"])
    assert lines == ['manifest.json family: "bias" -> "biases"\n  in a, b, c and 2 more']


@pytest.mark.exhaustive
def test_every_scheme_is_held_in_each_form() -> None:
    bundles = held()
    assert len({bundle.name for bundle in bundles}) == len(bundles)
    modes = {(bundle.source, bundle.spec.mode) for bundle in bundles}
    for scheme in SCHEMES.values():
        assert {(scheme.name, mode) for mode in {"baked", "dynamic"} - scheme.unsupported.modes.keys()} <= modes
    assert {bundle.source for bundle in bundles if bundle.widely} == {*SCHEMES}
    assert {"fp16", "bf16", "fp64"} <= {bundle.spec.dtype for bundle in bundles}
    assert any(bundle.name.startswith("own-") for bundle in bundles)
