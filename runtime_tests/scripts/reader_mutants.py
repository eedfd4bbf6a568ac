"""What `posenc inspect --config` finds of right files that were broken on purpose: run by hand, not by pytest.

python runtime_tests/scripts/reader_mutants.py                    # the table, and the mutants that are not found
python runtime_tests/scripts/reader_mutants.py llama gptj         # of the files of some models
python runtime_tests/scripts/reader_mutants.py --write            # the table of docs/reference/measured/reading.md

Each file of foreign_files that no optimizer has changed is broken in every way that applies to it. ONNX Runtime runs it
before and after: a change that moves no output is no fault. What is left must be an error of `inspect --config` that
names what is wrong. It takes a quarter of an hour on one core.
"""

import argparse
import datetime
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.foreign.files import foreign_files
from helpers.foreign.read import config
from helpers.made_parts import put_part
from helpers.reader_mutants import Outcome, Right, broken, held, outcome

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "reading.md"
PART = "mutants"


def outcomes(models: Sequence[str]) -> Iterator[Outcome | str]:
    """Yield what became of each mutant, and the name of each right file with an error that it should not have."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, truth in foreign_files(models or None, optimizers=[""], faulty=False):
            content = config(truth.model)
            if not content:
                continue
            beside = folder / "config.json"
            beside.write_text(content, encoding="utf-8")
            right = Right(path)
            yield from (f"{path.name}: {e.detail}" for e in held(path, beside) if e.severity == "error")
            yield from (outcome(right, entry, beside, folder) for entry in broken(right))


def table(made: Sequence[Outcome]) -> str:
    """Return the table: a row for each kind of change, and one for all."""
    lines = ["| what is broken | files | that matter | found | by the right name |", "|---|---|---|---|---|"]
    kinds = {kind: [entry for entry in made if entry.kind == kind] for kind in sorted({entry.kind for entry in made})}
    for kind, among in (*kinds.items(), ("all", list(made))):
        matter = [entry for entry in among if entry.matters]
        counts = len(among), len(matter), sum(e.found for e in matter), sum(e.named for e in matter)
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def survivors(made: Sequence[Outcome]) -> list[str]:
    """Return the mutants that matter and that no error names, in words."""
    return [f"{e.file}: {e.kind} ({e.site})" for e in made if e.matters and not (e.found and e.named)]


def main() -> None:
    """Break, and print or write what came of it."""
    parser = argparse.ArgumentParser(description="score posenc inspect on files that were broken on purpose")
    parser.add_argument("models", nargs="*", help="models of foreign_files; none for all")
    parser.add_argument("--write", action="store_true", help="write the table of docs/reference/measured/reading.md")
    arguments = parser.parse_args()
    found = list(outcomes(arguments.models))
    made = [entry for entry in found if isinstance(entry, Outcome)]
    false = [entry for entry in found if isinstance(entry, str)]
    left = survivors(made)
    lines = [*(f"false: {entry}" for entry in false), *(f"not found: {entry}" for entry in left)]
    print("\n".join([table(made), *lines]))
    if arguments.write and not arguments.models:
        day = datetime.datetime.now(datetime.UTC).date()
        files = len({entry.file for entry in made})
        note = f"Counted on {day}, of {files} right files, on which {len(false)} errors are reported."
        named = "\n".join(f"* {entry}" for entry in left) or "None is missed."
        put_part(PAGE, PART, f"{note}\n\n{table(made)}\n\n{named}\n")


if __name__ == "__main__":
    main()
