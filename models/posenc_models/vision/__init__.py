"""Positions of prompts with images and videos in them: how a model counts them, in NumPy and as one graph.

>>> rule = GridRule(image=7, merge=2)
>>> positions, rope_deltas = grid_positions(rule, [[5, 5, 7, 7, 6]], image_grid_thw=[[1, 2, 4]])
>>> positions[:, 0].tolist(), rope_deltas.tolist()
([[0, 1, 2, 2, 4], [0, 1, 2, 2, 4], [0, 1, 2, 3, 4]], [[0]])

`reference` has the function, `modules` the same without a loop, which is exported. `rules` finds the rule of a model:
its config says the ids, and its own code is asked for the rest. `prompts` draws prompts to try both with. Nothing here
needs torch or transformers before `modules`, and before a model's code is asked.
"""

from posenc.grid_rule import GridRule
from posenc_models.vision.prompts import Prompts, Sizes, random_prompts, with_fault
from posenc_models.vision.reference import grid_positions, kinds_of
from posenc_models.vision.rules import ASKED, OwnPositions, own_positions, rule_of

__all__ = [
    "ASKED",
    "GridRule",
    "OwnPositions",
    "Prompts",
    "Sizes",
    "grid_positions",
    "kinds_of",
    "own_positions",
    "random_prompts",
    "rule_of",
    "with_fault",
]
