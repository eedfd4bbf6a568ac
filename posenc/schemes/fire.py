"""FIRE, Functional Interpolation for Relative Position Encoding (arXiv:2310.04418).

    bias[h, i, j] = network(log(c |i - j| + 1) / log(c max(i, L) + 1))[h]

of a query at i and a key at j. The network has one input, a layer of units with ReLU, and an output for each head. A
query sees no later key in a model that uses it: a mask hides these, here as there. The authors' code adds 1e-6 to the
logarithm that it divides by, which moves a share by less than a last digit of float32.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn

from posenc import reasons
from posenc.encoding import Encoding, Probes, Tolerance, eps
from posenc.formulas.fire import reference
from posenc.memory import check_room
from posenc.ports import Array
from posenc.ranges import above, minimum
from posenc.scheme import DATA, Unsupported, scheme
from posenc.sources.bias import encode as bias
from posenc.spec import Spec
from posenc.weight_files import names_in
from posenc.weights import Weights, record

LAYERS = ("mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias")
"""What the tensors of the network are called, as in the authors' code."""
FACTORS = ("init_L", "L_multiplier")
"""The numbers whose product is L there."""
C, THRESHOLD, HEADS, HIDDEN = 0.1, 512.0, 8, 32
"""Those of the authors' code, where no weights say another."""


@dataclass(frozen=True)
class Learned:
    """What is learned: (hidden,), (hidden,), (heads, hidden), (heads,), and two numbers."""

    first: Tensor
    bias: Tensor
    second: Tensor
    last: Tensor
    c: float
    threshold: float

    def numbers(self) -> tuple[Array, Array, Array, Array]:
        """Return the weights in float64, as NumPy has them."""
        first, bias, second, last = (
            tensor.double().numpy() for tensor in (self.first, self.bias, self.second, self.last)
        )
        return first, bias, second, last


class Interpolation(nn.Module):
    """A source of biases: a network of shares of the way back, in the graph."""

    c: Tensor  # ()
    threshold: Tensor  # ()
    __constants__ = ("count_dtype",)
    count_dtype = None
    half_safe = "float16 has no position above 65504, and a share of far positions has few of their digits"

    def __init__(self, learned: Learned, dtype: torch.dtype) -> None:
        super().__init__()
        self.learned = learned
        length = int(learned.threshold)
        self.probes = Probes(lengths=(length, length + 1, length + 2) if length < LONGEST else ())
        self.first = nn.Parameter(learned.first.to(dtype))
        self.bias = nn.Parameter(learned.bias.to(dtype))
        self.second = nn.Parameter(learned.second.T.contiguous().to(dtype))
        self.last_bias = nn.Parameter(learned.last.to(dtype))
        for name in ("c", "threshold"):
            self.register_buffer(name, torch.tensor(getattr(learned, name), dtype=dtype), persistent=False)

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,), (.., .., seq, any) -> (1, heads, seq, seq_k)."""
        before = keys.shape[0] - values.shape[2]
        query = torch.arange(values.shape[2], dtype=self.count_dtype, device=keys.device) + before
        # (seq,) -> (1, seq, 1), beside keys (seq_k,)
        return self.between(query.unsqueeze(0).unsqueeze(2), keys, None)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of positions: (batch, seq, 1), (batch, 1, seq_k) or (seq_k,) -> (.., heads, seq, seq_k)."""
        distance = (key - query).abs().to(self.c.dtype)  # (batch, seq, seq_k)
        reach = torch.maximum(query.to(self.c.dtype), self.threshold)  # (batch, seq, 1)
        share = (self.c * distance + 1.0).log() / (self.c * reach + 1.0).log()
        # (batch, seq, seq_k, 1) -> (batch, seq, seq_k, hidden) -> (batch, seq, seq_k, heads)
        hidden = torch.relu(share.unsqueeze(3) * self.first + self.bias)
        return (torch.matmul(hidden, self.second) + self.last_bias).permute(0, 3, 1, 2)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the reference, which rounds in float64."""
        return Tolerance(self._off(max_position, eps(self._dtype())) + self._off(max_position, eps("float64")))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far two runtimes may be apart, each by as much: they add in any order."""
        return Tolerance(2 * self._off(max_position, eps(self._dtype())))

    def _dtype(self) -> str:
        return str(self.c.dtype).removeprefix("torch.")

    def _off(self, farthest: int, unit: float) -> float:
        """Return how far a bias may be off where each rounding costs half a `unit`, of whatever order of the sums.

        The argument of a logarithm has c, a position, their product and a sum rounded: 4, which cost 4 of 1 in the
        logarithm, beside the 4 of its own last digits. Both logarithms of a share are off so, the upper one by a share
        of the lower; the quotient is one more. A unit adds 2 for its product, 2 for its sum; an output as many as it
        has units, one for each product, and one for the last sum.
        """
        c, threshold = self.learned.c, self.learned.threshold
        least = np.log1p(c * threshold)
        far = max(1.0, np.log1p(c * farthest) / least)
        share = 4 * (1 + far) / least + 4 * far + 4 * far + far
        first, bias, second, last = (np.abs(part) for part in self.learned.numbers())
        moved = float((second @ first).max()) * share
        largest = float((second @ (first * far + bias) + last).max())
        return float(unit / 2 * (moved + (6 + len(first)) * largest))


