"""Whether a module of ours returns what a model's own returns: form, shapes and numbers, in calls of many sizes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from posenc.encoding import eps
from posenc.spec import Spec
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.compare import ROUNDINGS
from posenc_models.replacing.diffusion.columns import ModuleColumns, ReturnForm, Stand, parts_of
from posenc_models.replacing.diffusion.places import Ids, PatchGrid

EXACT = 1e-6
"""Below it, angles of theirs have more digits than float32."""


class ReplacementProof(NamedTuple):
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


def proved(
    original: Callable[[Tensor], object], where: Ids | PatchGrid, columns: ModuleColumns, form: ReturnForm, spec: Spec
) -> Replacement:
    """Return our module in the place of the original, of some columns and a form; raise ValueError where it differs."""
    ours = Stand(where, columns, form, spec)
    proofs = [_of_call(original(x), ours(x), columns.largest_angle(where(x))) for x in where.tried()]
    worst = max(proofs, key=lambda proof: proof.off)
    pairs = "+".join(str(np.count_nonzero(freqs)) for freqs in columns.frequencies)
    return Replacement(ours, f"{pairs} pairs, {form.kind}; {worst.words()}")


def _of_call(theirs: object, mine: object, angle: float) -> ReplacementProof:
    """Return by how much two results differ; raise ValueError, in one line, where their forms or numbers do."""
    forms = [_form(theirs), _form(mine)]
    if forms[0] != forms[1]:
        raise ValueError(f"it returns {forms[0]} and not {forms[1]}; replace it by hand")
    off = max(float((a - b).abs().max()) for a, b in zip(parts_of(theirs)[1:], parts_of(mine)[1:], strict=True))
    allowed = ROUNDINGS * eps("float32") * max(angle, 1.0)
    if not off <= allowed:
        words = f"{off:.2g} at angles up to {angle:.0f}, where {allowed:.2g} is allowed"
        raise ValueError(f"its cosines and sines differ from the exact ones by {words}; replace it by hand")
    return ReplacementProof(off, angle)


def _form(returned: object) -> str:
    """Return the shapes and dtypes of what a module returned, in words."""
    tensors = [returned] if isinstance(returned, Tensor) else list(returned)  # type: ignore[call-overload]
    return ", ".join(f"{tuple(tensor.shape)} of {tensor.dtype}" for tensor in tensors)
