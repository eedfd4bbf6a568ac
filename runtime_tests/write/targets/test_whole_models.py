"""Whole models of transformers: what docs/reference/measured/modules.md says of them, and a sample measured again."""

import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from helpers.measured import CLOSE, measure, rows, share
from helpers.shared import ROOT
from whole import Whole

PAGE = (ROOT / "docs" / "reference" / "measured" / "modules.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("<!-- measured -->")[2].partition("<!-- /measured -->")[0]
LINE = re.compile(r"^\| (.+?) \| (\d+) \| (\S*) ?\| (\w+) \| ?(.*?) ?\|$", re.MULTILINE)
LINES = {name: rest for name, *rest in LINE.findall(TABLE)}
LEAST = 38
"""Models of forty that are certified; there are more than forty."""
QUICK, SAMPLE = "AST", ("GPT-2, a step with its cache", "T5 encoder", "Wav2Vec2-Conformer, relative")


def test_the_table_has_every_model_and_none_is_wrong() -> None:
    assert list(LINES) == [row.name for row in rows()]
    assert len(LINES) >= 40
    verdicts = [verdict for _, _, verdict, _ in LINES.values()]
    assert set(verdicts) <= {"certified", "refused"}
    assert verdicts.count("certified") / len(verdicts) >= LEAST / 40
    assert f"{verdicts.count('certified')} of {len(verdicts)} are certified" in TABLE


def test_what_is_certified_is_close_and_what_is_refused_says_why() -> None:
    for name, (calls, error, verdict, why) in LINES.items():
        assert bool(why) == (verdict == "refused"), name
        assert verdict == "refused" or (int(calls) >= 6 and float(error) <= CLOSE), name


def test_the_table_is_of_this_version() -> None:
    assert f"transformers {version('transformers')}" in TABLE


def sampled(name: str) -> Whole:
    return next(row for row in rows() if row.name == name)


@pytest.mark.exhaustive
def test_a_model_is_what_the_table_says(tmp_path: Path) -> None:
    assert measure(sampled(QUICK), tmp_path).verdict == LINES[QUICK][2]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SAMPLE)
def test_more_of_them(name: str, tmp_path: Path) -> None:
    model = measure(sampled(name), tmp_path)
    assert model.verdict == LINES[name][2], model.why


def test_an_error_is_seen_in_a_token_and_not_in_what_a_mask_leaves_out() -> None:
    expected = np.ones((2, 3, 4), np.float32)
    tokens = np.array([[True, True, True], [False, True, True]])
    for place, error in (((1, 0, 2), 0.0), ((1, 1, 2), 0.5)):
        actual = expected.copy()
        actual[place] = 1.5
        assert share(actual, expected, tokens) == error
