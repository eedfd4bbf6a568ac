"""Files of other exporters held against their models, and optimized ones against those before: run by hand.

python runtime_tests/scripts/proved.py                     holds every file, and prints what came of it
python runtime_tests/scripts/proved.py llama bert          holds the files of these models
python runtime_tests/scripts/proved.py --exported          holds files of exporters alone, none of optimizers
python runtime_tests/scripts/proved.py --keep=FILE         goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/proved.py --keep=FILE --kept  holds nothing more than what FILE has
python runtime_tests/scripts/proved.py --write             puts the tables into docs/reference/measured/exporters.md

It takes an hour on one core, two thirds of that for files of optimizers.
"""

import datetime
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.foreign.files import foreign_table, unpack
from helpers.foreign.generated import ELSEWHERE_MADE, MAIN, slug
from helpers.foreign.proved import Proved, measured
from helpers.foreign.towers import TINY
from helpers.foreign.truth import Truth
from helpers.made_parts import put_part

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "exporters.md"
PART = "proved"
EXPORTERS = (*MAIN, *(exporter for names in ELSEWHERE_MADE.values() for exporter in names))


def kept(path: Path | None) -> dict[str, Proved]:
    """Return what a file keeps, by name."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
    rows = [Proved(**json.loads(text)) for text in lines]
    return {row.file: row for row in rows}


def proved(truths: Iterable[Truth], path: Path | None) -> Iterator[Proved]:
    """Yield what came of each file, held where the file of results has nothing of it."""
    before = kept(path)
    for truth in truths:
        row = before.get(truth.file) or held(truth)
        if truth.file not in before:
            print(f"{row.verdict}: {row.file} {row.cases} {row.error}: {row.why}"[:200], flush=True)
            if path is not None:
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        yield row


def held(truth: Truth) -> Proved:
    """Hold a file, unpacked to a temporary folder with the one before it."""
    before = f"{truth.model}.{slug(truth.exporter)}.onnx" if truth.optimizer else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in unpack(truth.model, folder, {truth.file, before} - {""}):
            pass
        return measured(folder / truth.file, truth, folder / before if before else None)


def cell(row: Proved | None) -> str:
    """Return a cell of a table."""
    if row is None:
        return ""
    return f"{row.cases}: {row.error or 0:.0e}" if row.verdict == "pass" else f"**{row.verdict}**"


def table(rows: dict[tuple[str, str], Proved], head: str, columns: Iterable[str]) -> str:
    """Return rows by their first key, columns by their second."""
    columns = list(columns)
    lines = [f"| {head} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for name in dict.fromkeys(first for first, _ in rows):
        cells = (cell(rows.get((name, column))) for column in columns)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def reasons(rows: Iterable[Proved]) -> str:
    """Return a table of the files that do not pass, and of what is known to be wrong with them."""
    lines = ["| file | fails | why |", "|---|---|---|"]
    for row in rows:
        check, _, words = row.why.partition(": ")
        words = " ".join(words.split())[:150].replace("|", "\\|")
        lines.append(f"| `{row.file}` | {check} | {row.fault + ': ' if row.fault else ''}{words} |")
    return "\n".join(lines)


def summary(rows: list[Proved]) -> str:
    """Return the text between the markers of the page."""
    exported = [row for row in rows if not row.optimizer and "fault" not in row.file]
    after = [row for row in rows if row.optimizer and "fault" not in row.file]
    passed = sum(row.verdict == "pass" for row in rows)
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch", "onnx"))
    by_model = {(row.model, row.exporter): row for row in exported}
    by_optimizer = {(f"{row.model}, {row.exporter}", row.optimizer): row for row in after}
    parts = [
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: {passed} of {len(rows)} files pass. "
        "A cell has the calls that were compared, and the largest difference as a share of the largest value; it is "
        "empty where the exporter makes no file.",
        table(by_model, "model", EXPORTERS),
        *([table(by_optimizer, "before", dict.fromkeys(row.optimizer for row in after))] if after else []),
        "Those that do not pass:",
        reasons(row for row in rows if row.verdict != "pass"),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Hold the files, print, and put the tables into the page."""
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    path = next((Path(arg.removeprefix("--keep=")) for arg in sys.argv if arg.startswith("--keep=")), None)
    # a file of two layers by hand has no model of transformers
    truths = [truth for truth in foreign_table().truths if truth.model in (names or TINY)]
    chosen = [truth for truth in truths if not (truth.optimizer and "--exported" in sys.argv)]
    if "--kept" in sys.argv:
        chosen = [truth for truth in chosen if truth.file in kept(path)]
    text = summary(list(proved(chosen, path)))
    if "--write" in sys.argv:
        put_part(PAGE, PART, text)
    print(text)


if __name__ == "__main__":
    main()
