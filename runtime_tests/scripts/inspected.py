"""How `posenc inspect` scores on the files of foreign_files: run by hand, not by pytest.

python runtime_tests/scripts/inspected.py                     # the totals, by exporter
python runtime_tests/scripts/inspected.py --misses [WORD..]   # the files whose names have a word; what is not right
python runtime_tests/scripts/inspected.py --write             # the table of docs/reference/measured/reading.md

Files are read by two processes at once, each by the code that the command runs in its child; each is held against the
config of its model, or against the file that it was made of. It takes ten minutes on two cores.
"""

import argparse
import datetime
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.foreign.files import foreign_files, foreign_table
from helpers.foreign.read import scored
from helpers.foreign.scored import Score
from helpers.made_parts import put_part

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "reading.md"
PART = "scored"


def scores(model: str, words: Sequence[str]) -> list[Score]:
    """Return the scores of a model's files."""
    named = [truth.file for truth in foreign_table().truths if truth.model == model]
    chosen = {file for file in named if not words or any(word in file for word in words)}
    return [scored(path, truth) for path, truth in foreign_files([model]) if truth.file in chosen]


def all_scores(words: Sequence[str]) -> Iterator[Score]:
    """Yield the score of every file, two models at a time."""
    models = list(dict.fromkeys(truth.model for truth in foreign_table().truths))
    with ProcessPoolExecutor(2) as pool:
        for made in pool.map(scores, models, [words] * len(models)):
            yield from made


def row(title: str, among: Sequence[Score]) -> str:
    """Return a row of the table."""
    ends = [entry.end for entry in among if entry.end is not None]
    faults = [entry.fault for entry in among if entry.fault is not None]
    cells = (
        title,
        str(len(among)),
        f"{sum(entry.named for entry in among)} of {sum(entry.encodings for entry in among)}",
        f"{sum(ends)} of {len(ends)}" if ends else "",
        f"{sum(faults)} of {len(faults)}" if faults else "",
        str(sum(entry.false for entry in among)),
    )
    return f"| {' | '.join(cells)} |"


def table(made: Sequence[Score]) -> str:
    """Return the table: a row for each exporter, one for what optimizers made of their files, and one for all."""
    heads = ("files of", "files", "encodings named, with parameters", "ends, to the unit", "faults named", "false")
    right = [entry for entry in made if ".fault-" not in entry.truth.file]
    plain = [entry for entry in right if not entry.truth.optimizer]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for exporter in dict.fromkeys(entry.truth.exporter for entry in plain):
        lines.append(row(exporter, [entry for entry in plain if entry.truth.exporter == exporter]))
    for optimizer in dict.fromkeys(entry.truth.optimizer for entry in right if entry.truth.optimizer):
        lines.append(row(f"... then {optimizer}", [entry for entry in right if entry.truth.optimizer == optimizer]))
    lines.append(row("faults put in by hand", [entry for entry in made if ".fault-" in entry.truth.file]))
    return "\n".join([*lines, row("all", made)])


def write(made: Sequence[Score]) -> None:
    """Put the table into the page."""
    slowest = max(entry.seconds for entry in made)
    note = f"Counted on {datetime.datetime.now(datetime.UTC).date()}; the slowest file took {slowest:.1f} s of CPU."
    put_part(PAGE, PART, f"{note}\n\n{table(made)}\n")


def main() -> None:
    """Score, and print or write what came of it."""
    parser = argparse.ArgumentParser(description="score posenc inspect on files of other exporters")
    parser.add_argument("words", nargs="*", help="words in the names of files; none for all files")
    parser.add_argument("--misses", action="store_true", help="print what is not right")
    parser.add_argument("--write", action="store_true", help="write the table of docs/reference/measured/reading.md")
    arguments = parser.parse_args()
    made = []
    for entry in all_scores(arguments.words):
        made.append(entry)
        for miss in entry.misses if arguments.misses else ():
            print(f"{entry.truth.file}: {miss}", flush=True)
    print(table(made))
    if arguments.write and not arguments.words:
        write(made)


if __name__ == "__main__":
    main()
