"""The table of model types by their rotary encodings: what it says, and a sample of it asked again."""

import re
from importlib.metadata import version

import pytest

from helpers.hf.rotary_rows import Row, rotary_of
from helpers.hf.surveyed import names
from helpers.made_parts import part_of
from helpers.shared import one_of_each
from scripts.rotary_models import HEAD, PAGE, PART, arguments

pytestmark = pytest.mark.filterwarnings("ignore")

MADE = part_of(PAGE, PART)
LINES = [[cell.strip() for cell in line[1:-1].split(" |")] for line in MADE.splitlines() if " | `" in line]
ROWS = {name: Row(*cells) for shared, *cells in LINES for name in shared.split(", ")}
"""The row of each encoding by its name in the table."""
LEFT_OUT = re.findall(r"is refused: (.*)\.$", MADE, re.MULTILINE)[0].split(", ")
LEAST = 330
"""Encodings that the model's own code agrees with."""
SAMPLE = ["llama", "gemma3_text", "smollm3", "cohere2", "flint", "qwen2_vl", "glm4", "gemma4_text", "deepseek_v3"]


def test_the_table_is_of_this_version_and_says_how_many() -> None:
    assert f"transformers {version('transformers')}" in MADE
    encodings, types = map(int, re.findall(r"(\d+) encodings of (\d+) model types", MADE)[0])
    assert encodings == len(ROWS) == sum(len(line[0].split(", ")) for line in LINES)
    assert types == len({name.partition(" (")[0] for name in ROWS})
    assert encodings >= LEAST


def test_the_table_has_model_types_alone_and_rows_that_differ() -> None:
    assert {name.partition(" (")[0] for name in (*ROWS, *LEFT_OUT)} <= set(names())
    assert not set(ROWS) & set(LEFT_OUT)
    assert all(len(line) == len(HEAD) for line in LINES)
    assert len({tuple(line[1:]) for line in LINES}) == len(LINES)


@pytest.mark.parametrize("name", one_of_each(SAMPLE, lambda _: ""))
def test_a_sample_is_what_the_table_says(name: str) -> None:
    found = rotary_of(name)
    assert found
    for rotary in found:
        assert rotary.row == ROWS[rotary.name], rotary.why


def test_the_script_says_what_it_takes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["nosuch"], "no model type of transformers: nosuch"),
        (["llama", "--write"], "--write reads every model type: give no NAME with it"),
    ):
        monkeypatch.setattr("sys.argv", ["rotary_models.py", *words])
        with pytest.raises(SystemExit):
            arguments()
        assert text in capsys.readouterr().err
