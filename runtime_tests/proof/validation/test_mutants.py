"""One thing is made wrong in a file, and every digest is put right: the proof says so."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

import posenc_export
from helpers.made_parts import part_of
from helpers.mutants.mutation import KINDS, Mutation
from helpers.mutants.mutations import Mutant
from helpers.mutants.node_sites import _taken_out
from helpers.mutants.outcomes import Broken, Outcome, in_a_child, sign, subject, tried
from helpers.mutants.runs import Combination, exported, mutated, mutated_at_export
from helpers.mutants.table import PART, refused_of
from helpers.shared import ROOT, one_of_each
from posenc.scheme import SCHEMES
from scripts.mutants import combinations

LONGER_THAN_ANY_CALL = 2**14
SAMPLE = (
    (Combination("sinusoidal", "dynamic", "implicit"), 12),
    (Combination("rope", "dynamic", "explicit"), 6),
    (Combination("transformer_xl", "baked", "implicit"), 6),
)


@pytest.mark.parametrize(("combination", "each"), one_of_each(SAMPLE[::-1], lambda _: ""), ids=str)
def test_a_sample_of_mutants_is_refused(combination: Combination, each: int) -> None:
    outcomes = mutated(combination, each).outcomes
    assert len(outcomes) == each
    assert {one.mutation.kind for one in outcomes} == set(KINDS)
    assert [str(one) for one in outcomes if one.became == "survived"] == []
    assert sum(one.became == "refused" for one in outcomes) > each / 2


@pytest.mark.exhaustive
def test_what_goes_wrong_between_writing_and_proof_is_refused() -> None:
    outcomes = mutated_at_export(Combination("sinusoidal", "baked", "explicit"), 4).outcomes
    assert [one.became for one in outcomes] == ["refused"] * 4
    assert outcomes[3].mutation.what == "row zeroed in the module"


def test_a_file_that_nothing_is_wrong_in_passes_and_one_without_its_guard_does_not(tmp_path: Path) -> None:
    exported(Combination("rope", "baked", "explicit"), tmp_path / "bundle", validate=False)
    whole = subject(tmp_path / "bundle")
    nodes = enumerate(whole.model.graph.node)
    guard = next(i for i, node in nodes if node.op_type == "Reshape" and "positions" in node.input)
    without = ModelProto.FromString(whole.model.SerializeToString())
    mutation = _taken_out(guard, without, np.random.default_rng(0))
    assert mutation is not None
    same = tried(whole, Mutant(Mutation("operators", "nothing", "q_rotated"), whole.model))
    assert (same.became, same.words) == ("survived", "")
    one = tried(whole, Mutant(mutation, without))
    assert one.became == "refused"
    assert "-positions-seq1-refused: gave an answer, expected an error" in one.words


def keys_before_divided(model: ModelProto) -> None:
    """Divide by the rows before a query, where they are taken from the keys: wrong at exactly so many more keys."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    differences = (node for node in model.graph.node if node.op_type == "Sub" and node.input[1] in constants)
    next(node for node in differences if constants[node.input[1]].ndim == 0).op_type = "Div"


def row_beyond_counted_from_the_end(model: ModelProto) -> None:
    """Negate the row that positions beyond the end are given: it is then the first one, which there is."""
    by_value = {
        int(array): tensor for tensor in model.graph.initializer if not (array := numpy_helper.to_array(tensor)).ndim
    }
    end = next(int(value) for value in by_value if 2 * value in by_value and value > LONGER_THAN_ANY_CALL)
    by_value[2 * end].CopyFrom(numpy_helper.from_array(np.array(-2 * end), by_value[2 * end].name))


WRONG_ONCE: tuple[tuple[str, str, Callable[[ModelProto], None], str], ...] = (
    ("clipped_relative", "baked", keys_before_divided, "-seq2-kv_heads1-seq_k22: "),
    (
        "xpos",
        "dynamic",
        row_beyond_counted_from_the_end,
        "tables: position 34,560, where it must end: gave an answer, expected an error",
    ),
)


@pytest.mark.parametrize(
    ("scheme", "mode", "change", "words"), one_of_each(WRONG_ONCE, lambda _: ""), ids=["clipped_relative", "xpos"]
)
def test_what_is_wrong_at_one_distance_or_beyond_the_longest_call_is_refused(
    scheme: str, mode: Literal["baked", "dynamic"], change: Callable[[ModelProto], None], words: str, tmp_path: Path
) -> None:
    posenc_export.export(
        scheme,
        to=tmp_path / "bundle",
        parameters=dict(SCHEMES[scheme].samples[0]),
        mode=mode,
        positions="implicit",
        max_len=64,
        formats=("onnx",),
        validate=False,
    )
    whole = subject(tmp_path / "bundle")
    wrong = ModelProto.FromString(whole.model.SerializeToString())
    change(wrong)
    outcome = tried(whole, Mutant(Mutation("operators", change.__name__, ""), wrong))
    assert (outcome.became, words in outcome.words) == ("refused", True), outcome


def test_an_error_of_ours_is_no_refusal() -> None:
    def fails() -> None:
        raise KeyError("ours")

    with pytest.raises(RuntimeError, match="KeyError: 'ours'"):
        in_a_child(fails)
    assert in_a_child(lambda: "an answer") == "an answer"
    assert Broken("words").words == "words"


def test_signing_puts_every_digest_right(bundle: Path) -> None:
    model = ModelProto.FromString((bundle / "model.onnx").read_bytes())
    model.producer_name = "another"
    sign(bundle, model)
    result = posenc_export.validate(bundle, runtimes=["ort-cpu"])
    assert {one.status for one in result.verdicts if one.check == "integrity"} == {"pass"}


# ---- the table -------------------------------------------------------------------------------------------------------


def cells() -> dict[str, list[str]]:
    table = part_of(ROOT / "docs" / "reference" / "measured" / "mutants.md", PART)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows}


def share(cell: str) -> float:
    refused, counting = map(int, cell.split(" of "))
    return refused / counting


def test_the_table_has_every_scheme_and_says_what_is_promised() -> None:
    table = cells()
    assert {name for name in table if "---" not in name} == {"scheme", "all", *SCHEMES}
    rows, operators, constants = map(share, table["all"][2:5])
    assert (rows, operators >= 0.99, constants >= 0.97) == (1.0, True, True)
    assert int(table["all"][0]) == 24 * len(list(combinations()))
    assert "not explained" not in (ROOT / "docs" / "reference" / "measured" / "mutants.md").read_text(encoding="utf-8")


def test_equivalent_mutants_do_not_count() -> None:
    outcomes = [Outcome(Mutation(KINDS[0], "", ""), became) for became in ("refused", "survived", "equivalent")]
    assert refused_of(outcomes) == "1 of 2"
