"""Which graphs does a browser compute? A script, run by hand after a change of graphs, or of onnxruntime-web.

    python runtime_tests/scripts/browsers.py FOLDER  # bundles go there, the table into docs/reference/measured/files.md

The sample of every scheme, dynamic and baked, is held against eager PyTorch in Chromium: with WebAssembly, and on both
WebGPU providers of onnxruntime-web. A bundle that is there already is not written again. All run in one browser.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten

sys.path.insert(0, str(Path(__file__).parents[1]))

from posenc_export.proof.judging.verdict import ValidateOptions, Verdict
from scripts.compat_table import BROWSERS, put_table
from scripts.old_runtimes import GOOD, outcome
from scripts.phones import CASE, LONG, of_samples

RUNTIMES = ("browser-wasm", "browser-webgpu", "browser-jsep")
TIMEOUT = 60.0
"""Seconds of a call: the slowest one takes two where the GPU is software."""


def results(bundle: Path, names: tuple[str, ...] = RUNTIMES) -> dict[str, str]:
    """Return what comes of a bundle on runtimes, in words: of its cases, and of the calls that it must refuse."""
    from posenc_export.bundle.folder import Bundle
    from posenc_export.proof.running.run import validate_bundle

    options = ValidateOptions(runtimes=names, timeout=TIMEOUT)
    rows = validate_bundle(Bundle.open(bundle, trusted=True), options)
    return {name: words_of([row for row in rows if row.subject == name]) for name in names}


def words_of(rows: list[Verdict]) -> str:
    """Return what came of a file on a runtime, in words: the first row that failed, else whether it agrees."""
    failed = [row for row in rows if row.status == "fail"]
    first = next(iter(failed), next(row for row in rows if row.check == "agrees"))
    return shorten(CASE.sub("", outcome(first, 400)), LONG)


def measure(folder: Path) -> None:
    """Put the table of every sample on each runtime into the page."""
    bundles, rows = of_samples(folder, results)
    put_table(bundles, rows, BROWSERS, f"; {', '.join(counted(name, words) for name, words in rows.items())}")


def counted(runtime: str, words: Mapping[str, str]) -> str:
    """Return how many files a runtime computes, in words."""
    return f"{runtime} computes {sum(one in GOOD for one in words.values())} of {len(words)} files"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    measure(Path(sys.argv[1]))
