"""Rotary position embedding (RoPE, arXiv:2104.09864), with all rope types."""

from collections.abc import Callable

import numpy as np

from posenc.call import Call
from posenc.formulas.parts import rotation
from posenc.formulas.parts.frequencies import Frequencies
from posenc.ports import Array
from posenc.spec import Spec


def reference(
    spec: Spec, call: Call, *, exact: Callable[[int], Frequencies], pairs: rotation.Pairs
) -> tuple[Array, ...]:
    """Return the outputs in float64 at every position, from the paper's frequencies for the length of the call.

    Args:
        exact: the length of a call -> its frequencies, by the reference of a rope type.
    """
    frequencies = exact(spec.max_len if spec.mode == "baked" else int(call.positions.max()) + 1)
    # (batch, seq, 1) * (pairs,)
    angle = call.positions[..., None].astype(np.float64) * frequencies.inv_freq
    return rotation.rotary(call, angle, frequencies.attention_factor, pairs)
