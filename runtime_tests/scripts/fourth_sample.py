"""A fourth sample, made by others than those who mend the reader, and counted once: run by hand.

python runtime_tests/scripts/fourth_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/fourth_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted

Beside it, `python -m helpers.unseen.fourth_frameworks FOLDER` makes the files of frameworks that do not run on PyTorch,
in an environment of their own. What each environment needs stands in `helpers/unseen/__init__.py`.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.unseen import fourth, fourth_frameworks, fourth_operators, fourth_packages, fourth_tutorials
from helpers.unseen.torch_packages import operators_of_torchvision
from scripts.second_sample import built, exported, slug, sources
from scripts.unseen_files import Job, main, optimized

NETWORKS = (*fourth.NETWORKS, *fourth_tutorials.NETWORKS, *fourth_packages.NETWORKS)
BY_MOBIUS = ("ministral3", "gemma4_text")
"""Types of transformers that mobius builds, too."""
OPTIMIZED = {
    "onnxsim": (
        "axk1.old-17",
        "timm.gcvit.old-17",
        "tutorial.nn_transformer.old-16",
        "ultrabert.old-17",
        "timm.vit_sam.old-17",
        "diffusers.CogVideoXTransformer3DModel.old-17",
    ),
    "onnxslim": (
        "layoutlmv3.old-17",
        "tutorial.left_padded.old-17",
        "pixtral.old-17",
        "qwen3_vl_text.old-17",
        "torchvision.swin3d.old-17",
    ),
    "ORT basic": ("mistral4.old-17", "joeynmt.old-17"),
    "ORT extended": ("csm_depth_decoder_model.new", "labml.rope.old-17", "timm.rope_mixed.new"),
    "ORT all": ("tutorial.llama2_c.old-14", "kosmos_2_text_model.old-17", "conformer.old-17"),
    "ORT bert": ("pretrained_bert.bert.old-11", "bridgetower_text_model.old-14"),
    "ORT gpt2": ("tutorial.nanogpt.old-18",),
    "ORT float16": (
        "ministral3.old-17-positions",
        "glmasr_encoder.old-17",
        "tutorial.alibi.old-14",
        "granite_swa.old-17-positions",
    ),
    "quantize_dynamic": ("vit_pytorch.vit_3d.old-17", "minicpm3.old-17-positions", "timm.crossvit.old-14"),
    "MatMulNBits": ("mellum.old-17",),
    "rows int8": ("owlv2_text_model.old-17", "bark.old-17"),
}
"""What optimizers, converters and quantizers make of some files."""


def by_mobius() -> Iterator[Job]:
    """Yield what mobius builds of types of transformers."""
    for name, making, held, _ in sources(fourth.MODELS, ()):
        if name in BY_MOBIUS:
            yield Job(f"{name}.mobius.onnx", held, partial(built, partial(making, "old 17")))


def by_optimizers() -> Iterator[Job]:
    """Yield what optimizers make of some files."""
    made = {f"{name}.{slug(way)}": (partial(making, way), held)
            for name, making, held, ways in sources(fourth.MODELS, NETWORKS) for way in ways}  # fmt: skip
    for how, names in OPTIMIZED.items():
        for name in names:
            make, held = made[name]
            yield Job(f"{name}.{slug(how)}.onnx", held, partial(optimized, make, f"{name}.onnx", how))


def shipped(package: str, inside: str, path: Path) -> None:
    """Copy a file that a package ships; it has no network beside it: right is what ONNX Runtime loads."""
    from onnxruntime import InferenceSession

    spec = find_spec(package)  # found, and not imported: it asks for more than its file
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(package)
    shutil.copy(Path(spec.submodule_search_locations[0]) / inside, path)
    InferenceSession(str(path), providers=["CPUExecutionProvider"])
    path.with_suffix(".json").write_text(json.dumps({"right": [0.0, 0.0, 0.0]}), encoding="utf-8")


def others() -> Iterator[Job]:
    """Yield files that packages ship, graphs that are written by hand, and those of other frameworks."""
    for part in ("pair", "head"):
        inside = f"weights/funcnet/x100_w32full_{part}.onnx"
        yield Job(f"atspm_detector.{part}.onnx", (), partial(shipped, "atspm_detector", inside))
    for written in fourth_operators.WRITTEN:
        yield Job(f"{written.name}.onnx", written.held, partial(fourth_operators.write, written))
    for foreign in fourth_frameworks.FOREIGN:
        yield Job(f"{foreign.name}.onnx", foreign.held, None)


def jobs() -> Iterator[Job]:
    """Yield the files."""
    yield from chain(exported(list(sources(fourth.MODELS, NETWORKS))), others(), by_mobius(), by_optimizers())


if __name__ == "__main__":
    operators_of_torchvision()
    main(jobs())
