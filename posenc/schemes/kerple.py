"""KERPLE (arXiv:2205.09921): a score loses a learned function of the distance from its query to its key.

    log      -r1 * log(1 + r2 * |query - key|)
    power    -r1 * |query - key|^r2, r2 at most 2

Each head has an r1 and an r2 of its own, both above 0. The authors' code calls them p and a in the logarithm, a and p
in the power, and gives keys after a query the bias of the query itself: a causal mask hides them, here as there.
"""

from functools import partial
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from posenc import reasons
from posenc.encoding import Encoding, Probes, Tolerance, eps
from posenc.formulas.kerple import reference
from posenc.ports import Floats
from posenc.scheme import Unsupported, scheme
from posenc.sources.bias import encode as bias
from posenc.spec import Spec

Kernel = Literal["log", "power"]
STEEPEST = 2.0
"""The largest power of a distance that is conditionally positive definite."""


class Kernels(nn.Module):
    """A source of biases: a function of the distance for each head, computed in the graph."""

    scale: Tensor  # (heads, 1, 1), below 0
    shape: Tensor  # (heads, 1, 1)
    kernel: Final[str]
    probes = Probes()
    half_safe = "float16 has no distance above 65504, and no power of one that is larger"
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, kernel: Kernel, scale: Floats, shape: Floats, dtype: torch.dtype) -> None:
        super().__init__()
        self.kernel = kernel
        for name, values in (("scale", -scale), ("shape", shape)):
            self.register_buffer(name, torch.from_numpy(values[:, None, None]).to(dtype), persistent=False)

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,), (.., .., seq, any) -> (1, heads, seq, seq_k)."""
        before = keys.shape[0] - values.shape[2]
        query = torch.arange(values.shape[2], dtype=self.count_dtype, device=keys.device) + before
        # (seq,) -> (1, seq, 1), beside keys (seq_k,)
        return self.between(query.unsqueeze(0).unsqueeze(2), keys, None)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of positions: (batch, seq, 1), (batch, 1, seq_k) or (seq_k,) -> (.., heads, seq, seq_k)."""
        # (batch, 1, seq, seq_k), beside (heads, 1, 1)
        distance = (key - query).abs().unsqueeze(1).to(self.scale.dtype)
        if self.kernel == "log":
            return self.scale * (self.shape * distance + 1.0).log()
        return self.scale * distance.pow(self.shape)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the reference, which rounds in float64."""
        name = str(self.scale.dtype).removeprefix("torch.")
        return Tolerance(self._off(max_position, eps(name)) + self._off(max_position, eps("float64")))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far two runtimes may be apart, each by as much: they round logarithms and powers in their way."""
        return Tolerance(2 * self._off(max_position, eps(str(self.scale.dtype).removeprefix("torch."))))

    def _off(self, farthest: int, unit: float) -> float:
        """Return how far a bias may be off where each rounding costs half a `unit`.

        log: r2, the distance, their product and the sum are rounded (4 of the argument, which cost 4 of 1 in its
        logarithm); the last digits of the logarithm are 4 roundings, r1 and its product 2. power: r2 is rounded, and
        so is r2 log(distance) inside of Pow (2 r2 log(distance) of the power); the distance costs r2 more, the last
        digits 4, r1 and its product 2.
        """
        scale, shape = (tensor.double().abs().numpy() for tensor in (self.scale, self.shape))
        if self.kernel == "log":
            return float(unit / 2 * (scale * (4 + 6 * np.log1p(shape * farthest))).max())
        far = max(farthest, 1)
        return float(unit / 2 * (scale * far**shape * (2 * shape * np.log(far) + shape + 6)).max())


@scheme(
    "kerple",
    paper="arXiv:2205.09921",
    formula="bias[h, i, j] = -r1_h log(1 + r2_h |i - j|), or -r1_h |i - j|^r2_h",
    models=("KERPLE",),
    sums=("dynamic", "baked"),
    samples=(
        {"r1": (0.3, 1.2), "r2": (0.9, 0.05)},
        {"kernel": "power", "r1": (0.3, 1.2, 0.5), "r2": (0.25, 1.5, 0.7), "output": "scores"},
    ),
    unsupported=Unsupported(methods=reasons.BIAS),
)
def kerple(
    spec: Spec,
    *,
    kernel: Kernel = "log",
    r1: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
    r2: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125, 1.0, 0.5, 0.25, 0.125),
    output: Literal["bias", "scores"] = "bias",
) -> Encoding:
    """A bias of attention scores that falls with a learned function of the distance, as in KERPLE.

    Args:
        kernel: "log" -r1 log(1 + r2 distance), "power" -r1 distance^r2.
        r1: what multiplies the function of each head, above 0 (the authors' bias_p of log, bias_a of power).
        r2: the number inside it, above 0, of a power at most 2 (the authors' bias_a of log, bias_p of power).
        output: "bias" itself, or "scores" with it.
    """
    if len(r1) != len(r2):
        raise ValueError(f"r1 and r2 must have a number for each head, got {len(r1)} and {len(r2)}")
    for name, numbers in (("r1", r1), ("r2", r2)):
        if not all(0 < number < np.inf for number in numbers):
            raise ValueError(f"{name} must be finite numbers above 0, got {','.join(map(str, numbers))}")
    if kernel == "power" and max(r2) > STEEPEST:
        raise ValueError(f"r2 of a power must be at most {STEEPEST:g}, got {max(r2)}")
    formula = partial(reference, kernel=kernel, r1=r1, r2=r2)
    source = Kernels(kernel, np.array(r1), np.array(r2), getattr(torch, spec.angle_dtype))
    return bias.encode(source, spec, bias.BiasPorts(output, len(r1)), formula=formula)
