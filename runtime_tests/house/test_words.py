"""Names in the product's code are the field's: no word stands for a concept that has another name, or for nothing."""

import re

import pytest

from helpers.english import names_in
from helpers.shared import ROOT

FOLDERS = ("posenc", "export/posenc_export", "models/posenc_models")
BANNED = {
    **dict.fromkeys(("told", "turned", "turning", "given", "found", "kept", "recorded"), "name what it holds"),
    **dict.fromkeys(("turns", "lowering", "trial", "trials"), "rotary angles, sincos methods, cases"),
    **dict.fromkeys(("capacity", "longest", "reach"), "end, max_position, max_length, max_distance"),
    "subject": "Target, or BundlePlan",
}
"""Words of no name, and what is said for them."""
FIELDS = {"subject": "export/posenc_export/validation/"}
"""Where a word is a field of report.json: a verdict's subject, a format or a runtime."""


def words_of(name: str) -> set[str]:
    """Return the words of a name in snake case, in camel case, or in capitals."""
    return set(re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_"))


def banned_in(path: str, source: str) -> list[str]:
    """Return each name of a file that has a banned word, the file's own name too, with what is said instead."""
    names = [*names_in(source), (1, path.rpartition("/")[2].removesuffix(".py"))]
    return [
        f"{path}:{line} {name}: {BANNED[word]}"
        for line, name in names
        for word in sorted(words_of(name) & BANNED.keys())
        if not (word in FIELDS and path.startswith(FIELDS[word]))
    ]


def test_no_name_has_a_word_that_says_nothing_or_that_another_name_has() -> None:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 100
    names = [
        line
        for path in paths
        for line in banned_in(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert names == []


SOURCES = (
    "found = 1",
    "for kept in (): pass",
    "a.given = 1",
    "def f(told): pass",
    "def f(*, given: int = 1): pass",
    "async def reach(): pass",
    "class LongestRow: pass",
    "MOST_TURNS: int = 2",
    "import os as lowering",
    "with open(a) as found_file: pass",
    "try: pass\nexcept ValueError as given: pass",
    "[1 for _recorded in ()]",
    "lambda capacity: 1",
    "if (kept := 1): pass",
    "match a:\n    case [turned, *trials]: pass",
)


@pytest.mark.parametrize("source", SOURCES)
def test_every_way_to_make_a_name_is_seen(source: str) -> None:
    assert banned_in("posenc/a.py", source)


def test_a_file_has_a_name_and_plain_english_is_free() -> None:
    assert banned_in("posenc/trial.py", "")
    assert banned_in("posenc/a.py", "subject = 1")
    text = '"""What was found, as it was given."""\nfoundation = line.found(given) + f"kept {told}"'
    assert banned_in("posenc/a.py", text) == []
    assert banned_in("export/posenc_export/validation/a.py", "subject = 1") == []
