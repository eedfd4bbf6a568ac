"""The second to the fifth sample of files that nobody had read before, of other models and other exporters: by hand.

python runtime_tests/scripts/unseen_samples.py second make FOLDER [SECONDS]          # each in a process; go on later
python runtime_tests/scripts/unseen_samples.py second count FOLDER NAME [WORD..]   # read, write FOLDER/NAME/

The third was made when what was missed in the second was mended, the fourth and the fifth by others than those who mend
the reader; the fifth is of what people deploy. Each was counted once. Beside the second and the fourth,
`python -m helpers.unseen.frameworks.second FOLDER` (or `.fourth`) makes the files of frameworks that do not run on
PyTorch, in an environment of their own. What each environment needs stands in `helpers/unseen/__init__.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch import Tensor

from helpers.foreign.exporters import without_traces
from helpers.foreign.packaged import mobius
from helpers.foreign.truth import Held
from helpers.unseen import operators
from helpers.unseen.frameworks import fourth as frameworks_fourth
from helpers.unseen.frameworks import second as frameworks_second
from helpers.unseen.frameworks.making import Foreign
from helpers.unseen.packages import fifth as packages_fifth
from helpers.unseen.packages import fourth as packages_fourth
from helpers.unseen.packages import second as packages_second
from helpers.unseen.packages import third as packages_third
from helpers.unseen.packages import tutorials
from helpers.unseen.parts import Network, made, operators_of_torchvision
from helpers.unseen.transformers import fifth as transformers_fifth
from helpers.unseen.transformers import fourth as transformers_fourth
from helpers.unseen.transformers import second as transformers_second
from helpers.unseen.transformers import third as transformers_third
from scripts.unseen_files import Called, Feeds, Job, Model, called_of, export, judge, main, ones, optimized

Making = Callable[[], Called]
Source = tuple[str, Callable[[str], Called], tuple[Held, ...], tuple[str, ...]]
"""A network: its name, what makes it for a way to export, what it holds, and its ways."""


@dataclass(frozen=True)
class Sample:
    """The networks of a sample that run on PyTorch.

    Args:
        models: types of transformers.
        networks: classes of packages and of tutorials.
        built: types of transformers that mobius builds, too.
        optimized: what optimizers, converters and quantizers make of some files, by how.
    """

    models: Sequence[Model]
    networks: Sequence[Network]
    built: tuple[str, ...] = ()
    optimized: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def given(self) -> list[Source]:
        """Its networks, in order."""
        return list(sources(self.models, self.networks))


SECOND = Sample(
    transformers_second.MODELS,
    packages_second.NETWORKS,
    ("flex_olmo", "doge", "granitemoeshared", "openai-gpt", "ernie", "data2vec-text"),
    {
        "onnxsim": ("gte.old-14", "timm.beit.old-17", "litgpt.llama3.old-17", "xlm.old-17"),
        "ORT all": ("cwm.old-17", "torchvision.swin.old-17"),
        "ORT extended": ("diffusers.UNet2DConditionModel.new",),
        "common float16": ("timm.vit.new", "moshi.rope.old-17"),
        "ORT float16": ("qwen2_vl_text.old-17", "donut-swin.old-17"),
        "quantize_dynamic": ("jais2.old-20",),
    },
)
THIRD = Sample(
    (*transformers_third.MODELS, *transformers_third.MORE_MODELS),
    (*packages_third.NETWORKS, *packages_third.MORE_NETWORKS),
    (),
    {
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
    },
)
FOURTH = Sample(
    transformers_fourth.MODELS,
    (*transformers_fourth.NETWORKS, *tutorials.NETWORKS, *packages_fourth.NETWORKS),
    ("ministral3", "gemma4_text"),
    {
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
    },
)
FIFTH = Sample(
    transformers_fifth.MODELS,
    (*transformers_fifth.NETWORKS, *packages_fifth.NETWORKS),
    ("granite", "olmo2", "nemotron", "starcoder2"),
    {
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
    },
)


def sources(models: Sequence[Model], networks: Sequence[Network]) -> Iterator[Source]:
    """Yield networks of transformers and of packages."""
    for model in models:
        yield model.model_type, partial(called_of, model), model.held, model.ways
    for network in networks:
        yield network.name, partial(made, network), network.held, network.ways


def slug(text: str) -> str:
    """Return words as a part of a file's name."""
    return text.replace(" ", "-")


def exported(given: Sequence[Source]) -> Iterator[Job]:
    """Yield the files of networks: each by its first way to export, then by its second."""
    for round_ in range(2):
        for name, making, held, ways in given:
            if round_ < len(ways):
                way = ways[round_]
                yield Job(f"{name}.{slug(way)}.onnx", held, partial(export, partial(making, way), way))


def by_optimizers(sample: Sample) -> Iterator[Job]:
    """Yield what optimizers make of some files."""
    ways_of = ((name, making, held, way) for name, making, held, ways in sample.given for way in ways)
    made_by = {f"{name}.{slug(way)}": (partial(making, way), held) for name, making, held, way in ways_of}
    for how, names in sample.optimized.items():
        for name in names:
            make, held = made_by[name]
            yield Job(f"{name}.{slug(how)}.onnx", held, partial(optimized, make, f"{name}.onnx", how))


