"""Attention with linear biases (ALiBi, arXiv:2108.12409): a score loses with the distance from its query to its key."""

import numpy as np

from posenc.call import Call
from posenc.ports import Array


def reference(call: Call, *, heads: int, form: str, bias_max: float, scale: float, bfloat16: bool) -> tuple[Array]:
    """Return the bias in float64, head by head: slopes by the paper's code, or of 8 binary digits."""
    slopes = _slopes(heads, bias_max)
    if bfloat16:
        fraction, exponent = np.frexp(np.asarray(slopes, np.float32))
        slopes = np.ldexp(np.rint(fraction * 2.0**8), exponent - 8).astype(np.float64).tolist()
    query, key = call.query, call.key
    steps = {
        "distance": -np.abs(key[:, None, :] - query[:, :, None]),
        "key": key[:, None, :] + 0 * query[:, :, None],
        "last_key": key[:, None, :] - key[:, None, -1:] + 0 * query[:, :, None],
    }[form]
    return (np.stack([scale * slope * steps.astype(np.float64) for slope in slopes], 1),)


def _slopes(heads: int, bias_max: float) -> list[float]:
    """Return the slopes by the recursion of the paper's code: for a power of two a geometric series, else two."""
    power = 2 ** int(np.floor(np.log2(heads)))
    if power == heads:
        return [2.0 ** (-bias_max * (i + 1) / heads) for i in range(heads)]
    return _slopes(power, bias_max) + _slopes(2 * power, bias_max)[::2][: heads - power]
