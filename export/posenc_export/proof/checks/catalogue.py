"""What each check asks, in words for users: for reports, `posenc explain` and docs/reference/checks.md.

The words of a check stand beside it; those of the steps of every validation stand here. Scripts look for codes, so that
a code never changes, and is not given again when its check is gone. Findings of `posenc inspect` have such words, too,
in a catalogue of their own: no verdict has their codes.
"""

from __future__ import annotations

from collections.abc import Sequence

from posenc.registry import Registry, UnknownName, did_you_mean
from posenc_export.common.explanations import Explanation, Words
from posenc_export.common.markdown import table

PAGE = """# Checks

For those who met a code such as PE104 in a report: what was asked, and what a failure means.
`posenc explain CODE` says what to do then, with an example.

Made by `posenc explain --markdown > docs/reference/checks.md`. [What is proved, and how](../explanation/validation.md)
has the rest.

"""

FINDINGS = """
## Findings

What `posenc inspect` says of an ONNX file that anybody made: [Your own ONNX file](../how-to/inspect.md).

"""


CATALOGUE: Registry[Explanation] = Registry("check", "posenc_export.proof.checks")
_TAKEN: set[str] = set()
"""Codes of checks that are imported: a lookup in CATALOGUE would import the others, while one is being imported."""


def explained(name: str, words: Words) -> None:
    """Add the words of a check; raise ValueError where its code or its name is taken."""
    if words.code in _TAKEN:
        raise ValueError(f"code {words.code} of check {name!r} is taken")
    CATALOGUE.add(name, Explanation(**vars(words), name=name))
    _TAKEN.add(words.code)


def explanations() -> list[Explanation]:
    """Return the words of every check, by their codes."""
    return sorted(CATALOGUE.values(), key=lambda entry: entry.code)


def explanation(word: str, entries: Sequence[Explanation] | None = None) -> Explanation:
    """Return the words of a code or a name, in upper or lower case; raise UnknownName where there is no such entry.

    Args:
        word: the code or the name.
        entries: where it is looked for; by default among the checks.
    """
    among = explanations() if entries is None else entries
    by_word = {text: entry for entry in among for text in (entry.code.lower(), entry.name)}
    entry = by_word.get(word.lower())
    if entry is None and word.lower().startswith("pe"):
        raise UnknownName(f"unknown code {word!r}: known: {', '.join(known.code for known in among)}")
    if entry is None:
        names = [known.name for known in among]
        raise UnknownName(f"unknown check {word!r}: {did_you_mean(word.lower(), names)}known: {', '.join(names)}")
    return entry


def code_of(name: str) -> str:
    """Return the code of a check."""
    return CATALOGUE[name].code


def markdown(findings: Sequence[Explanation] = ()) -> str:
    """Return docs/reference/checks.md: the checks of bundles, and findings of `posenc inspect` where they are given."""
    page = PAGE + table(("code", "check", "what it asks", "what a failure means"), _rows(explanations())) + "\n"
    if not findings:
        return page
    return page + FINDINGS + table(("code", "finding", "what it asks", "what it means"), _rows(findings)) + "\n"


def _rows(entries: Sequence[Explanation]) -> list[tuple[str, str, str, str]]:
    return [(entry.code, f"`{entry.name}`", entry.asks, entry.failure) for entry in entries]


explained(
    "integrity",
    Words(
        code="PE101",
        asks="Is each file the one that was exported, by its size, its SHA-256 and its posenc.id?",
        failure="The file was changed, or damaged, after the bundle was written: nothing of it is run or compared",
        remedy="Copy the bundle again, in binary; or export it anew.",
        example="a model.onnx that a tool has optimised in its place",
    ),
)
explained(
    "agrees",
    Words(
        code="PE104",
        asks="Is every output of every case as near to eager PyTorch, and to float64, as its tolerance says?",
        failure="The graph computes something else on that runtime than the module: the line names case and output",
        remedy="Look at the case that is named; where other runtimes agree, try another release of this one.",
        example="angles in float32, off by 0.008 at position 131,071",
    ),
)
explained(
    "refusal",
    Words(
        code="PE105",
        asks="Do lengths and positions beyond the end, negative ones, and inputs of unlike lengths give an error?",
        failure="A call out of range gets a wrong row and no error: a program that goes too far would not notice",
        remedy="Check lengths and positions before the call; or export --dynamic, which ends at 16,777,216 positions. "
        "For a module of your own, `in 0..N-1` in -i says that no other numbers come in.",
        example="position 2048 of a table of 2048 rows, answered with the last row",
    ),
)
explained(
    "model",
    Words(
        code="PE114",
        asks="Does every output, and every score q k^T, agree with what the model's own code makes of the config?",
        failure="The config was read otherwise than its model reads it: the file would rotate, or add, something else",
        remedy="Give the parameter that the line names with -p; or report the model type, whose reading is wrong.",
        example="neighbouring features rotated by the model, read as halves",
    ),
)
