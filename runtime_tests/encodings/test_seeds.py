"""Numbers that are too large are refused with the range that they must be in."""

import pytest

from helpers.shared import Cli
from posenc.parameters import Parameter, fit
from posenc_export.proof.exporter.options import LARGEST_SEED, ExportOptions


def test_a_seed_has_a_range(cli: Cli) -> None:
    done = cli("export", "--seed", str(2**70), "-o", "b")
    assert (done.exit_code, f"is not in the range 0<=x<={LARGEST_SEED}" in done.output) == (2, True)
    for seed in (LARGEST_SEED + 1, -1):
        with pytest.raises(ValueError, match=f"seed must be from 0 to {LARGEST_SEED}, got {seed}"):
            ExportOptions(seed=seed)
    assert ExportOptions(seed=LARGEST_SEED).seed == LARGEST_SEED


def test_a_whole_number_that_is_too_large_is_told_its_range() -> None:
    with pytest.raises(ValueError, match=f"seed must be int from -{2**63} to {2**63 - 1}, got {2**70}"):
        fit(Parameter("seed", int), 2**70)
    with pytest.raises(ValueError, match="seed must be int, got 'a'"):
        fit(Parameter("seed", int), "a")
