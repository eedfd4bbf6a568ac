"""A third sample, made when what was missed in the second was mended, and counted once: run by hand.

python runtime_tests/scripts/third_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/third_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.unseen import third
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import exported, sources
from scripts.unseen_files import main

if __name__ == "__main__":
    operators_of_torchvision()
    main(exported(list(sources(third.MODELS, third.NETWORKS))))