LONGEST = 2048
"""Up to which L calls around it are tried: a bias grows with the square of a length."""


@scheme(
    "fire",
    paper="arXiv:2310.04418",
    formula="bias[h, i, j] = network(log(c |i - j| + 1) / log(c max(i, L) + 1))[h]",
    models=("FIRE",),
    sums=("dynamic", "baked"),
    not_held={"_learned": DATA},
    samples=(
        {"heads": 3, "hidden": 8, "c": 0.25, "threshold": 16.0},
        {"heads": 2, "hidden": 4, "c": 0.5, "threshold": 6.5, "output": "scores"},
    ),
    unsupported=Unsupported(methods=reasons.BIAS),
)
def fire(
    spec: Spec,
    *,
    heads: Annotated[int | None, minimum(1)] = None,
    hidden: Annotated[int | None, minimum(1)] = None,
    c: Annotated[float | None, above(0)] = None,
    threshold: Annotated[float | None, above(0)] = None,
    output: Literal["bias", "scores"] = "bias",
    weights: str | None = None,
    key: str | None = None,
) -> Encoding:
    """A bias of attention scores that a small network makes of the distance as a share of the query's position.

    Args:
        heads: outputs of the network [default: those of the weights, or 8].
        hidden: units of the network [default: those of the weights, or 32].
        c: what multiplies distances and positions inside of logarithms, above 0 [default: that of the weights, or 0.1].
        threshold: L, the position up to which all queries have the same share, above 0 [default: that of the weights,
            or 512].
        output: "bias" itself, or "scores" with it.
        weights: a .safetensors, .pt, .pth or .bin file, or a model's folder, that holds the network, c and L.
        key: what comes before .mlp.0.weight, .c, .init_L and .L_multiplier there.
    """
    check_room("a network", (hidden or 1, 2 + (heads or HEADS)), "float32")
    learned = _learned(Weights(weights, key), heads, hidden, (c, threshold))
    above(0).check(c=learned.c, threshold=learned.threshold)
    source = Interpolation(learned, getattr(torch, spec.angle_dtype))
    formula = partial(reference, weights=learned.numbers(), c=learned.c, threshold=learned.threshold)
    return bias.encode(source, spec, bias.BiasPorts(output, len(learned.last)), formula=formula)


def _learned(
    weights: Weights, heads: int | None, hidden: int | None, given: tuple[float | None, float | None]
) -> Learned:
    """Return the network, c and L: those that are given come before those of a file, and these before chance."""
    c, threshold = given
    if weights.file is None:
        weights.check_key()
        layers = nn.Linear(1, hidden or HIDDEN), nn.Linear(hidden or HIDDEN, heads or HEADS)
        tensors = [record(part.detach()) for layer in layers for part in (layer.weight, layer.bias)]
        first, own, second, last = tensors
        numbers = C if c is None else c, THRESHOLD if threshold is None else threshold
        return Learned(first[:, 0], own, second, last, *numbers)
    names = names_in(weights.file)
    starts = [name.removesuffix(LAYERS[0]) for name in names if name.endswith(LAYERS[0])]
    whole = [start for start in starts if {start + end for end in (*LAYERS, *FACTORS, "c")} <= set(names)]
    start = weights.prefix(whole, whole, len(names), "networks of such a bias")
    part = {end: Weights(weights.file, start + end) for end in LAYERS}
    units = part[LAYERS[0]].table({"hidden": hidden, "1": 1})
    number = {end: Weights(weights.file, start + end).number(0.0) for end in ("c", *FACTORS)}
    return Learned(
        units[:, 0],
        part[LAYERS[1]].table({"hidden": len(units)}),
        part[LAYERS[2]].table({"heads": heads, "hidden": len(units)}),
        part[LAYERS[3]].table({"heads": heads}),
        abs(number["c"]) if c is None else c,
        abs(number["init_L"] * number["L_multiplier"]) if threshold is None else threshold,
    )
