"""The table of what became of mutants, for docs/reference/measured/mutants.md."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx
import onnxruntime
import torch

from helpers.made_parts import put_part
from helpers.mutants.module_runs import DRAWS, ModuleResult
from helpers.mutants.mutations import KINDS
from helpers.mutants.outcomes import Outcome
from helpers.mutants.runs import Result

PART, PART_OF_MODULES = "mutants", "mutants of modules"
REASONS: dict[str, str] = {}
"""Why a survivor is none of our plan: by how its line begins."""
OF_MODULES: dict[str, str] = {
    "Distance": "its epsilon shows only where x is very near the weight",
    "SoftmaxOverMore": "a sum of exponentials is 0 or far above the epsilon, unless x is near its logarithm",
    "Entropy": "a share at which the epsilon shows is multiplied by itself, and the product is below the last digit",
    "MaskedShares": "a sum of what is above 1 is 0, which an epsilon of any size answers alike, or far above it",
}
"""Why mutants of a module survive: by the name of its class."""


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


def summary_of_modules(results: Sequence[ModuleResult]) -> str:
    """Return the table of modules as the page has it, a row for each class of modules, with survivors and versions."""
    minutes = sum(result.seconds for result in results) / 60
    lines = [
        f"{datetime.date.today().isoformat()}, {len(results)} modules, {minutes:.0f} minutes of processes "
        f"({os.cpu_count()} cores; torch {torch.__version__}, onnx {onnx.__version__}, "
        f"onnxruntime {onnxruntime.__version__}):",
        "",
        "| class of mutants | module | epsilons | mutants | refused | survivors |",
        "|---|---|---|---|---|---|",
    ]
    for draw in DRAWS:
        of_draw = [result for result in results if result.case.draw == draw]
        names = list(dict.fromkeys(result.case.kind.__name__ for result in of_draw))
        lines += [
            _row_of_module(draw, name, [result for result in of_draw if result.case.kind.__name__ == name])
            for name in names
        ]
        lines += [_row_of_module(draw, "all", of_draw)] if of_draw else []
    survivors = [(result, one) for result in results for one in result.outcomes if one.became == "survived"]
    counts = Counter(result.case.kind.__name__ for result, _ in survivors)
    lines += ["", "Survivors:" if counts else "None survived.", ""]
    lines += [f"- {count} of {name}: {OF_MODULES.get(name, 'not explained')}" for name, count in counts.items()]
    return "\n".join(lines) + "\n"


def _row_of_module(draw: str, name: str, results: Sequence[ModuleResult]) -> str:
    became = [one.became for result in results for one in result.outcomes]
    epsilons = len({result.case.epsilon for result in results})
    cells = [draw, name, epsilons, len(became), became.count("refused"), became.count("survived")]
    return f"| {' | '.join(map(str, cells))} |"


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


def write(page: Path, part: str, text: str) -> None:
    """Put a text into a page, between the markers of a part."""
    put_part(page, part, text)
