"""What optimum's class of a task gives for one call: run by task_loaders.py with a Python of its own, which lacks ours.

Called with the bundle, the class, and a .npz of the inputs; it prints the outputs as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optimum.onnxruntime
import torch


def main(folder: Path, name: str, inputs: Path, count: int) -> dict[str, Any]:
    cls = getattr(optimum.onnxruntime, name)
    model = cls.from_pretrained(folder)
    given = {key: torch.from_numpy(array) for key, array in np.load(inputs).items()}
    if count:
        model.generation_config.eos_token_id = None
        return {"tokens": model.generate(**given, max_new_tokens=count, do_sample=False, num_beams=1).tolist()}
    outputs = model(**given)
    return {key: value.tolist() for key, value in outputs.items() if isinstance(value, torch.Tensor)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
