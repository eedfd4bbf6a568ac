"""Every model type that `--from-hf` reads as rotary, in a table by what is read: run by hand, not by pytest.

python runtime_tests/scripts/rotary_models.py                prints what is read of each, and the table
python runtime_tests/scripts/rotary_models.py llama smollm3  prints these
python runtime_tests/scripts/rotary_models.py --write        puts it into docs/reference/measured/rotary-models.md
python runtime_tests/scripts/rotary_models.py --keep=FILE    goes on with what FILE has, and keeps there what is found

A default configuration of each model type of transformers is read, and the model's own code asked: of what it does not
agree with, no row is made. It takes five minutes on an idle machine.
"""

import argparse
import datetime
import json
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf.rotary_rows import Rotary, Row, groups, rotary_of
from helpers.hf.surveyed import SECONDS, apart, names
from helpers.made_parts import put_part
from posenc_export.common.markdown import table as markdown

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "rotary-models.md"
PART = "models"
HEAD = ("model types", "scheme", "rope type", "pairing", "rotated", "axes", "bases", "do not rotate")


def table(found: Sequence[Rotary]) -> str:
    """Return the rows of the page: those that most model types share first."""
    shared = sorted(groups(found).items(), key=lambda item: (-len(item[1]), item[1]))
    return markdown(HEAD, [(", ".join(sorted(names)), *row) for row, names in shared])


def summary(found: Sequence[Rotary]) -> str:
    """Return what the page says."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    read = [rotary.name for rotary in found if rotary.row]
    left_out = ", ".join(rotary.name for rotary in found if not rotary.row)
    return (
        f"Read on {datetime.date.today().isoformat()} with {libraries}: {len(read)} encodings of "
        f"{len({name.partition(' (')[0] for name in read})} model types, with which the model's own code agrees.\n\n"
        f"{table(found)}\n\n"
        "Not in the table, as the model's own code [could not be asked](../../how-to/from-hf.md#what-is-not-read), or "
        f"its default configuration is refused: {left_out}.\n"
    )


def gather(wanted: Sequence[str], kept: Path | None) -> list[Rotary]:
    """Ask about each of which nothing is kept, and print what came of it."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    found = {name: [Rotary(n, row and Row(*row), why) for n, row, why in rows] for name, rows in map(json.loads, lines)}
    for name in ("llama", "bert", "vit"):
        rotary_of(name)  # what all share is loaded once, and each process begins with it
    for name in (name for name in wanted if name not in found):
        rows = apart(rotary_of, name, SECONDS)
        found[name] = [Rotary(name, None, f"not decided: {rows}")] if isinstance(rows, str) else rows
        for rotary in found[name]:
            print(f"{rotary.name}: {rotary.why or rotary.row}", flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps((name, found[name])) + "\n")
    return [rotary for name in wanted for rotary in found[name]]


def arguments() -> argparse.Namespace:
    """Return the options of the command line; end where no model type has a name, or where a few are to be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a model type of transformers (default: all)")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where findings are kept, and read again")
    options = parser.parse_args()
    unknown = set(options.names) - set(names())
    if unknown:
        parser.error(f"no model type of transformers: {', '.join(sorted(unknown))}")
    if options.write and options.names:
        parser.error("--write reads every model type: give no NAME with it")
    return options


def main() -> None:
    """Print the table, or put it into the page."""
    options = arguments()
    warnings.filterwarnings("ignore")
    text = summary(gather(options.names or names(), options.keep))
    if options.write:
        put_part(PAGE, PART, text)
    print(text)


if __name__ == "__main__":
    main()
