"""The continuous relative position bias of Swin Transformer V2 (arXiv:2111.09883, section 3.3).

    c(d) = sign(d) log2(1 + 8 |d| / (side - 1)) / 3             of a difference of rows, or of columns
    bias[h, i, j] = 16 sigmoid(W2 relu(W1 [c(row_i - row_j), c(column_i - column_j)] + b1))[h]

`side` is the window's, or the one that a model was pretrained with. The network is small, and sees a pair of
differences once; the bias is then looked up. The differences of a window of one column are all 0, and stay so here;
transformers divides 0 by 0.
"""

from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from torch import nn

from posenc import reasons
from posenc.call import Formula
from posenc.encoding import Encoding, eps
from posenc.formulas.swin_cpb import reference
from posenc.memory import check_room
from posenc.ranges import minimum
from posenc.scheme import BOUNDS, DATA, Unsupported, scheme
from posenc.sources.window import encode as windows
from posenc.sources.window.encode import Sides
from posenc.sources.window.network import ContinuousBias, Network
from posenc.spec import Spec
from posenc.weight_files import names_in
from posenc.weights import Weights, record

LAYERS = (("0.weight", "0.bias", "2.weight"), ("fc1.weight", "fc1.bias", "fc2.weight"))
"""What the tensors of the network are called after its own name: by the authors, by timm's RelPosMlp."""
NETWORKS = ("continuous_position_bias_mlp", "cpb_mlp", "rel_pos.mlp")
"""What the network is called."""
SIDE = 64
"""Up to which side windows are tried where nobody says: a bias grows with its fourth power."""


@scheme(
    "swin_cpb",
    rows=lambda parameters: SIDE,
    paper="arXiv:2111.09883",
    formula="bias[h, i, j] = 16 sigmoid(network(c(dr), c(dc)))[h], c(d) = sign(d) log2(1 + 8 |d| / (side - 1)) / 3",
    models=("Swin V2",),
    sums=("dynamic",),
    not_held={"_network": DATA, "error": BOUNDS},
    samples=({"heads": 3, "window": (2, 3), "hidden": 16}, {"heads": 2, "hidden": 8, "pretrained_window": 12}),
    unsupported=Unsupported(methods=reasons.BIAS, positions=reasons.WINDOW),
)
def swin_cpb(
    spec: Spec,
    *,
    heads: Annotated[int | None, minimum(1)] = None,
    window: int | tuple[int, ...] = (8, 8),
    pretrained_window: int | tuple[int, ...] = 0,
    hidden: Annotated[int | None, minimum(1)] = None,
    output: Literal["bias", "scores"] = "bias",
    weights: str | None = None,
    key: str | None = None,
) -> Encoding:
    """A bias of attention that a small network makes of the differences of rows and columns within a window.

    Args:
        heads: outputs of the network [default: those of the weights, or 3].
        window: rows and columns of a window, or one number for both; a dynamic graph takes those of x.
        pretrained_window: the window whose differences are 1; 0 for the window itself.
        hidden: units of the network [default: those of the weights, or 512].
        output: "bias" (1, heads, tokens, tokens), or "scores" biased, of a fixed window.
        weights: a .safetensors, .pt, .pth or .bin file, or a model's folder, that holds the network.
        key: the name of the network, as ...continuous_position_bias_mlp, before .0.weight, .0.bias and .2.weight.
    """
    sides, norm = windows.sides_of("window", window), _norm(pretrained_window)
    windows.check_bias(spec, 3 if heads is None else heads, 1 if spec.mode == "dynamic" else sides[0] * sides[1])
    check_room("a network", (hidden or 1, 2 + (heads or 3)), "float32")
    network = _network(Weights(weights, key), heads, hidden)
    network = network.to(getattr(torch, spec.angle_dtype))
    scores, baked = output == "scores", spec.mode == "baked"
    formula = partial(
        reference, weights=network.numbers(), pretrained=pretrained_window, window=window if baked else None, add=scores
    )
    if baked:
        return _baked(spec, network, (sides, norm), scores, formula)
    windows.check_any_size(scores=scores)
    return _dynamic(spec, network, norm, formula)


