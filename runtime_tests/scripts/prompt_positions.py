"""Hold positions of prompts with images and videos against each model's own code: `python ... [PROMPTS] [TYPE ...]`.

For each model type of transformers with a `get_rope_index` it draws batches of prompts at random, and compares the
function in NumPy and the graph, in ONNX Runtime, with that function: a line for each type.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from helpers.prompt_graphs import OTHERS, TYPES, config_of, feeds_of, many, written
from posenc_models.vision import grid_positions, rule_of
from posenc_models.vision.rules import types_of


def line_of(model_type: str, count: int) -> str:
    """Return how often the function and the graph of a type are equal to the model's own."""
    try:
        rule, own = rule_of(config_of(model_type))
    except ValueError as error:
        return f"| `{model_type}` | not exported | {error} |"
    equal = {"NumPy": 0, "graph": 0}
    places = [0, 0]
    with tempfile.TemporaryDirectory() as folder:
        session = onnxruntime.InferenceSession(written(rule, Path(folder)))
        for prompts in many(rule, count):
            expected = own(rule, prompts)
            given = {name: value for name, value in vars(prompts).items() if name != "input_ids"}
            found = {
                "NumPy": grid_positions(rule, prompts.input_ids, **given),
                "graph": session.run(None, feeds_of(rule, prompts)),
            }
            for name, arrays in found.items():
                equal[name] += all(np.array_equal(one, other) for one, other in zip(arrays, expected, strict=True))
            types = types_of(rule, prompts)
            places = [places[0] + int((types == 1).sum()), places[1] + int((types == 2).sum())]
    said = f"{equal['NumPy']:,} in NumPy, {equal['graph']:,} in the graph, of {count:,} batches"
    return f"| `{model_type}` | {said} | {places[0]:,} places of images, {places[1]:,} of videos |"


def main() -> None:
    """Print a line for each model type."""
    count, *types = sys.argv[1:] or ["1000"]
    for model_type in types or [*TYPES, *OTHERS]:
        print(line_of(model_type, int(count)), flush=True)


if __name__ == "__main__":
    main()
