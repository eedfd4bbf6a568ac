"""A small constant is dropped or changed in a file, or axes are swapped by Reshape: the proof says so."""

import pytest

from helpers.made_parts import part_of
from helpers.mutants.module_runs import AXES, SMALL_CONSTANTS, TRANSPOSING, ModuleCase, mutated_module
from helpers.mutants.table import OF_MODULES, PART_OF_MODULES
from helpers.shared import ROOT, one_of_each
from helpers.small_numbers import (
    MODULES,
    ByAbsolutes,
    ByNorm,
    LayerNorm,
    MaskedShares,
    RootMeanSquare,
    Small,
    SoftmaxOverMore,
    SquareRoot,
)

NORMS: tuple[type[Small], ...] = (RootMeanSquare, LayerNorm, ByNorm, MaskedShares)
CASES: tuple[ModuleCase, ...] = (
    ModuleCase(SMALL_CONSTANTS, ByAbsolutes, 1e-8),
    *(ModuleCase(SMALL_CONSTANTS, kind, 1e-8) for kind in NORMS),
    ModuleCase(SMALL_CONSTANTS, SquareRoot, 1e-12),
    *(ModuleCase(AXES, kind) for kind in TRANSPOSING),
)


@pytest.mark.parametrize("case", one_of_each(CASES, lambda case: case.draw), ids=str)
def test_the_proof_finds_all(case: ModuleCase) -> None:
    outcomes = mutated_module(case).outcomes
    assert [str(one) for one in outcomes if one.became != "refused"] == []


@pytest.mark.exhaustive
def test_an_epsilon_beside_exponentials_that_are_all_zero_cannot_be_dropped() -> None:
    """Where every number is far below 0, the sum of its exponentials is 0."""
    outcomes = mutated_module(ModuleCase(SMALL_CONSTANTS, SoftmaxOverMore, 1e-10)).outcomes
    assert next(one for one in outcomes if one.mutation.after == "0.0").became == "refused"


def test_the_table_has_every_module_and_explains_what_survives() -> None:
    table = part_of(ROOT / "docs" / "reference" / "measured" / "mutants.md", PART_OF_MODULES)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")][2:]
    by_name = {(row[0], row[1]): row for row in rows}
    assert {name for draw, name in by_name if draw == SMALL_CONSTANTS} == {"all", *(kind.__name__ for kind in MODULES)}
    assert {name for draw, name in by_name if draw == AXES} == {"all", *(kind.__name__ for kind in TRANSPOSING)}
    assert int(by_name[AXES, "all"][-1]) == 0
    unexplained = {row[1] for row in rows if row[1] != "all" and int(row[-1])} - set(OF_MODULES)
    assert unexplained == set()
