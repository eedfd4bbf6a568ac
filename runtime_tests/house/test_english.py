"""Docstrings, comments, messages and documents have none of the habits that readers stumbled over."""

from pathlib import Path

import pytest

from helpers.english import comments, empty_names, habits
from helpers.shared import ROOT

PRODUCT = [file for folder in ("posenc", "export", "models") for file in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SHARE = 0.03


def test_sentences_have_none_of_these_habits() -> None:
    assert [line for file in [*PRODUCT, *PAGES] for line in habits(file)] == []


STORED = {
    "posenc/hf/model_config.py": ["of"],
    "posenc/ports.py": ["most", "of"],
    "posenc/sources/grid/axis_rows.py": ["one"],
    "posenc/sources/grid/fractions.py": ["one"],
    "posenc/sources/rows/learned_tables.py": ["each"],
    "export/posenc_export/bundle/schema.py": ["most"],
}
"""Names that stay: manifests have them as keys, files as names of tensors, and programs of users call them."""


def test_names_say_something() -> None:
    assert {file.relative_to(ROOT).as_posix(): names for file in PRODUCT if (names := empty_names(file))} == STORED


def test_comments_are_three_of_a_hundred_lines() -> None:
    sources = [file.read_text(encoding="utf-8") for file in PRODUCT]
    lines = sum(bool(line.strip()) for source in sources for line in source.splitlines())
    assert sum(1 for source in sources for _ in comments(source)) >= SHARE * lines


@pytest.mark.parametrize(
    "text",
    [
        "Of no places there are none.",
        "It reads a row that there is not.",
        "positions that are no whole ones",
        "an angle that is no position's",
        "It holds what no table holds.",
        "a list of which none is empty",
        "A single token beside none",
    ],
)
def test_a_habit_is_found(tmp_path: Path, text: str) -> None:
    page, module, comment = tmp_path / "a.md", tmp_path / "a.py", tmp_path / "b.py"
    page.write_text(f"# Title\n\nA sentence.\n{text}\n")
    module.write_text(f'def f():\n    raise ValueError("{text}")\n')
    comment.write_text(f"x = 1  # {text}\n")
    assert all(list(habits(file)) for file in (page, module, comment))
    assert not list(habits(Path(__file__).with_name("test_paragraphs.py")))


def test_an_empty_name_is_found(tmp_path: Path) -> None:
    module = tmp_path / "a.py"
    module.write_text(
        "def f(one, other):\n    for each in one:\n        most, x = each\n    return [of for of in other]\n"
    )
    assert empty_names(module) == ["each", "most", "of", "one"]
