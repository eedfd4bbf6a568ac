"""Every model class of transformers, given to `--model` as a small folder: run by hand, not by pytest.

python runtime_tests/scripts/survey_models.py                  prints what comes of every class
python runtime_tests/scripts/survey_models.py BartModel        prints what comes of these
python runtime_tests/scripts/survey_models.py --keep FILE      goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/survey_models.py --write          puts the tables into model-classes.md of docs/
python runtime_tests/scripts/survey_models.py --export 20      also exports and proves so many of those that are taken

The classes are those that the tables of transformers' auto classes name. Each is a process of its own, with 40 seconds
and 4 GiB: its default configuration with few layers and narrow widths, random weights, the folder read, the module
built and called once. It takes an hour on two cores. Classes that are exported are drawn by a seed; each is proved by
`--proof quick` on ONNX Runtime's CPU, and takes half a minute.
"""

import argparse
import datetime
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf.small_classes import Answer, Exported, answers, classes, export_of
from helpers.made_parts import put_part
from posenc_export.common.markdown import table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "model-classes.md"
PART, PART_OF_EXPORTS = "surveyed", "exported"
EXPORT = ("-f", "onnx", "--proof", "quick", "--runtime", "ort-cpu")
EXPORT_SECONDS = 300.0
OURS = re.compile(
    r"CRASH|(Attribute|Key|Index|Type|Runtime)Error|mat1 and mat2|object has no attribute|module itself fails"
)
"""Words that no refusal may have: they speak of a call that nobody made."""


def gather(wanted: Sequence[str], kept: Path | None) -> Iterator[Answer]:
    """Yield what comes of each class: what is kept first, then what is asked now, which is kept, too."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    before = {one["title"]: Answer(**one) for one in map(json.loads, lines)}
    yield from (before[name] for name in wanted if name in before)
    for found in answers([name for name in wanted if name not in before]):
        print(f"{found.title}: {found.task or found.line}", flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(asdict(found))}\n")
        yield found


def reason(answer: Answer) -> str:
    """Return a refusal without what is the class's own: its name, what it takes, and lines of code."""
    line = re.sub(rf"\b{re.escape(answer.title)}\b", "CLASS", answer.line).replace("FOLDER: ", "")
    line = re.sub(r"layer \d+", "layer N", re.sub(r"\([a-z_0-9]+\.py, line \d+\)", "(FILE, line N)", line))
    line = re.sub(r"; it takes .*, too", "", line)
    line = re.sub(r"(it|its encoder) takes (?!texts).*?, and for", r"\1 takes other inputs, and for", line)
    line = re.sub(r"\((\w+_config)(, \w+_config)*\)", "(...)", re.sub(r"shapes .*", "shapes ...", line))
    line = re.sub(r"\b\d+ (frames|types|codes)\b", r"N \1", line)
    line = re.sub(r"it answers .*?, and not", "it answers other tensors, and not", line)
    line = re.sub(r"does not answer without .*?, and (for|--)", r"does not answer without more inputs, and \1", line)
    return re.sub(r"caches [\w, ]+ beside", "caches more beside", line)


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return rows: what classes share, how many there are, and their names; the largest group first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for shared, name in pairs:
        groups[shared].append(name)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(shared, str(len(names)), ", ".join(sorted(names))) for shared, names in largest]


def summary(found: Sequence[Answer]) -> str:
    """Return the text between the markers of the page."""
    taken = [one for one in found if one.stage == "taken"]
    refused = [one for one in found if one.stage in ("load", "build", "call")]
    absent = [one for one in found if one.stage == "made"]
    ours = [one for one in refused if OURS.search(one.line)]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    counts = Counter(one.stage for one in refused)
    libraries_lacking = sum("requires the" in one.line or "No module named" in one.line for one in absent)
    absent_words = (
        f" No small model could be made of {len(absent)} more, of {libraries_lacking} for want of a library: "
        f"{', '.join(one.title for one in absent)}."
    )
    return (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: of {len(classes()):,} classes, "
        f"{len(found):,} were asked about. {len(taken)} are taken, and {len(refused)} are refused, {counts['load']} of "
        f"them by config.json alone; {len(ours)} of the lines speak of an error or a shape of a call that nobody made."
        f"{absent_words * bool(absent)}\n\n"
        f"Taken, by task:\n\n{table(('task', 'classes', 'names'), grouped((one.task, one.title) for one in taken))}\n\n"
        "Refused, by what the line says, CLASS being the class:\n\n"
        f"{table(('line', 'classes', 'names'), grouped((reason(one), one.title) for one in refused))}\n"
    )


def exports(taken: Sequence[str], count: int, seed: int, kept: Path | None) -> Iterator[Exported]:
    """Yield what comes of the exports of drawn classes: what is kept first, in the order of the draw."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    before = {one["title"]: Exported(**one) for one in map(json.loads, lines)}
    for name in random.Random(seed).sample(sorted(taken), min(count, len(taken))):
        found = before.get(name) or export_of(name, EXPORT, EXPORT_SECONDS)
        print(f"{name}: status {found.status}, {found.seconds:.0f} s {found.line}", flush=True)
        if kept is not None and name not in before:
            with kept.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(asdict(found))}\n")
        yield found


def summary_of_exports(found: Sequence[Exported], taken: int, seed: int) -> str:
    """Return the text on exports between the markers of the page."""
    counts = Counter(one.status for one in found)
    others = [one for one in found if one.status]
    rows = [(one.title, str(one.status) if one.status >= 0 else "none", one.line) for one in others]
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch", "onnxruntime-gpu"))
    right = ", ".join(sorted(one.title for one in found if not one.status))
    text = (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: {len(found)} of the {taken} classes that "
        f"are taken, drawn with the seed {seed}, were exported and proved (`posenc export --model FOLDER "
        f"{' '.join(EXPORT)}`). {counts[0]} passed: {right}.\n"
    )
    return text + (f"\n{table(('class', 'status', 'what it says'), rows)}\n" if rows else "")


def main() -> None:
    """Ask, print, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CLASS", help="a class of transformers (default: all)")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    parser.add_argument("--kept-only", action="store_true", help="asks nothing: the tables are of what FILE has")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where findings are kept, and read again")
    parser.add_argument("--export", type=int, default=0, metavar="N", help="so many classes are exported and proved")
    parser.add_argument("--seed", type=int, default=0, help="of the draw of these")
    parser.add_argument("--keep-exports", type=Path, metavar="FILE", help="where these are kept, and read again")
    options = parser.parse_args()
    known = classes()
    if unknown := set(options.names) - set(known):
        parser.error(f"transformers' auto classes name no {', '.join(sorted(unknown))}")
    if options.write and options.names:
        parser.error("--write asks about every class: give no CLASS with it")
    wanted = options.names or known
    if options.kept_only:
        lines = options.keep.read_text(encoding="utf-8").splitlines() if options.keep else []
        wanted = [json.loads(line)["title"] for line in lines]
    found = list(gather(sorted(wanted), options.keep))
    text = summary(found)
    if options.write:
        put_part(PAGE, PART, text)
    print(text)
    taken = [one.title for one in found if one.stage == "taken"]
    if options.export and taken:
        done = list(exports(taken, options.export, options.seed, options.keep_exports))
        text = summary_of_exports(done, len(taken), options.seed)
        if options.write:
            put_part(PAGE, PART_OF_EXPORTS, text)
        print(text)


if __name__ == "__main__":
    main()
