"""The table of what became of mutants, for docs/reference/measured/mutants.md."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx
import onnxruntime
import torch

from helpers.made_parts import put_part
from helpers.mutants.mutations import KINDS
from helpers.mutants.outcomes import Outcome
from helpers.mutants.runs import Result

PART = "mutants"
REASONS: dict[str, str] = {}
"""Why a survivor is none of our plan: by how its line begins."""


def summary(results: Sequence[Result]) -> str:
    """Return the table as the page has it, with survivors and versions."""
    everything = [one for result in results for one in result.outcomes]
    schemes = list(dict.fromkeys(result.combination.scheme for result in results))
    minutes = sum(result.seconds for result in results) / 60
    took = f"{len(results)} combinations of scheme, form and way to give positions, {minutes:.0f} minutes of processes"
    lines = [
        f"{datetime.date.today().isoformat()}, {took} ({os.cpu_count()} cores; torch {torch.__version__}, "
        f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}):",
        "",
        f"| scheme | mutants | refused | {' | '.join(KINDS)} | equivalent | survivors |",
        "|---" * (len(KINDS) + 5) + "|",
        *(
            _row(scheme, [o for r in results if r.combination.scheme == scheme for o in r.outcomes])
            for scheme in schemes
        ),
        _row("all", everything),
        "",
        *_survivors(results),
        *_rules(everything),
    ]
    return "\n".join(lines) + "\n"


def _of(scheme: str, results: Sequence[Result]) -> list[Outcome]:
    return [one for result in results if result.combination.scheme == scheme for one in result.outcomes]


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    became = [one.became for one in outcomes]
    kinds = [refused_of([one for one in outcomes if one.mutation.kind == kind]) for kind in KINDS]
    counts = [len(became), became.count("refused"), *kinds, became.count("equivalent"), became.count("survived")]
    return f"| {' | '.join([name, *map(str, counts)])} |"


def refused_of(outcomes: Iterable[Outcome]) -> str:
    """Return how many were refused of those that are not equivalent."""
    counting = [one.became for one in outcomes if one.became != "equivalent"]
    return f"{counting.count('refused')} of {len(counting)}"


def _survivors(results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        for one in result.outcomes:
            if one.became == "survived":
                line = f"{result.combination}: {one.mutation}"
                reason = next((words for start, words in REASONS.items() if line.startswith(start)), "not explained")
                lines.append(f"- {line[:150]} ({reason})")
    return ["Survivors:", "", *lines, ""] if lines else ["None survived.", ""]


def _rules(outcomes: Sequence[Outcome]) -> list[str]:
    """Return how often each rule held."""
    rules = [one.words for one in outcomes if one.became == "equivalent"]
    counts = sorted({(-rules.count(rule), rule) for rule in rules})
    return ["Equivalent, by rule:", "", *(f"- {-count} {rule}" for count, rule in counts)] if counts else []


def write(page: Path, text: str) -> None:
    """Put a text into a page, between the markers."""
    put_part(page, PART, text)
