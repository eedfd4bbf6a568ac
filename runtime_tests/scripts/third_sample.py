"""A third sample, made when what was missed in the second was mended, and counted once: run by hand.

python runtime_tests/scripts/third_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/third_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.foreign.truth import Held
from helpers.unseen import third
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import Source, exported, slug, sources
from scripts.unseen_files import Job, main, optimized

OPTIMIZED = {
    "onnxsim": (
        "emu3_text_model.new",
        "metaclip_2_text_model.old-17",
        "timm.deit3.old-17",
        "litgpt.phi.old-20",
        "diffusers.PriorTransformer.old-17",
        "sam_hq_vision_model.old-17",
    ),
    "onnxslim": (
        "lfm2_moe.old-17",
        "ibert.old-17",
        "vit_pytorch.cct.old-17",
        "x_transformers.half.old-17",
        "torchtune.phi3.new-23",
    ),
    "ORT extended": (
        "paddleocr_vl_text.old-17",
        "timm.reg4.old-17",
        "torchtune.qwen2.new",
        "timm.swin_ape.old-17",
    ),
    "ORT all": (
        "hy_v3.old-20",
        "aimv2_text_model.new",
        "litgpt.condensed.old-17",
        "moshi.sin_rope.old-17",
        "swin2sr.old-17",
    ),
}
"""What optimizers make of some files."""


def by_optimizers() -> Iterator[Job]:
    """Yield what optimizers make of some files."""
    models, networks = (*third.MODELS, *third.MORE_MODELS), (*third.NETWORKS, *third.MORE_NETWORKS)
    made = {f"{name}.{slug(way)}": (partial(making, way), held)
            for name, making, held, ways in sources(models, networks) for way in ways}  # fmt: skip
    for how, names in OPTIMIZED.items():
        for name in names:
            make, held = made[name]
            yield Job(f"{name}.{slug(how)}.onnx", held, partial(optimized, make, f"{name}.onnx", how))


def others() -> Iterator[Source]:
    """Yield the networks of the first list by the exporter of PyTorch that they have not been exported by."""
    for name, making, held, ways in sources(third.MODELS, third.NETWORKS):
        if not any(way.startswith("new") for way in ways):
            yield name, making, held, ("new",)
        elif not any(way.startswith("old") for way in ways):
            yield name, making, held, ("old 17",)


def as_traced(job: Job) -> Job:
    """Return a file with what it holds: CLIPSeg resizes its table wherever it is traced, and products may be folded."""
    if job.file.startswith("clipseg_vision_model.old"):
        return replace(job, held=(Held("grid", "interpolated", {"dim": 32, "rows": 16}),))
    if job.file in ("swin2sr.new.onnx", "swin2sr.old-17.ORT-all.onnx"):
        # as of Swin V2 in the first sample: no coordinates are left, but the products of theirs and the weights
        return replace(job, held=(Held("window", "table", {"heads": 2, "window": [4, 4]}, (0, 1)),))
    return job


if __name__ == "__main__":
    operators_of_torchvision()
    first = exported(list(sources(third.MODELS, third.NETWORKS)))
    more = exported(list(sources(third.MORE_MODELS, third.MORE_NETWORKS)))
    main(map(as_traced, chain(first, more, exported(list(others())), by_optimizers())))
