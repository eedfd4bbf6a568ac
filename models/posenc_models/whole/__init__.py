"""Whole models: a folder that `save_pretrained` wrote becomes one module, with names that runtimes know.

>>> folder = ModelFolder.load(Path("llama"))
>>> folder.task.name
'text-generation'
>>> folder.build().outputs[:3]
('logits', 'present.0.key', 'present.0.value')

`tasks` says what each task takes and gives, by the names that other tools have for them. `contents` looks at a folder,
`companions` names what goes with a model, as its tokenizer, and `download_cache` finds a model by its name. `choice`
picks the task. `loading` loads the model. `port_texts` describes what goes in; `model_memories` asks the model what its
layers remember, in the kinds of `memories`. `folder` puts all of it together. `modules` has the modules that call a
model, `adapters` merges a LoRA, and `quantized` rounds weights to blocks of a few bits. Nothing here needs torch or
transformers before `build`.
"""

from posenc_models.whole.companions import GENERATION
from posenc_models.whole.contents import Contents, look
from posenc_models.whole.folder import ModelFolder, WholeModel
from posenc_models.whole.memories import KEY_VALUES
from posenc_models.whole.pipeline import SENTENCE
from posenc_models.whole.quantized import BITS, BLOCK, Blocks, Quantize, blocks_of
from posenc_models.whole.tasks import TASKS, Task

__all__ = [
    "BITS",
    "BLOCK",
    "GENERATION",
    "KEY_VALUES",
    "SENTENCE",
    "TASKS",
    "Blocks",
    "Contents",
    "ModelFolder",
    "Quantize",
    "Task",
    "WholeModel",
    "blocks_of",
    "look",
]
