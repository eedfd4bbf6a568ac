"""Whether a module of ours returns what a model's own returns: form, shapes and numbers, in calls of many sizes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.encoding import eps
from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.compare import ROUNDINGS
from posenc_models.replacing.diffusion.columns import ColumnAngles, Columns, Form, Stand, leaves, parts_of, spec_of
from posenc_models.replacing.diffusion.where import Call, Where

EXACT = 1e-6
"""Below it, angles of theirs have more digits than float32."""


class Proof(NamedTuple):
    """The largest difference of cosines and sines, and the largest angle of the call that has it."""

    off: float
    angle: float

    def words(self) -> str:
        """Return the proof in words."""
        if self.off == 0:
            return "the same bits"
        if self.off <= EXACT:
            return f"within {self.off:.0e}"
        return f"off by {self.off:.0e} at angles of {self.angle:.0f}, which are float32"


Returned = Callable[..., object]


def proved(original: HfModule, place: Where, columns: Columns, form: Form, spec: Spec) -> Replacement:
    """Return our module in the place of the original, of some columns and a form; raise ValueError where it differs."""
    ours = Stand(place, ColumnAngles(columns, spec_of(form, spec)), form)
    proof = prove(original, ours, lambda call: columns.largest_angle(place(*call)), place.tried())
    pairs = "+".join(str(np.count_nonzero(freqs)) for freqs in columns.frequencies)
    return Replacement(ours, f"{pairs} pairs, {form.kind}; {proof.words()}")


def prove(original: Returned, ours: Returned, angle_of: Callable[[Call], float], calls: Sequence[Call]) -> Proof:
    """Return by how much ours differ from the original; raise ValueError, in one line, where it is too much.

    Args:
        original: the model's own.
        ours: the module that shall stand in its place.
        angle_of: the largest angle of a call.
        calls: what both are called with.
    """
    proofs = [_of_call(original(*call), ours(*call), angle_of(call)) for call in calls]
    return max(proofs, key=lambda proof: proof.off)


def _of_call(theirs: object, mine: object, angle: float) -> Proof:
    """Return by how much two results differ; raise ValueError where their forms or numbers do."""
    pairs = list(zip(leaves(theirs), leaves(mine), strict=True))
    for a, b in pairs:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            form = f"{tuple(a.shape)} of {a.dtype} and not {tuple(b.shape)} of {b.dtype}"
            raise ValueError(f"it returns {form}; replace it by hand")
    # only the cosines and sines of angles are used
    kind = parts_of(theirs)[0] if isinstance(theirs, Tensor) else ""
    compared = [
        (part(a), part(b)) for a, b in pairs for part in ((torch.cos, torch.sin) if kind == "angles" else (_same,))
    ]
    off = max(float((a - b).abs().max()) if a.numel() else 0.0 for a, b in compared)
    allowed = ROUNDINGS * eps("float32") * max(angle, 1.0)
    if not off <= allowed:
        words = f"{off:.2g} at angles up to {angle:.0f}, where {allowed:.2g} is allowed"
        raise ValueError(f"its cosines and sines differ from the exact ones by {words}; replace it by hand")
    return Proof(off if np.isfinite(off) else np.inf, angle)


def _same(values: Tensor) -> Tensor:
    return values
