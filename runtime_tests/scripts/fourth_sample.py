"""A fourth sample, made by others than those who mend the reader, and counted once: run by hand.

python runtime_tests/scripts/fourth_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/fourth_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.unseen import fourth, fourth_packages, fourth_tutorials
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import exported, sources
from scripts.unseen_files import Job, main


def jobs() -> Iterator[Job]:
    """Yield the files."""
    networks = (*fourth.NETWORKS, *fourth_tutorials.NETWORKS, *fourth_packages.NETWORKS)
    yield from exported(list(sources(fourth.MODELS, networks)))


if __name__ == "__main__":
    operators_of_torchvision()
    main(jobs())
