"""Every model type that `--from-hf` may read, held against the model's own code: run by hand, not by pytest.

python runtime_tests/scripts/hf_survey.py                 prints every model type: right, wrong, refused, not decided
python runtime_tests/scripts/hf_survey.py llama bert      prints these
python runtime_tests/scripts/hf_survey.py --write         puts the counts into docs/reference/measured/configs.md
python runtime_tests/scripts/hf_survey.py --keep=FILE     goes on with what FILE has, and keeps there what is found

A default configuration of each model type of transformers, and of each class of diffusers that has an encoding, is
read, and the module that is made of it compared with the model's own. Then it is read again
with the keys that published files have. It takes ten minutes on an idle machine.
"""

import argparse
import datetime
import json
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from posenc_models.config.encodings.diffusion import DIFFUSION

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf.surveyed import Finding, names, survey, word_of
from helpers.made_parts import put_part

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "configs.md"
PART = "counted"
Found = dict[str, list[Finding]]


def reason(finding: Finding) -> str:
    """Return why a config is refused, or its model not asked, without what is its own."""
    why = re.sub(r"^the config \(.*?\) (cannot be read: )?", "", finding.why)
    return why.partition(". ")[0][:160]


def row(what: str, found: Found) -> str:
    """Return a row of the table: how many there are, and what came of them."""
    words = Counter(word_of(findings) for findings in found.values())
    counts = " | ".join(str(words[word]) for word in ("right", "wrong", "refused", "not decided"))
    return f"| {what} | {len(found)} | {counts} |"


def by_scheme(found: Found) -> str:
    """Return how many are read rightly as each scheme."""
    right = {(f.name, f.scheme) for findings in found.values() for f in findings if f.word == "right"}
    return ", ".join(f"{scheme} {count}" for scheme, count in Counter(scheme for _, scheme in right).most_common())


def listed(found: Found, word: str) -> str:
    """Return the names of a word with the reasons: of each reason a line."""
    names_of = defaultdict(list)
    for name, findings in found.items():
        if word_of(findings) == word:
            names_of[next(reason(f) for f in findings if f.word == word)].append(name)
    lines = sorted(names_of.items(), key=lambda item: -len(item[1]))
    return "".join(f"* {', '.join(some)}: {why}\n" for why, some in lines)


def unread(found: Found) -> int:
    """Return how many have no encoding that is known."""
    no_scheme = ("no encoding", "no rotary encoding", "no other encoding is known")
    refused = [f for f in found.values() if word_of(f) == "refused"]
    return sum(all(any(text in finding.why for text in no_scheme) for finding in findings) for findings in refused)


def summary(types: Found, classes: Found, published: Found) -> str:
    """Return what the page says."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "diffusers", "torch"))
    today = datetime.date.today().isoformat()
    rows = (("model types of transformers", types), ("with keys of published files", published))
    table = "\n".join(row(words, found) for words, found in (*rows, ("classes of diffusers", classes)))
    return (
        f"Counted on {today} with {libraries}, by the comparison with the model's own code.\n\n"
        "| of | there are | right | wrong | refused | not decided |\n|---|---|---|---|---|---|\n"
        f"{table}\n\n"
        "Keys of published files are old names, and what validation passes over: `rope_scaling`,\n"
        "`type`, bases and shares beside them, names of `attribute_map`,\n"
        "HunYuan's `alpha`, Qwen3-Omni's `interleaved`.\n\n"
        f"Right, by scheme, of which a model may have several: {by_scheme({**types, **classes})}.\n"
        f"No encoding of positions is known for {unread(types)} of the refused types.\n\n"
        f"Not decided, as the model could not be asked:\n\n{listed({**types, **classes}, 'not decided')}"
    )


def gather(wanted: Sequence[str], kept: Path | None, published: bool = False) -> Found:
    """Ask about each of which nothing is kept, and print what came of it."""
    kept = kept.with_name(f"{kept.name}.published") if kept is not None and published else kept
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    found: Found = {}
    for line in lines:
        findings = [Finding(**one) for one in json.loads(line)]
        found[findings[0].name] = findings
    for findings in survey((name for name in wanted if name not in found), published):
        found[findings[0].name] = findings
        for f in findings:
            print(f"{f.word}: {f.name}{f.part and f' ({f.part})'} {f.scheme}: {f.why}", flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([asdict(f) for f in findings]) + "\n")
    return {name: found[name] for name in wanted}


def arguments() -> argparse.Namespace:
    """Return the options of the command line; end where no library has a name, or where a few are to be counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a model type, or a class of diffusers (default: all)")
    parser.add_argument("--write", action="store_true", help="put the counts into docs/reference/measured/configs.md")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where findings are kept, and read again")
    options = parser.parse_args()
    unknown = set(options.names) - {*names(), *DIFFUSION}
    if unknown:
        parser.error(f"no model type of transformers, and no class of diffusers: {', '.join(sorted(unknown))}")
    if options.write and options.names:
        parser.error("--write counts every model type: give no NAME with it")
    return options


def main() -> None:
    """Print the survey, or put its counts into the page."""
    options = arguments()
    warnings.filterwarnings("ignore")
    types = gather([name for name in options.names or names() if name not in DIFFUSION], options.keep)
    classes = gather([name for name in options.names or DIFFUSION if name in DIFFUSION], options.keep)
    published = gather(list(types), options.keep, published=True)
    text = summary(types, classes, published)
    if options.write:
        put_part(PAGE, PART, text)
    print(text)


if __name__ == "__main__":
    main()
