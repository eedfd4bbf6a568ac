"""Folders of sentence-transformers, each given to `posenc export --model`: run by hand, not by pytest.

python runtime_tests/scripts/sentence_folders.py                exports every folder, and prints what came of it
python runtime_tests/scripts/sentence_folders.py --keep FILE    goes on with what FILE has, and keeps the rest there
python runtime_tests/scripts/sentence_folders.py --write        puts the table into docs/reference/measured/models.md

Each command is a process of its own. What the file gives is compared with the package's own vectors, which
sentence_vectors.py has stored. It takes eight minutes on two cores.
"""

import argparse
import datetime
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from helpers.sentence_folders import ENCODERS, VECTORS, Encoder, session_of, texts_of
from posenc_export.common.markdown import table
from scripts.model_folders import PAGE, Measured, gather, measure

HEAD = (
    "folder",
    "type",
    "modules",
    "verdict",
    "error against float64",
    "off the package's vectors",
    "seconds",
    "bytes",
)


@dataclass(frozen=True)
class MeasuredEncoder(Measured):
    """What came of a folder.

    Args:
        modules: what makes the vectors.
        off: how far the file's outputs are from the package's, as a share of the largest number.
    """

    modules: str = ""
    off: float | None = None


def measured(encoder: Encoder, folder: Path) -> MeasuredEncoder:
    """Export a folder, and say what came of it, with how far the file is from the package."""
    found = measure(encoder, folder)
    off = error_of(encoder, folder / "bundle" / "model.onnx") if found.verdict == "certified" else None
    return MeasuredEncoder(**{**asdict(found), "task": encoder.task}, modules=encoder.words, off=off)


def error_of(encoder: Encoder, path: Path) -> float:
    """Return how far a file is from what the package gives."""
    name = next(name for name, one in ENCODERS.items() if one is encoder)
    run = session_of(path)
    with np.load(VECTORS) as stored:
        return max(
            texts.error(output, array, stored[f"{name}/{number}/{output}"])
            for number, texts in enumerate(texts_of(name))
            for output, array in run(texts.ids, texts.mask).items()
        )


def summary(found: Sequence[MeasuredEncoder]) -> str:
    """Return the text between the markers of the page."""
    packages = {"transformers": "transformers", "torch": "torch", "onnxruntime": "onnxruntime-gpu"}
    libraries = ", ".join(f"{name} {version(package)}" for name, package in packages.items())
    certified = sum(one.verdict == "certified" for one in found)
    with np.load(VECTORS) as stored:
        made = str(stored["made"])
    rows = [
        (
            one.title,
            one.kind,
            one.modules,
            one.verdict + one.why,
            *("" if error is None else f"{error:.1e}" for error in (one.error, one.off)),
            f"{one.seconds:.0f}",
            f"{one.size:,}",
        )
        for one in found
    ]
    return (
        f"Measured on {datetime.date.today().isoformat()} with {libraries}: {certified} of {len(found)} are certified. "
        f"The package's vectors were made on {made}.\n\n{table(HEAD, rows)}\n"
    )


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where findings are kept, and read again")
    options = parser.parse_args()
    text = summary(list(gather(list(ENCODERS.values()), options.keep, MeasuredEncoder, measured)))
    if options.write:
        put_part(PAGE, "sentences", text)
    print(text)


if __name__ == "__main__":
    main()
