"""Rules by which a mutant is wrong in nothing: each holds where it is true, and not where it is nearly so."""

import onnx.parser
import pytest
from onnx import ModelProto

from helpers.mutants.graph_facts import Facts
from helpers.mutants.mutation import Mutation, constant
from helpers.mutants.rule_cases import CASES
from helpers.mutants.rules import NEVER_FIRES, OF_NODES, OF_USES, rule_of


def model_of(body: str, stored: str) -> ModelProto:
    """A graph of a few nodes, whose last makes y."""
    kept = f"<{stored}>" if stored else ""
    opset = '<ir_version: 8, opset_import: ["" : 18]>'
    return onnx.parser.parse_model(f"{opset} g (int64[N] x) => (int64[M] y) {kept} {{ {body} }}")


@pytest.mark.parametrize(("words", "body", "stored", "mutation"), CASES)
def test_a_rule_holds_where_it_is_true(words: str, body: str, stored: str, mutation: Mutation) -> None:
    assert rule_of(Facts(model_of(body, stored)), mutation) == words


def test_every_rule_has_a_case() -> None:
    assert {*OF_USES, *OF_NODES, NEVER_FIRES} == {words for words, *_ in CASES if words}


def test_a_constant_is_another_in_every_use_or_in_none() -> None:
    model = model_of("u = Unsqueeze(x, a) y = Add(u, a)", "int64[1] a = {1}")
    assert rule_of(Facts(model), constant("a", "[1]", "[-1]")) == ""
