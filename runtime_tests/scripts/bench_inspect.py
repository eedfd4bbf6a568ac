"""What `posenc inspect` takes of time and memory on large files: a script, run by hand.

    python runtime_tests/scripts/bench_inspect.py FOLDER    # prints rows of docs/reference/measured/figures.md
    python runtime_tests/scripts/bench_inspect.py FOLDER --write    # puts them there

It writes its files into FOLDER, one at a time, and removes them: the largest takes 4 GiB. Files were just written, and
so lie in the system's cache: a slow disk takes its own time for 4 GiB.
"""

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.costs import cost_of_inspecting
from helpers.large_decoders import Decoder, write_decoder
from helpers.made_parts import put_part
from posenc_export.common.machine import processor, versions
from posenc_export.common.markdown import table

PAGE = Path(__file__).parents[2] / "docs/reference/measured/figures.md"
PART = "bench_inspect"
MIB = 2**20
LAYERS, ROWS = 32, 131072
FILES = {
    "32 layers with tables of their own, 131072 x 128, all alike (4 GiB beside the file)": Decoder(LAYERS, ROWS),
    "the same, a base for each layer": Decoder(LAYERS, ROWS, tuple(1e4 * (layer + 1) for layer in range(LAYERS))),
    "4096 nodes, cosines and sines computed in each layer": Decoder(128, 0),
    "2 layers, and a weight of 100 MB in the file": Decoder(2, 64, weights=100_000_000),
}


def imports_torch(path: Path) -> bool:
    """Return whether the command imports torch, in any of its processes."""
    words = [sys.executable, "-m", "posenc_export", "inspect", str(path)]
    environment = {**os.environ, "PYTHONVERBOSE": "", "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return any(line.split("|")[-1].strip() == "torch" for line in done.stderr.splitlines())


def rows(folder: Path) -> list[list[str]]:
    """Return a row for each file."""
    result = []
    for what, decoder in FILES.items():
        path = write_decoder(folder / "decoder.onnx", decoder)
        try:
            cost, torch = cost_of_inspecting(path), imports_torch(path)
        finally:
            path.unlink()
            path.with_suffix(".data").unlink(missing_ok=True)
        seconds = [f"{number:.1f} s" for number in (cost.wall, cost.cpu)]
        if cost.status or torch:
            raise SystemExit(f"{what}: status {cost.status}, torch {'is' if torch else 'is not'} imported")
        error = next((line.strip() for line in cost.lines if "error against" in line), "")
        result.append([what, *seconds, f"{cost.peak:.0f} MiB", error])
        sys.stderr.write(f"{' | '.join(result[-1])}\n")
    return result


def section(folder: Path) -> str:
    """Return the section of the page."""
    head = f"`python runtime_tests/scripts/bench_inspect.py FOLDER --write`, {datetime.date.today()}: {processor()}, "
    titles = ["file", "time", "CPU", "peak of a process", "says"]
    software = ", ".join(f"{name} {version}" for name, version in versions().items())
    return f"### Inspecting large files\n\n{head}{software}.\n\n{table(titles, rows(folder))}"


def main(arguments: Sequence[str]) -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    text = section(options.folder)
    sys.stdout.write(text)
    if options.write:
        put_part(PAGE, PART, f"\n{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
