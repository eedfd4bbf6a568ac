"""Rotary position embedding (RoPE, arXiv:2104.09864), with all rope types."""

from collections.abc import Callable, Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.frequencies import Frequencies, roformer
from posenc.formulas.parts.turning import bases_of, frequencies_of
from posenc.parameters import Value
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


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the base of one position a token from turns; types that scale frequencies are told by the reader."""
    if len(seen.places) != 1 or seen.layout not in ("halves", "interleaved"):
        return
    share = np.arange(seen.width) / seen.width
    positions = seen.first + np.arange(len(seen.numbers))
    for base in bases_of(frequencies_of(seen.numbers), share):
        angle = positions[:, None] * roformer(2 * seen.width, base)
        named: dict[str, Value] = {
            "head_dim": seen.head_dim or 2 * seen.width,
            "rope_theta": base,
            "layout": seen.layout,
        }
        if seen.head_dim > 2 * seen.width:
            named["rotary_dim"] = 2 * seen.width
        yield Guess(named, np.exp(1j * angle))
