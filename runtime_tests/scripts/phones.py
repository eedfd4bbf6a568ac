"""Which graphs do the runtimes of phones compute? A script, run by hand after a change of graphs or of those runtimes.

    python runtime_tests/scripts/phones.py FOLDER    # bundles go there, the table into docs/reference/measured/files.md

The sample of every scheme, dynamic and baked, is held against eager PyTorch on tract and on MNN, as `posenc validate`
does it. A bundle that is there already is not written again.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import shorten

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.compat_table import PHONES, put_table, title
from scripts.old_runtimes import GOOD, One, by_validation, export

RUNTIMES = ("tract", "mnn")
NODE = re.compile(r"^\w[\w ]* (?:for )?node #\d+ \"[^\"]*\" (\w+)(?: ToTypedTranslator)?: ")
"""How tract begins what it says of a node: the operator is what tells."""
OPERATOR = r"\1: "
CASE = re.compile(r"(?<=^fails: )batch\S+: | \(and \d+ more\)$")
"""Which case fails, and how many others."""
LONG = 140
"""Characters of a reason."""


def samples() -> dict[str, One]:
    """Return the first sample of every scheme in each mode that it has, by name."""
    from posenc.scheme import SCHEMES

    pairs = [(one, mode) for one in SCHEMES.values() for mode in ("dynamic", "baked")]
    there = [(one, mode) for one, mode in pairs if mode not in one.unsupported.modes]
    return {f"{one.name} {mode}": (one.name, dict(one.samples[0]), mode, None, "fp32") for one, mode in there}


def refusal(words: str) -> str:
    """Return why a file is refused, by the operator that stops it; other words as they are."""
    _, refused, why = words.partition("cannot load model.onnx: ")
    return shorten(f"refused: {NODE.sub(OPERATOR, why)}" if refused else CASE.sub("", words), LONG)


def results(bundle: Path) -> dict[str, str]:
    """Return what comes of a bundle on both runtimes, in words."""
    words = zip(RUNTIMES, by_validation(bundle, *RUNTIMES, most=400), strict=True)
    return {runtime: refusal(text) for runtime, text in words}


def of_samples(
    folder: Path, results: Callable[[Path], Mapping[str, str]]
) -> tuple[dict[str, Path], dict[str, dict[str, str]]]:
    """Write every sample that is not there yet; return the bundles, and what comes of each by runtime, in words."""
    bundles = {name: folder / name.replace(" ", "-") for name in samples()}
    rows: dict[str, dict[str, str]] = {}
    for name, one in samples().items():
        if not bundles[name].exists():
            export(one, bundles[name])
        for runtime, words in results(bundles[name]).items():
            rows.setdefault(runtime, {})[name] = words
            print(runtime, name, words, sep=": ", flush=True)
    return bundles, rows


def measure(folder: Path) -> None:
    """Put the table of every sample on both runtimes into the page."""
    bundles, rows = of_samples(folder, results)
    put_table(bundles, rows, PHONES, f"; {', '.join(counted(name, words) for name, words in rows.items())}")


def counted(runtime: str, results: Mapping[str, str]) -> str:
    """Return how many files a runtime computes, in words."""
    good = sum(words in GOOD for words in results.values())
    return f"{title(runtime)} computes {good} of {len(results)} files ({100 * good // len(results)}%)"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    measure(Path(sys.argv[1]))
