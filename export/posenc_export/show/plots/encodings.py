"""Choose the encoding of a scheme that is drawn, and call it: by what its ports carry and the kinds of their axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from posenc.encoding import Encoding
from posenc.memory import check_room
from posenc.parameters import REQUIRED, defaults
from posenc.ports import Array, Axis, Floats, Port, Values, axes_of, carrying
from posenc.scheme import SCHEMES, Scheme, build
from posenc.spec import Method, Mode, Spec
from posenc.spec import Positions as Way
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.carries.values import are_probabilities
from posenc_export.common.arrays import call_on_arrays, numpy_dtype

METHODS: tuple[tuple[Mode, Method, str], ...] = (
    ("baked", "exact", "--baked: a table"),
    ("dynamic", "exact", "--dynamic --method exact: angle addition"),
    ("dynamic", "trig", "--dynamic --method trig: Sin and Cos of float32"),
)
WAYS: tuple[Way, ...] = ("explicit", "implicit", "offset", "mask")
"""In order of preference: an encoding that takes positions alone shows nothing else."""
ROWS = 128
LENGTHS: Mapping[int, tuple[int, ...]] = {1: (ROWS,), 2: (64, 64)}
GRIDS: Mapping[int, tuple[int, ...]] = {1: (ROWS,), 2: (24, 32), 3: (4, 6, 8)}
WINDOWS: Mapping[int, tuple[int, ...]] = {2: (6, 8)}
"""Sizes of lengths, of grids, and of grids whose places lie in one row, by the number of axes.

Height and width differ, so that a picture shows which axis is which.
"""
MORE = 2**17
"""Positions of numbers that are the same at thousands of them."""
PLACES = 1000
"""A length at which 2 n, 2 n - 1 and n + 1 are told apart."""
OTHERS = {"batch": 1, "heads": 4, "features": 64}
Parameters = Mapping[str, object]


@dataclass(frozen=True)
class DrawnCall:
    """A call that is drawn.

    Args:
        outputs: each port with its float64 array, of all axes.
        argument: for features of numbers, the port of the numbers, and the numbers along its running axis.
        fill: the value of all other numbers: with 0 a sum shows what is added, with 1 a product shows its factors.
    """

    encoding: Encoding
    outputs: tuple[tuple[Port, Floats], ...]
    argument: tuple[Port, Floats] | None
    fill: int


def drawn(scheme: str, max_len: int | None, parameters: Parameters) -> DrawnCall:
    """Call the encoding of a scheme that shows it best; raise ValueError, in one line, where it has none.

    Of numbers that are the same at the usual positions, more positions are drawn.
    """
    record = SCHEMES[scheme]
    window = {**defaults(record.parameters), **parameters}.get("window")
    call = called(encoding_of(record, max_len, parameters), max_len, window)
    is_flat = max_len is None and _shows_one_number(call)
    return called(encoding_of(record, MORE, parameters), MORE, window) if is_flat else call


def _shows_one_number(call: DrawnCall) -> bool:
    """Whether a call gives one number at each position, the same at all of them."""
    return all(array.size == max(array.shape) and (array == array.flat[0]).all() for _, array in call.outputs)


def has_distances(port: Port, encoding: Encoding) -> bool:
    """Whether a port has a row for each distance of two places: 2 n or 2 n - 1 rows of n places."""
    # every axis of the inputs has n places
    sizes = {axis.name: PLACES for axis in axes_of(encoding.inputs)}
    return any(axis.size_in(sizes) in (2 * PLACES - 1, 2 * PLACES) for axis in port.axes if axis.name)


def called(encoding: Encoding, max_len: int | None, window: object = None) -> DrawnCall:
    """Call an encoding with numbers that show it; raise ValueError, in one line, where memory is too small.

    Args:
        encoding: what is drawn.
        max_len: the size of lengths and grids; None for what is usual.
        window: the window that was trained, which is drawn where the call may have it.
    """
    sizes, argument = sizes_of_call(encoding, max_len, window), argument_of(encoding)
    for port in (*encoding.inputs, *encoding.outputs):
        check_room(port.name, port.shape(sizes), port.dtype)
    numbers = None if argument is None else (argument, numbers_of(argument, sizes))
    outputs = _outputs(encoding, sizes, numbers, 0)
    fill = int(numbers is None and not any(array.any() for _, array in outputs))
    return DrawnCall(encoding, _outputs(encoding, sizes, numbers, fill) if fill else outputs, numbers, fill)


# ---- which encoding --------------------------------------------------------------------------------------------------


def encoding_of(scheme: Scheme, max_len: int | None, parameters: Parameters) -> Encoding:
    """Build the encoding that is drawn: of any length if possible, then with the fewest inputs beside positions.

    An encoding that weights its rows by probabilities is the last choice: it shows means.
    """

    def order(encoding: Encoding) -> tuple[bool, bool, int]:
        inputs = encoding.inputs
        return not _is_open(encoding), any(map(are_probabilities, inputs)), len(carrying(inputs, Values))

    return min(encodings_of(scheme, max_len, parameters), key=order)


def encodings_of(scheme: Scheme, max_len: int | None, parameters: Parameters) -> list[Encoding]:
    """Build every encoding of a scheme: the baked ones, and the dynamic ones if baked ones have fixed lengths.

    Raises ValueError, in one line, where it has none.
    """
    chosen = {**_needed(scheme), **parameters}
    length = max_len or min(ROWS, scheme.rows(chosen) or ROWS)
    encodings: list[Encoding] = []
    # the first form whose lengths are free is enough
    for mode, method, _ in METHODS:
        encodings += _encodings(scheme, mode, method, length, chosen)
        if any(map(_is_open, encodings)):
            return encodings
    return encodings or [build(scheme.name, Spec(max_len=length), **chosen)]  # raises


def _is_open(encoding: Encoding) -> bool:
    """Whether the length of a call is free, or the numbers in it are."""
    axes = [axis for port in encoding.outputs for axis in port.axes if axis.is_length]
    return any(axis.is_dynamic for axis in axes) or argument_of(encoding) is not None


def _needed(scheme: Scheme) -> dict[str, object]:
    """Return the required parameters of a scheme, as its smallest sample has them."""
    known = scheme.parameters
    return {name: value for name, value in scheme.samples[0].items() if known[name].default is REQUIRED}


def _encodings(scheme: Scheme, mode: Mode, method: Method, length: int, chosen: Parameters) -> Iterator[Encoding]:
    """Build the encodings for each output and each way to give positions, if they exist."""
    for output, way in product(outputs_of(scheme, chosen), WAYS):
        try:
            yield seeded(scheme.name, Spec(mode, method, way, length), {**chosen, **output})
        except ValueError:  # this combination does not exist; others may
            continue


def outputs_of(scheme: Scheme, chosen: Parameters) -> list[dict[str, object]]:
    """Return the choices of the parameter `output`: none if it is chosen already, else all."""
    parameter = scheme.parameters.get("output")
    return [{}] if parameter is None or "output" in chosen else [{"output": output} for output in parameter.choices]


def seeded(name: str, spec: Spec, parameters: Parameters) -> Encoding:
    """Build a scheme, its random weights from seed 0."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(name, spec, **parameters)


