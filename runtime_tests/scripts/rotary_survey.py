"""Every rotary module class of transformers and of diffusers, replaced by ours where ours are equal: run by hand.

python runtime_tests/scripts/rotary_survey.py          prints what came of every class
python runtime_tests/scripts/rotary_survey.py CLASS    prints what came of this one
python runtime_tests/scripts/rotary_survey.py --write  puts them into docs/reference/measured/rotary-modules.md

One of transformers is made alone of the default configuration of its config class, one of diffusers with what its
model, made by default, calls it with. `replace_rotary` compares ours with each over many sizes. It takes two minutes
on an idle machine.
"""

import argparse
import datetime
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf import diffusers_rotary
from helpers.hf.rotary_classes import WORDS, Answer, answers, classes
from helpers.made_parts import put_part

Answers = Callable[[Iterable[str]], Iterator[Answer]]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "rotary-modules.md"
TRANSFORMERS, DIFFUSERS = "counted", "counted in diffusers"


def listed(results: Sequence[Answer], word: str) -> str:
    """Return the names of a word with the reasons: of each reason a line."""
    names_of = defaultdict(list)
    for result in results:
        if result.word == word:
            names_of[result.why.partition(";")[0]].append(result.name)
    lines = sorted(names_of.items(), key=lambda item: -len(item[1]))
    return "".join(f"* {', '.join(names)}: {why}\n" for why, names in lines)


def summary(results: Sequence[Answer]) -> str:
    """Return what the page says."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    counts = Counter(result.word for result in results)
    cells = " | ".join(str(counts[word]) for word in WORDS)
    return (
        f"Counted on {datetime.date.today().isoformat()} with {libraries}: each class alone, made of the default\n"
        "configuration of its config class and compared with ours.\n\n"
        f"| of | there are | {' | '.join(WORDS)} |\n|---|---|---|---|---|\n"
        f"| rotary module classes | {len(results)} | {cells} |\n\n"
        f"Refused, and left as they were:\n\n{listed(results, 'refused')}\n"
        f"Not built, as the default configuration does not suffice:\n\n{listed(results, 'cannot be built')}"
    )


def summary_of_diffusers(results: Sequence[Answer]) -> str:
    """Return what the page says of diffusers: counts, and what came of each class."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("diffusers", "torch"))
    counts = Counter(result.word for result in results)
    cells = " | ".join(str(counts[word]) for word in WORDS)
    rows = "".join(f"| {result.name} | {result.word} | {result.why} |\n" for result in results)
    return (
        f"Counted on {datetime.date.today().isoformat()} with {libraries}: every class of `models` and `pipelines`\n"
        "whose name says that it is rotary, made alone with what its model, made by default, calls it with.\n\n"
        f"| of | there are | {' | '.join(WORDS)} |\n|---|---|---|---|---|\n"
        f"| rotary module classes of diffusers | {len(results)} | {cells} |\n\n"
        f"| class | what came of it | how, or why not |\n|---|---|---|\n{rows}"
    )


def arguments() -> argparse.Namespace:
    """Return the options of the command line; end where no class has a name, or where a few are to be counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a rotary module class (default: all)")
    parser.add_argument("--write", action="store_true", help=f"put the counts into {PAGE.name}")
    options = parser.parse_args()
    unknown = set(options.names) - set(classes()) - set(diffusers_rotary.classes())
    if unknown:
        parser.error(f"no rotary module class of transformers or diffusers: {', '.join(sorted(unknown))}")
    if options.write and options.names:
        parser.error("--write counts every class: give no NAME with it")
    return options


def surveyed(names: Sequence[str], homes: Mapping[str, str], answers_of: Answers) -> list[Answer]:
    """Return what came of the classes of a library, all or those that are named, and print it."""
    results = []
    for result in answers_of([name for name in names or homes if name in homes]):
        print(f"{result.name}: {result.word}: {result.why}", flush=True)
        results.append(result)
    return results


def main() -> None:
    """Print the survey, or put its counts into the page."""
    options = arguments()
    warnings.filterwarnings("ignore")
    text = summary(surveyed(options.names, classes(), answers))
    more = summary_of_diffusers(surveyed(options.names, diffusers_rotary.classes(), diffusers_rotary.answers))
    if options.write:
        put_part(PAGE, TRANSFORMERS, text)
        put_part(PAGE, DIFFUSERS, more)
    print(f"{text}\n{more}")


if __name__ == "__main__":
    main()
