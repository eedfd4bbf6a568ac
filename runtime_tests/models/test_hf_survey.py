"""The survey of every model type: what its table says, and a sample of it asked again."""

import json
import re
from importlib.metadata import version

import pytest

from helpers.hf.surveyed import Finding, names, of_published, of_type, sample, word_of
from helpers.shared import ROOT
from posenc_models.config.encodings.grids import GRIDS
from posenc_models.config.encodings.towers import TOWERS
from posenc_models.config.params import KIND
from posenc_models.config.rope.defaults import class_of
from posenc_models.config.rope.layouts import HALVES, PAIRS, REFUSED, SWITCHED
from scripts.hf_class_defaults import FILE
from scripts.hf_survey import arguments

PAGE = (ROOT / "docs" / "reference" / "measured" / "configs.md").read_text(encoding="utf-8")
LEAST = 540
"""Model types of transformers that are read rightly, by the model's own code."""
QUICK = 3
"""Model types that the quick run asks."""
SINGLE = ("EvollaModel", "esm", "gptj", "codegen", "internlm2", "ernie4_5_moe_vl", "ernie4_5_vl")
"""Names that no class of transformers has rope settings for."""


def row(what: str) -> list[int]:
    """Return the numbers of a row of the table: how many there are, right, wrong, refused, not decided."""
    cells = re.search(rf"^\| {what} \| (.*) \|$", PAGE, re.MULTILINE)
    assert cells is not None
    return [int(cell) for cell in cells[1].split(" | ")]


def test_the_table_counts_every_type_and_none_is_wrong() -> None:
    total, right, wrong, refused, undecided = row("model types of transformers")
    assert total == right + wrong + refused + undecided == len(names())
    assert wrong == 0
    assert right >= LEAST
    _, _, wrong, _, others = row("classes of diffusers")
    assert wrong == 0
    named = PAGE.partition("Not decided, as the model could not be asked:")[2].partition("<!--")[0]
    lines = re.findall(r"^\* ([\w, -]+?): ", named, re.MULTILINE)
    assert sum(len(line.split(", ")) for line in lines) == undecided + others


def test_the_table_is_of_this_version() -> None:
    assert f"transformers {version('transformers')}" in PAGE


@pytest.mark.parametrize("name", sample(version("transformers"))[:QUICK])
def test_a_sample_is_what_the_table_says(name: str) -> None:
    findings = of_type(name)
    assert word_of(findings) != "wrong", findings


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sample(version("transformers"))[QUICK:])
def test_more_of_it(name: str) -> None:
    findings = of_type(name)
    assert word_of(findings) != "wrong", findings


@pytest.mark.parametrize("name", ["hunyuan_v1_dense", "qwen3_omni_moe_text", "gpt_neox"])
def test_keys_of_published_files_are_read_as_the_model_does(name: str) -> None:
    findings = of_published(name)
    assert word_of(findings) == "right", findings


@pytest.mark.parametrize(("words", "word"), [(["right", "wrong"], "wrong"), (["refused", "right"], "right")])
def test_a_type_is_wrong_if_one_of_its_encodings_is(words: list[str], word: str) -> None:
    assert word_of(Finding("x", "", "", one, "") for one in words) == word


def test_every_rotary_type_is_known() -> None:
    # those of a newer version are known, too
    written = json.loads(FILE.read_text(encoding="utf-8"))["classes"]
    of_class = {name for name in {*names(), *written} if class_of(name) and "text" not in class_of(name)}
    assert of_class - HALVES - PAIRS - SWITCHED - set(REFUSED) - set(TOWERS) - set(GRIDS) == set()
    known = HALVES | PAIRS | SWITCHED
    assert known - of_class - set(SINGLE) == {KIND}
    assert len(known) == len(HALVES) + len(PAIRS) + len(SWITCHED)
    assert not known & (set(REFUSED) | set(GRIDS))
    assert not set(GRIDS) & set(REFUSED)


def test_the_survey_says_what_it_takes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words, status, text in (
        (["--help"], 0, "--keep FILE"),
        (["nosuch"], 2, "no model type of transformers, and no class of diffusers: nosuch"),
        (["llama", "--write"], 2, "--write counts every model type: give no NAME with it"),
        (["--wirte"], 2, "unrecognized arguments: --wirte"),
    ):
        monkeypatch.setattr("sys.argv", ["hf_survey.py", *words])
        with pytest.raises(SystemExit) as ended:
            arguments()
        printed = capsys.readouterr()
        assert ended.value.code == status
        assert text in printed.out + printed.err
    monkeypatch.setattr("sys.argv", ["hf_survey.py", "llama", "SD3Transformer2DModel", "--keep", "file"])
    assert arguments().names == ["llama", "SD3Transformer2DModel"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["t5gemma", "t5gemma2_decoder", "dbrx", "lfm2_moe"])
def test_types_that_need_more_than_their_defaults_are_right(name: str) -> None:
    words = {finding.word for finding in of_type(name) if finding.scheme}
    assert words == {"right"}