def _norm(pretrained: int | tuple[int, ...]) -> Sides:
    norm = windows.sides_of("pretrained_window", pretrained, least=0)
    if 1 in norm or (0 in norm and norm != (0, 0)):
        raise ValueError(
            f"pretrained_window must be sides of at least 2, or 0 (no pretraining), got {norm[0]},{norm[1]}"
        )
    return norm


def _network(weights: Weights, heads: int | None, hidden: int | None) -> Network:
    if weights.file is None:
        weights.check_key()
        layers = nn.Linear(2, hidden or 512), nn.Linear(hidden or 512, heads or 3, bias=False)
        return Network(*(record(t.detach()) for t in (layers[0].weight, layers[0].bias, layers[1].weight)))
    first, bias, second = (Weights(weights.file, name) for name in _names(weights, names_in(weights.file)))
    units = first.table({"hidden": hidden, "2": 2})
    sizes = {"heads": heads, "hidden": len(units)}
    return Network(units, bias.table({"hidden": len(units)}), second.table(sizes))


def _names(weights: Weights, tensors: tuple[str, ...]) -> list[str]:
    """Return the names of the three tensors of a network; raise ValueError where a file has none, or several."""
    ends = {name.removesuffix(layers[0]): layers for layers in LAYERS for name in tensors if name.endswith(layers[0])}
    names = {start: [start + end for end in layers] for start, layers in ends.items()}
    networks = {start: names for start, names in names.items() if set(names) <= set(tensors)}
    usual = [start for start in networks if start == "" or start.rstrip(".").endswith(NETWORKS)]
    return networks[weights.prefix(list(networks), usual, len(tensors), "networks of such a bias")]


def _baked(spec: Spec, network: Network, window: tuple[Sides, Sides], scores: bool, formula: Formula) -> Encoding:
    """Return the encoding of a window whose network ran here, in float64: its sides, and the sides that scale to 1."""
    sides, norm = window
    check_room("a hidden layer", (2 * sides[0] - 1, 2 * sides[1] - 1, len(network.first)), "float64")
    with torch.no_grad():
        table = ContinuousBias(network.to(torch.float64), norm, torch.float64).table(*sides).to(network.first.dtype)
    off = 16 * eps(spec.angle_dtype) / 2 + error(network, sides, norm, eps("float64"))
    return windows.encode(spec, table, windows.indices(sides), formula, scores=scores, off=off)


def _dynamic(spec: Spec, network: Network, norm: Sides, formula: Formula) -> Encoding:
    """Return the encoding of a window as large as each x; coordinates, and errors, grow with its sides."""
    module = ContinuousBias(network, norm, getattr(torch, spec.torch_dtype))
    made = windows.AnySizeBias(
        module,
        len(network.second),
        formula=formula,
        off=lambda sides: error(network, sides, norm, eps(spec.angle_dtype)),
    )
    return windows.encode_any_size(spec, made)


def error(network: Network, sides: Sides, norm: Sides, unit: float) -> float:
    """Return how far the bias may be off where each rounding costs half a `unit`, of whatever order of the sums.

    A coordinate c, of at most `far`, has a product, a quotient, a sum and a logarithm behind it (3 roundings of its
    argument, which cost 3 / ln 8 of one), the last digits of the logarithm (4) and a quotient (2): less than 8 of
    max(far, 1). A unit adds 2 for a product, 2 for sums; an output as many as it has units, and one for its product;
    16 sigmoid rises by 4 at most, and has 4 roundings of its own.
    """
    far = max(
        1.0,
        *(
            np.log(1 + 8 * (side - 1) / max(1, (n or side) - 1)) / np.log(8)
            for side, n in zip(sides, norm, strict=True)
        ),
    )
    first, bias, second = (tensor.abs().double() for tensor in (network.first, network.bias, network.second))
    largest = float((second @ (first.sum(1) * far + bias)).max())
    return unit / 2 * (4 * (8 + 4 + 1 + len(network.bias)) * largest + 4 * 16)