def by_mobius(sample: Sample, way: str = "") -> Iterator[Job]:
    """Yield what mobius builds of types of transformers, made as for a way to export; an empty one is their first."""
    for name, making, held, ways in sample.given:
        if name in sample.built:
            yield Job(f"{name}.mobius.onnx", held, partial(built, partial(making, way or ways[0])))


def built(making: Making, path: Path) -> None:
    """Write what mobius builds of a model of transformers."""
    called = making()
    with tempfile.TemporaryDirectory() as scratch:
        without_traces(mobius(SimpleNamespace(bare=called.bare), Path(scratch)), path)  # type: ignore[arg-type]
    config: Any = called.bare.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def feeds(length: int) -> Feeds:
        """Return ids and a mask, the positions, segments and an empty cache."""
        tokens = called.feeds(length)
        batch = tokens["input_ids"].shape[0]
        cache = {
            f"past_key_values.{layer}.{what}": torch.zeros(batch, heads, 0, size)
            for layer in (0, 1)
            for what in ("key", "value")
        }
        places = torch.arange(length).expand(batch, -1).contiguous()
        return {**tokens, "position_ids": places, "token_type_ids": 0 * ones(length), **cache}

    def alone(*values: Tensor) -> Tensor:
        """Return what the model makes of the first two inputs, as the rest is what it adds itself."""
        given: Tensor = called.alone(*values[:2])
        return given

    judge(Called(alone, called.bare, feeds, {}), path)  # type: ignore[arg-type]


def shipped(package: str, inside: str, path: Path) -> None:
    """Copy a file that a package ships; it has no network beside it: right is what ONNX Runtime loads."""
    from onnxruntime import InferenceSession

    spec = find_spec(package)  # found, and not imported: it asks for more than its file
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(package)
    shutil.copy(Path(spec.submodule_search_locations[0]) / inside, path)
    InferenceSession(str(path), providers=["CPUExecutionProvider"])
    path.with_suffix(".json").write_text(json.dumps({"right": [0.0, 0.0, 0.0]}), encoding="utf-8")


def by_frameworks(foreign: Sequence[Foreign]) -> Iterator[Job]:
    """Yield the files that other frameworks make, in an environment of their own."""
    for one in foreign:
        yield Job(f"{one.name}.onnx", one.held, None)


def as_traced(job: Job) -> Job:
    """Return a file with what it holds: CLIPSeg resizes its table wherever it is traced, and products may be folded."""
    if job.file.startswith("clipseg_vision_model.old"):
        return replace(job, held=(Held("grid", "interpolated", {"dim": 32, "rows": 16}),))
    if job.file in ("swin2sr.new.onnx", "swin2sr.old-17.ORT-all.onnx"):
        # as of Swin V2 in the first sample: no coordinates are left, but the products of theirs and the weights
        return replace(job, held=(Held("window", "table", {"heads": 2, "window": [4, 4]}, (0, 1)),))
    return job


def second() -> Iterator[Job]:
    """Yield the files: those of both exporters of PyTorch, and then those that others make."""
    yield from exported(SECOND.given)
    yield from chain(by_optimizers(SECOND), by_mobius(SECOND), by_frameworks(frameworks_second.FOREIGN))


def third() -> Iterator[Job]:
    """Yield the files: those of the first list by the exporter that they have not been exported by, too."""
    first = list(sources(transformers_third.MODELS, packages_third.NETWORKS))
    more = list(sources(transformers_third.MORE_MODELS, packages_third.MORE_NETWORKS))
    others: list[Source] = []
    for name, making, held, ways in first:
        if not any(way.startswith("new") for way in ways):
            others.append((name, making, held, ("new",)))
        elif not any(way.startswith("old") for way in ways):
            others.append((name, making, held, ("old 17",)))
    yield from map(as_traced, chain(exported(first), exported(more), exported(others), by_optimizers(THIRD)))


def fourth() -> Iterator[Job]:
    """Yield the files, also those that packages ship, that are written by hand, and of other frameworks."""
    yield from exported(FOURTH.given)
    for part in ("pair", "head"):
        inside = f"weights/funcnet/x100_w32full_{part}.onnx"
        yield Job(f"atspm_detector.{part}.onnx", (), partial(shipped, "atspm_detector", inside))
    for written in operators.WRITTEN:
        yield Job(f"{written.name}.onnx", written.held, partial(operators.write, written))
    yield from chain(by_frameworks(frameworks_fourth.FOREIGN), by_mobius(FOURTH, "old 17"), by_optimizers(FOURTH))


def fifth() -> Iterator[Job]:
    """Yield the files."""
    first = exported([(name, making, held, ways[:1]) for name, making, held, ways in FIFTH.given])
    others = exported([(name, making, held, ways[1:]) for name, making, held, ways in FIFTH.given])
    yield from chain(first, by_mobius(FIFTH, "old 17"), by_optimizers(FIFTH), others)


SAMPLES = {"second": second, "third": third, "fourth": fourth, "fifth": fifth}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in SAMPLES:
        sys.exit(f"the first word is one of {', '.join(SAMPLES)}, got {sys.argv[1:2]}: see the text of this file")
    operators_of_torchvision()
    main(SAMPLES[sys.argv.pop(1)]())
