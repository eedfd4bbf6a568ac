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

from helpers.unseen import fifth, fifth_packages
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import built, exported, slug, sources
from scripts.unseen_files import Job, main, optimized

NETWORKS = (*fifth.NETWORKS, *fifth_packages.NETWORKS)
BY_MOBIUS = ("granite", "olmo2", "nemotron", "starcoder2")
"""Types of transformers that mobius builds, too."""
OPTIMIZED: dict[str, tuple[str, ...]] = {
    "onnxsim": (
        "timm.convit.old-17",
        "tutorial.chatglm2.old-17",
        "qwen3_5_text.old-17",
        "gemma3n_text.old-17",
        "moshi.old-17",
        "vit_pytorch.qk_norm.old-17",
    ),
    "onnxslim": (
        "granitemoe_swa.old-17-positions",
        "pix2struct_vision_model.old-17",
        "tapas.old-17",
        "litgpt.qwen3.old-18",
        "vit_pytorch.memory.old-17",
    ),
    "ORT basic": ("got_ocr2_vision.old-17", "tutorial.baichuan.old-17"),
    "ORT extended": (
        "qwen3_next.old-17",
        "bridgetower_vision_model.old-17",
        "molmo2_text.old-17",
        "colbert.bert.old-14",
    ),
    "ORT all": (
        "kosmos_2_5_text_model.old-17",
        "timm.maxvit_tf.old-17",
        "parakeet_ctc.old-18",
        "tutorial.jina_v2.old-15",
    ),
    "ORT bert": ("kokoro.plbert.old-15", "colbert.bert.old-14", "reranker.xlm_roberta.old-18", "gte.old-19"),
    "ORT gpt2": ("gpt2.old-15",),
    "ORT float16": (
        "qwen2_5_omni_text.old-17",
        "llama.old-19-positions",
        "rt_detr_v2.old-17",
        "timm.mvitv2.old-17",
    ),
    "common float16": ("siglip2_text_model.old-17", "clvp_decoder.old-17"),
    "quantize_dynamic": ("marian.old-19", "opt.old-19", "tapas.old-17"),
    "MatMulNBits": ("mistral.old-19-cached", "qwen3.old-19"),
    "rows int8": ("tutorial.left_learned.old-16", "clvp_decoder.old-17"),
}
"""What optimizers, converters and quantizers make of some files."""


def by_optimizers() -> Iterator[Job]:
    """Yield what optimizers make of some files."""
    made = {f"{name}.{slug(way)}": (partial(making, way), held)
            for name, making, held, ways in sources(fifth.MODELS, NETWORKS) for way in ways}  # fmt: skip
    for how, names in OPTIMIZED.items():
        for name in names:
            make, held = made[name]
            yield Job(f"{name}.{slug(how)}.onnx", held, partial(optimized, make, f"{name}.onnx", how))


def by_builders() -> Iterator[Job]:
    """Yield what mobius builds of types of transformers."""
    for name, making, held, _ in sources(fifth.MODELS, ()):
        if name in BY_MOBIUS:
            yield Job(f"{name}.mobius.onnx", held, partial(built, partial(making, "old 17")))


def jobs() -> Iterator[Job]:
    """Yield the files."""
    given = list(sources(fifth.MODELS, NETWORKS))
    first = exported([(name, making, held, ways[:1]) for name, making, held, ways in given])
    second = exported([(name, making, held, ways[1:]) for name, making, held, ways in given])
    yield from chain(first, by_builders(), by_optimizers(), second)


if __name__ == "__main__":
    operators_of_torchvision()
    main(jobs())
