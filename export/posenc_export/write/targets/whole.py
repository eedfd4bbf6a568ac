"""A whole model as a target: what a folder of transformers holds, with the inputs and outputs that runtimes know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.ports import Port
from posenc.spec import Spec
from posenc_export.common.errors import bad_input
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets import OWN_FLOAT64, ROUNDED, Target
from posenc_export.write.targets.copies import Copies
from posenc_export.write.targets.ending import advised
from posenc_export.write.targets.mask_readings import read_masks
from posenc_export.write.targets.module import own_encoding
from posenc_export.write.targets.prompt_positions import positions_target
from posenc_export.write.targets.room_for_models import MANY
from posenc_models import ModelFolder
from posenc_models.vision import ASKED
from posenc_models.whole.tasks import POSITIONS_FILE

if TYPE_CHECKING:
    from torch import nn


def whole_target(folder: ModelFolder, spec: Spec, seed: int) -> Target:
    """Return a whole model as a target.

    Args:
        folder: The model's folder, and its task.
        spec: Its max_len alone counts: up to which length calls are tried.
        seed: For random inputs.

    Raises BadInput, in one line, where the model cannot be loaded, or is none of its task.
    """
    with bad_input():
        # a part lies in the bundle of its whole, which has them
        beside = {} if folder.part else folder.contents.companions
        whole, precise = folder.build(), replace(folder, dtype="fp32", quantize=None)
        ports = parse_ports(whole.inputs)

    def again() -> nn.Module:
        return folder.build(trial=False).module

    def described(inputs: tuple[Port, ...]) -> Encoding:
        return own_encoding(
            whole.module,
            inputs,
            spec.max_len,
            seed,
            again,
            names=whole.outputs,
            rows=whole.rows,
            by_weight=folder.by_weight,
        )

    counted, said = _positions(folder, spec)
    with advised(Copies(whole.module, again).fresh, ports, spec.max_len, seed):
        ports, notes = read_masks(ports, described, spec.max_len, seed)
        encoding = described(ports)
    return Target(
        folder.name,
        encoding,
        replace(spec, mode="dynamic", dtype=folder.dtype),
        {"task": folder.task.name},
        reference=ROUNDED.format(folder.quantize) if folder.quantize else OWN_FLOAT64,
        origin={"config": (folder.path / "config.json").as_posix(), "task": folder.origin},
        notes=(*whole.notes, *said, *notes),
        generates=whole.generates,
        begins=whole.begins,
        places=whole.places,
        file=folder.file,
        positions=folder.positions,
        is_large=folder.parameters > MANY,
        answers_empty=folder.sentences is not None and folder.sentences.answers_empty,
        others=(*(partial(whole_target, other, spec, seed) for other in folder.others), *counted),
        precise=None if folder.precision == "fp32" else partial(whole_target, precise, spec, seed),
        precision=folder.precision,
        quantize=folder.quantize,
        companions=beside,
        config=whole.config,
    )


def _positions(folder: ModelFolder, spec: Spec) -> tuple[tuple[Callable[[], Target], ...], tuple[str, ...]]:
    """Return the maker of the graph that counts positions of images and videos, if the model has such, and a line."""
    try:
        found = folder.grid_rule()
    except ValueError as error:
        return (), (f"there is no {POSITIONS_FILE}.onnx: {error}",)
    if found is None:
        return (), ()
    rule, own = found
    words = f"positions of images and videos are those of {own.words}, in {ASKED} batches of prompts at random"
    return (partial(positions_target, folder, rule, words, spec),), ()
