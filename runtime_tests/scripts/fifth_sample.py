"""A fifth sample, of what people deploy, made by others than those who mend the reader, and counted once: run by hand.

python runtime_tests/scripts/fifth_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/fifth_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted

What it needs stands in `helpers/unseen/__init__.py`.
"""

import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.unseen import fifth
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import exported, slug, sources
from scripts.unseen_files import Job, main, optimized

NETWORKS = (*fifth.NETWORKS,)
OPTIMIZED: dict[str, tuple[str, ...]] = {}
"""What optimizers, converters and quantizers make of some files."""


def by_optimizers() -> Iterator[Job]:
    """Yield what optimizers make of some files."""
    made = {f"{name}.{slug(way)}": (partial(making, way), held)
            for name, making, held, ways in sources(fifth.MODELS, NETWORKS) for way in ways}  # fmt: skip
    for how, names in OPTIMIZED.items():
        for name in names:
            make, held = made[name]
            yield Job(f"{name}.{slug(how)}.onnx", held, partial(optimized, make, f"{name}.onnx", how))


def jobs() -> Iterator[Job]:
    """Yield the files."""
    yield from chain(exported(list(sources(fifth.MODELS, NETWORKS))), by_optimizers())


if __name__ == "__main__":
    operators_of_torchvision()
    main(jobs())
