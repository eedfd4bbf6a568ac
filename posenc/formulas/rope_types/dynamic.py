"""Dynamic NTK: the base grows with the call."""

from collections.abc import Mapping

import numpy as np

from posenc.formulas.fitting import Form, Parameter
from posenc.formulas.parts.decimals import shortest
from posenc.formulas.parts.frequencies import Frequencies


def reference(dim: int, rope_theta: float, length: int, *, factor: float, max_position_embeddings: int) -> Frequencies:
    """Return (rope_theta alpha^(d / (d - 2)))^(-2 i / d) with alpha = 1 + factor * (how much longer a call is).

    Source: https://www.reddit.com/r/LocalLLaMA/comments/14mrgpr, where alpha is factor l / L - (factor - 1).
    """
    beyond = max(length - max_position_embeddings, 0) / max_position_embeddings
    i, alpha = np.arange(dim // 2), 1 + factor * beyond
    return Frequencies(np.exp(-2 * i / dim * np.log(float(rope_theta)) - 2 * i / (dim - 2) * np.log(alpha)))


CLOSE = 1e-4
"""How well the lengths agree on a factor and a context."""


def dynamic_form(forms: Mapping[int, Form]) -> Form | None:
    """Return the dynamic type that default forms of calls of several lengths are; None where they are not.

    Args:
        forms: by the length of the call: one at which the base is that of the model, and two that are longer.
    """
    bases = {length: _base(form) for length, form in sorted(forms.items())}
    first = min(bases, default=0)
    if len(bases) < 3 or any(base is None for base in bases.values()):
        return None
    pairs, theta = _pairs(forms[first]), bases[first] or 0.0
    # calls within the first context say nothing of the factor
    lengths = np.array([length for length, base in bases.items() if base and base > theta * (1 + CLOSE)], np.float64)
    if lengths.size < 2 or pairs < 2:
        return None
    grown = np.array([bases[int(length)] or 0.0 for length in lengths]) / theta
    # stretch = factor length / context - (factor - 1), a line over lengths
    stretch = grown ** ((pairs - 1) / pairs)
    slope, start = np.polyfit(lengths, stretch, 1)
    off = np.abs(slope * lengths + start - stretch)
    if start >= 1 or slope <= 0 or np.any(off > CLOSE * stretch):
        return None
    factor = shortest(float(1 - start), CLOSE * (1 - start))
    parameters: dict[str, Parameter] = {**forms[first].parameters, "factor": factor}
    return Form("rotary", "dynamic", {**parameters, "max_position_embeddings": round(factor / slope)})


def _base(form: Form) -> float | None:
    base = form.parameters.get("rope_theta")
    return base if form.name == "default" and isinstance(base, float) else None


def _pairs(form: Form) -> int:
    if form.exact is None:
        return 0
    row = form.exact(np.zeros(1, np.int64))
    return int(row.shape[1]) // 2
