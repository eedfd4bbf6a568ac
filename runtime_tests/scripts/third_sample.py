"""A third sample, made when what was missed in the second was mended, and counted once: run by hand.

python runtime_tests/scripts/third_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/third_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted
"""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.unseen import third
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import Source, exported, sources
from scripts.unseen_files import main


def others() -> Iterator[Source]:
    """Yield the networks of the first list by the exporter of PyTorch that they have not been exported by."""
    for name, making, held, ways in sources(third.MODELS, third.NETWORKS):
        if not any(way.startswith("new") for way in ways):
            yield name, making, held, ("new",)
        elif not any(way.startswith("old") for way in ways):
            yield name, making, held, ("old 17",)


if __name__ == "__main__":
    operators_of_torchvision()
    first = exported(list(sources(third.MODELS, third.NETWORKS)))
    more = exported(list(sources(third.MORE_MODELS, third.MORE_NETWORKS)))
    main(chain(first, more, exported(list(others()))))
