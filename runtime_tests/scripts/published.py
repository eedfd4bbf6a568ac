"""Published configs held against transformers' own code: run by hand, after a file was put into `data/published`.

python runtime_tests/scripts/published.py                  prints what comes of each
python runtime_tests/scripts/published.py llama-3.1-8b     prints these
python runtime_tests/scripts/published.py --write          writes what that code confirms into the files
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.hf.published import FOLDER, answer, file_of, hows, names
from helpers.hf.surveyed import Finding, findings_of


def findings(name: str) -> list[Finding]:
    """Return what comes of a config, of each of its parts and types of layers."""
    config = file_of(name)["config"]
    found = findings_of(str(config.get("model_type") or config.get("_class_name") or ""), config)
    return list({(f.part, f.word, f.why): f for f in found}.values())


def write(name: str, found: list[Finding]) -> None:
    """Write the answers, or the reason of a refusal, into a file."""
    content = {"config": file_of(name)["config"]}
    read = [f for f in found if f.word in ("right", "not decided")]
    if read:
        answers = [answer(content["config"], how) | {"judged": f.word} for f in read for how in hows(f.part)]
        content["answers"] = answers
    else:
        content["refused"] = found[0].why
    (FOLDER / f"{name}.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


def main() -> None:
    """Print what comes of each config; end with status 1 where one is read wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    wrong = False
    for name in options.names or names():
        found = findings(name)
        for f in found:
            print(f"{f.word}: {name}{f.part and f' ({f.part})'} {f.scheme}: {f.why}", flush=True)
        wrong |= any(f.word == "wrong" for f in found)
        if options.write and not any(f.word == "wrong" for f in found):
            write(name, found)
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
