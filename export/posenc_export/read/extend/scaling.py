"""Another rope scaling for a rotary encoding: its closed form, from the rope types of `posenc`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from posenc.formulas.fitting import Form, Parameter
from posenc.formulas.parts.cos_sin_rows import rows_of
from posenc_export.common.errors import BadInput, bad_input

CONTEXT = "original_max_position_embeddings"
THETA = "rope_theta"


@dataclass(frozen=True)
class Scaling:
    """A rope type with its parameters, as texts or as values.

    Args:
        rope_type: its name.
        parameters: of the type; rope_theta is that of the file where it is left out.
    """

    rope_type: str
    parameters: Mapping[str, object]


def scaled(form: Form, scaling: Scaling, rows: int, max_len: int) -> Form:
    """Return the form of the same rotary encoding under another scaling; BadInput where there is none.

    Args:
        form: as it was read.
        scaling: the new rope type.
        rows: how many positions the old table has: the context before the scaling, where nothing else is said.
        max_len: the length that frequencies which follow from the length are for.
    """
    # rope types are asked for by name here alone
    from posenc.parameters import check
    from posenc.rope_types import ROPE_TYPES, Rope

    values = dict(scaling.parameters)
    theta = values.pop(THETA, form.parameters.get(THETA))
    if not form.traits.is_turned or not isinstance(theta, (int, float)) or form.exact is None:
        raise BadInput(f"--rope-type is for a rotary encoding with a known theta, not for {form.family} ({form.name})")
    with bad_input():
        known = ROPE_TYPES[scaling.rope_type].parameters
        if CONTEXT in known and CONTEXT not in values:
            values[CONTEXT] = form.parameters.get(CONTEXT, rows)
        values = check(values, known, scaling.rope_type)
        width = int(form.exact(np.zeros(1, np.int64)).shape[1])
        rope = Rope(scaling.rope_type, width, float(theta), values, form.parameters.get("direction") == "backward")
        new = rope.at(max_len)
    shown: dict[str, Parameter] = {**_placed(form), THETA: float(theta), "attention_factor": new.attention_factor}
    shown |= {name: value for name, value in values.items() if isinstance(value, (int, float, str, tuple))}
    return replace(
        form, name=scaling.rope_type, parameters=shown, exact=rows_of(new.inv_freq, new.attention_factor), also=()
    )


def _placed(form: Form) -> dict[str, Parameter]:
    """Return what a form says of its place in heads, which no scaling changes."""
    names = ("head_dim", "rotary_dim", "layout", "direction")
    return {name: value for name, value in form.parameters.items() if name in names}
