"""Whole models: a folder that `save_pretrained` wrote becomes one module, with names that runtimes know.

>>> folder = ModelFolder.load(Path("llama"))
>>> folder.task.name
'text-generation'
>>> folder.build().outputs[:3]
('logits', 'present.0.key', 'present.0.value')

`tasks` says what each task takes and gives, by the names that other tools have for them. `folder` reads a folder,
`weights` checks its files of weights, `modules` has the modules that call a model, `quantized` rounds weights to blocks
of a few bits, and `companions` finds what goes with a model, as its tokenizer. Nothing here needs torch or transformers
before `build`.
"""

from posenc_models.whole.companions import GENERATION, companions
from posenc_models.whole.folder import ModelFolder, WholeModel
from posenc_models.whole.quantized import BITS, BLOCK, Blocks, Quantize, blocks_of
from posenc_models.whole.tasks import KEY_VALUES, TASKS, Task

__all__ = [
    "BITS",
    "BLOCK",
    "GENERATION",
    "KEY_VALUES",
    "TASKS",
    "Blocks",
    "ModelFolder",
    "Quantize",
    "Task",
    "WholeModel",
    "blocks_of",
    "companions",
]