# ---- the call --------------------------------------------------------------------------------------------------------


def sizes_of_call(encoding: Encoding, max_len: int | None, window: object = None) -> dict[str, int]:
    """Return a size for each dynamic axis: `max_len`, the window, or the usual size of a picture."""
    axes = axes_of(encoding.inputs)
    sizes = {axis.name: _other_size(axis, encoding, max_len) for axis in axes}
    # a window: its places lie along one axis of the outputs
    flat = all(axis.kind != "grid" for port in encoding.outputs for axis in port.axes)
    for kind, usual in (("length", LENGTHS), ("grid", WINDOWS if flat else GRIDS)):
        places = [axis for axis in axes if axis.kind == kind]
        wishes = usual.get(len(places), (8,) * len(places))
        if kind == "grid" and isinstance(window, int | tuple):
            sides = window if isinstance(window, tuple) else (window,) * len(places)
            wishes = sides if len(sides) == len(places) else wishes
        for axis, wish in zip(places, wishes, strict=True):
            sizes[axis.name] = axis.allowed(max_len or wish, axis.most)
    return sizes


def _other_size(axis: Axis, encoding: Encoding, max_len: int | None) -> int:
    """Return the size of another axis; numbers without a length run along the batch, which is then as long."""
    argument = argument_of(encoding)
    along = None if argument is None else argument.axes[_running(argument)]
    return axis.allowed(max_len or ROWS if axis == along else OTHERS.get(axis.kind, 1), axis.most)


def argument_of(encoding: Encoding) -> Port | None:
    """Return the port of the numbers that features are made of: its feature axes, if any, are not the output's."""
    made = {axis for port in encoding.outputs for axis in port.axes if axis.kind == "features"}
    values = carrying(encoding.inputs, Values)
    if not made or len(values) != 1 or made & set(values[0].axes) or are_probabilities(values[0]):
        return None
    return values[0]


def _running(port: Port) -> int:
    """Return the index of the axis that numbers run along: the last axis that is not of features."""
    return max((i for i, axis in enumerate(port.axes) if axis.kind != "features"), default=0)


def numbers_of(port: Port, sizes: Mapping[str, int]) -> Floats:
    """Return the numbers to feed: coordinates from -1 to 1, or 0, 1, 2, ...; over their range where those leave it."""
    assert isinstance(port.carries, Values)
    count, low, high = port.shape(sizes)[_running(port)], port.carries.low, port.carries.high
    # several numbers for each token are coordinates
    coordinates = any(axis.kind == "features" for axis in port.axes)
    usual = np.linspace(-1, 1, count) if coordinates else np.arange(count, dtype=np.float64)
    if low is None or high is None or low <= usual[0] <= usual[-1] <= high:
        return usual
    return np.linspace(low, high, count)


def drawn_input(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    """Return an input of a call that is drawn, in the dtype of its port; values are the number `fill` everywhere."""
    kind = kind_of(port.carries)
    return _typed(port, kind.draw(port.carries, port.shape(sizes), kind.least(port.carries, port, sizes) or 0, fill))


def _outputs(
    encoding: Encoding, sizes: Mapping[str, int], numbers: tuple[Port, Floats] | None, fill: int
) -> tuple[tuple[Port, Floats], ...]:
    feeds = {port.name: drawn_input(port, sizes, fill) for port in encoding.inputs}
    if numbers is not None:
        feeds[numbers[0].name] = _typed(numbers[0], _spread(*numbers, sizes))
    arrays = call_on_arrays(encoding.module, list(feeds.values()))
    return tuple((port, array.astype(np.float64)) for port, array in zip(encoding.outputs, arrays, strict=True))


def _spread(port: Port, numbers: Floats, sizes: Mapping[str, int]) -> Array:
    """Return numbers along their axis, the same along every other."""
    shape, along = port.shape(sizes), _running(port)
    return np.broadcast_to(np.expand_dims(numbers, tuple(range(1, len(shape) - along))), shape)


def _typed(port: Port, array: Array) -> Array:
    return np.ascontiguousarray(array.astype(numpy_dtype(port.dtype)))
