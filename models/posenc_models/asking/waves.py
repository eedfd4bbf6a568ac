"""Sines and cosines of positions: what a model's own module gives for its tokens, or for as many frames of a sound."""

import re

import numpy as np
import torch

from posenc.ports import Array
from posenc_models.asking.built import Built, built, initialised, part_of, put
from posenc_models.asking.model import CannotAsk, OwnModel, Question
from posenc_models.asking.running import array, in_order, run_, takes
from posenc_models.asking.tables import COUNTED, ModelRunner, added, in_rows, positions_before
from posenc_models.config.foreign import HfModule

NAMED = re.compile("Sinusoidal|ScaledPositional")
"""Classes of such modules; others are embeddings that stand under a usual name."""
USUAL = "embed_positions"


def model_of(question: Question) -> OwnModel:
    """Return a model with its own sines and cosines."""
    made, path = _module(question)
    module = made.model.get_submodule(path)
    if takes(module, "emb"):
        return _scaled(question, made, path)
    if any(parameter.dim() == 2 for parameter in module.parameters()):
        _compute(made, path)
    counted = Counted(made, path)
    hides = part_of(question)[0].model_type in COUNTED
    rows = (lambda mask: counted.rows(mask) * mask[..., None]) if hides else counted.rows
    call = added(question, rows, before=positions_before(made))
    return OwnModel(counted.words, made.library, call, amplitude=1.0)


def _module(question: Question) -> tuple[Built, str]:
    """Return a model, and where in it the module of positions is."""
    part, row = part_of(question)
    class_name = "" if row.tables else _class(part.model_type, row.part)
    made = built(question, lambda made: class_name in ("", type(made.model).__name__) and bool(_places(made)))
    return made, _places(made)[0]


def _places(made: Built) -> list[str]:
    """Return where modules of positions are: those of the part first."""
    if made.row.tables:
        return [name.rpartition(".")[0] for name in made.holding(made.row.tables[0])]
    paths = [name for name, module in made.model.named_modules() if _is_meant(name, type(module).__name__)]
    return sorted(paths, key=lambda name: made.row.part.rpartition("-")[2] not in name)


def _is_meant(name: str, kind: str) -> bool:
    return bool(NAMED.search(kind)) or (kind == "Embedding" and name.rpartition(".")[2] == USUAL)


def _class(model_type: str, part: str) -> str:
    """Return the class with SpeechT5's prenet of a part; "" for other models, where any class will do."""
    kind, _, side = part.partition("-")
    return f"SpeechT5{side.title()}With{kind.title()}Prenet" if model_type == "speecht5" else ""


def _scaled(question: Question, made: Built, path: str) -> OwnModel:
    """Return SpeechT5's module, which adds rows times a learned number to x."""
    module = made.model.get_submodule(path)
    for scale in in_order(question.tables):
        put(made.model, made.table, scale)

    def rows(mask: Array) -> Array:
        width = int(question.outputs[0].axes[-1].size or 0)
        return in_rows(run_(lambda: module(torch.zeros(*mask.shape, width))))

    return OwnModel(type(module).__name__, made.library, added(question, rows, before=0), amplitude=1.0)


def _compute(made: Built, path: str) -> None:
    """Have a model compute the rows of an embedding; raise CannotAsk where it draws them at random."""
    # drawn at random, the rows of two initialisations differ
    first, second = ([array(p) for p in run_(lambda: initialised(made.model, path)).parameters()] for _ in range(2))
    if not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)):
        name = type(made.model).__name__
        raise CannotAsk(f"the rows of {name} come with its weights: its code computes none")


class Counted:
    """A module that is called by its model, or by us as its model does, with tokens."""

    def __init__(self, made: Built, path: str) -> None:
        self.made, self.path = made, path
        self.module: HfModule = made.model.get_submodule(path)
        self.runner: ModelRunner | None = None
        try:
            self.runner = ModelRunner(made, path)
        except CannotAsk:
            self.rows(np.ones((1, 3), np.int64))

    @property
    def words(self) -> str:
        """The classes that answer."""
        return self.runner.words if self.runner else type(self.module).__name__

    def rows(self, mask: Array) -> Array:
        """Return the rows of tokens, some of which are padding."""
        if self.runner:
            return self.runner.rows(mask)
        return in_rows(run_(lambda: self.module(**self.inputs(mask))))

    def inputs(self, mask: Array) -> dict[str, object]:
        """Return what the module takes: tokens, or as many places."""
        if takes(self.module, "input"):
            return {"input": torch.arange(mask.shape[1])}
        padding = self.module.padding_idx
        token = 5 if padding != 5 else 6
        return {"input_ids": torch.where(torch.from_numpy(mask) != 0, token, padding)}
