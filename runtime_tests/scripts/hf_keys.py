"""Every key that a model's code reads, changed one at a time: run by hand, not by pytest.

python runtime_tests/scripts/hf_keys.py                 prints what comes of each change that is wrong, or not decided
python runtime_tests/scripts/hf_keys.py llama bert      prints these; llama:yarn is a llama of that rope type
python runtime_tests/scripts/hf_keys.py --write         puts the counts into docs/reference/measured/configs.md
python runtime_tests/scripts/hf_keys.py --keep=FILE     goes on with what FILE has, and keeps there what is found

What is read of the changed config is held against the model's own code, in the same way as `hf_survey.py` does.
"""

import datetime
import json
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf.keyed import OF_FILES, ROPE_TYPES, TYPES, Outcome, tried
from helpers.made_parts import put_part

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "configs.md"
PART = "keys"
ALL = (*OF_FILES, *(f"llama:{name}" for name in ROPE_TYPES), *TYPES)
Found = Mapping[str, Sequence[Outcome]]


def gather(names: Sequence[str], kept: Path | None) -> Found:
    """Try each config of which nothing is kept, and print what came of it."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
    found: dict[str, Sequence[Outcome]] = {}
    for outcomes in ([Outcome(**one) for one in json.loads(line)] for line in lines):
        found[outcomes[0].name] = outcomes
    for name, tried_now in tried([name for name in names if name not in found]):
        outcomes = (
            [Outcome(name, "", "as it is", "not decided", tried_now)] if isinstance(tried_now, str) else tried_now
        )
        found[name] = outcomes
        print(shown(name, outcomes), flush=True)
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([asdict(outcome) for outcome in outcomes]) + "\n")
    return {name: found[name] for name in names}


def shown(name: str, outcomes: Sequence[Outcome]) -> str:
    """Return the counts of a config, and a line for each change that is wrong or not decided."""
    counts = Counter(outcome.word for outcome in outcomes)
    lines = [f"{name}: {', '.join(f'{word} {count}' for word, count in counts.most_common())}"]
    lines += [f"  {o.word}: {o.path} {o.how}: {o.why}" for o in outcomes if o.word in ("wrong", "not decided")]
    return "\n".join(lines)


def summary(found: Found) -> str:
    """Return what the page says."""
    changes = [outcome for outcomes in found.values() for outcome in outcomes if outcome.path]
    counts = Counter(change.word for change in changes)
    keys = len({(change.name, change.path) for change in changes})
    libraries = ", ".join(f"{name} {version(name)}" for name in ("transformers", "torch"))
    started = {name for name, outcomes in found.items() if outcomes[0].word == "right"}
    files, scaled = (", ".join(name for name in found if name in some and name in started) for some in (OF_FILES, ALL))
    types = ", ".join(name for name in scaled.split(", ") if name not in OF_FILES)
    unlike = [f"{c.name} `{c.path}` ({c.how})" for c in changes if c.word in ("wrong", "not decided")]
    others = "; ".join((*unlike, *(f"{name} as it is" for name in found if name not in started)))
    today = datetime.date.today().isoformat()
    return (
        f"On {today}, with {libraries}, {keys:,} keys of {len(started)} configs were changed, {len(changes):,} changes "
        f"in all.\nThe reading followed the model in {counts['followed']:,}, stayed as the model did in "
        f"{counts['the same']:,}, and was refused in {counts['refused']:,};\n{counts['wrong']} were wrong, and "
        f"{counts['not decided']} not decided{f' ({others})' if others else ''}; {counts['not taken']:,} are changes\n"
        "that the model's own class or code does not take.\n"
        f"Tried were the files {files},\nand the default configurations of {types};\nno others.\n"
    )


def main() -> None:
    """Print what comes of the changes, or put the counts into the page."""
    warnings.filterwarnings("ignore")
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    kept = next((Path(arg.removeprefix("--keep=")) for arg in sys.argv if arg.startswith("--keep=")), None)
    text = summary(gather(names or ALL, kept))
    if "--write" in sys.argv:
        put_part(PAGE, PART, text)
    print(text)


if __name__ == "__main__":
    main()
