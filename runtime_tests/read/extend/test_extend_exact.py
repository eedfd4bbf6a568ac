"""Sin and Cos of other exporters' files, swapped for angle addition: exact where they meet data, far out, in half."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from helpers.graph_files import written
from helpers.longer import foreign_file, longer, session
from posenc.sincos.angle_addition import HIGH, LOW, MID, AngleAddition
from posenc_export.common.errors import BadInput
from posenc_export.read.extend import addition
from posenc_export.read.extend.addition import Digits
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.values import Array, Position

INV_FREQ = 500000 ** (-np.arange(0, 64, 2) / 64)
NEAR = 3e-7
FILES = (
    "llama.plain-old.onnx",
    "llama.plain-new.ORT-bert-float16.onnx",
    "llama.plain-new.onnx",
    "llama.transformers.exporters.onnx",
    "llama.transformers.exporters-ort_fusions.onnx",
    "llama.plain-old.ORT-float16.onnx",
    "gpt_neox.plain-new.onnx",
    "conformer-rotary.plain-old.onnx",
)
CHAIN = """
computed (int64[batch, sequence] position_ids, float[batch, sequence, 64] x) => (float[batch, sequence, 64] y) {
    last = Constant <value_ints = [-1]> ()
    places = Cast <to = 1> (position_ids)
    column = Unsqueeze (places, last)
    half = Mul (column, inv_freq)
    angles = Concat <axis = -1> (half, half)
    cos = Cos (angles)
    sin = Sin (angles)
    first, second = Split <axis = -1, num_outputs = 2> (x)
    negative = Neg (second)
    turned = Concat <axis = -1> (negative, first)
    a = Mul (x, cos)
    b = Mul (turned, sin)
    y = Add (a, b)
}
"""


def chain(folder: Path) -> Path:
    """Write a rotation at positions that come in."""
    return written(folder, CHAIN, {"inv_freq": INV_FREQ.astype(np.float32)})


def turned(positions: NDArray[np.int64], x: NDArray[np.float64]) -> Array:
    """Return what it gives in float64, as a product of complex numbers."""
    pairs = (x[..., :32] + 1j * x[..., 32:]) * np.exp(1j * positions[..., None] * INV_FREQ)
    return np.concatenate([pairs.real, pairs.imag], -1)


def test_digits_are_those_of_the_other_form() -> None:
    assert (addition.LOW, addition.MID, addition.HIGH) == (LOW, MID, HIGH)
    import torch

    module = AngleAddition(INV_FREQ, 64, interleaved=False, dtype=torch.float32, table_rows=LOW)
    for name, table in Digits.made(INV_FREQ, 1.0, np.dtype(np.float32)).tables.items():
        assert np.array_equal(table, getattr(module, name).numpy())


@pytest.mark.exhaustive
def test_rows_are_near_float64_at_every_position_that_they_hold() -> None:
    frequencies = INV_FREQ[::4]
    digits = Digits.made(frequencies, 1.0, np.dtype(np.float32))
    # every row of every table, with every remainder
    positions = np.arange(0, 2**24, 37)
    for part in np.array_split(positions, 64):
        angles = part[:, None] * frequencies
        sin, cos = digits.rows(part)
        assert np.abs(sin - np.sin(angles)).max() <= NEAR
        assert np.abs(cos - np.cos(angles)).max() <= NEAR


def test_a_rotation_is_exact_in_onnx_runtime_far_out_and_below_zero(tmp_path: Path) -> None:
    path = chain(tmp_path)
    work = longer(path, exact=True)
    draw = np.random.default_rng(0)
    positions = np.concatenate([np.arange(100), draw.integers(0, 2**24, 400), -np.arange(1, 12), [2**24 - 1]])[None]
    x = draw.standard_normal((1, positions.size, 64)).astype(np.float32)
    feeds = {"position_ids": positions, "x": x}
    exact = turned(positions, x.astype(np.float64))
    (y,), (before,) = (session(file).run(None, feeds) for file in (work.place, path))
    assert np.abs(y - exact).max() <= 2 * NEAR * np.abs(x).max()
    assert np.abs(before - exact).max() > 0.1  # what float32 made of these positions
    with pytest.raises(Exception, match="out of data bounds"):
        session(work.place).run(None, {"position_ids": np.full((1, 1), 2**24), "x": x[:, :1]})


def met(path: Path, names: Iterable[str], length: int) -> dict[str, Array]:
    """Return the cosines and sines where they meet data, at a length."""
    graph = read_graph(path)
    run = interpret(graph, default_sizes(graph, {"length": length, "batch": 2}))
    values = {name: run.values[name] for name in names}
    return {name: value.array for name, value in values.items() if isinstance(value, Position)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FILES)
def test_chains_of_files_are_exact_where_they_meet_data(name: str) -> None:
    with foreign_file(name) as path:
        work = longer(path, exact=True)
        swap, (named, _) = work.swaps[0], work.computed[0]
        before, after = (met(file, named.tensors, 97) for file in (path, work.place))
        operators = {node.op_type for node in onnx.load(str(work.place)).graph.node}
    assert swap.error <= NEAR
    assert swap.in_graph <= NEAR + (2.0**-11 if named.dtype == "float16" else 0)
    assert {name: (v.shape, v.dtype) for name, v in after.items()} == {n: (v.shape, v.dtype) for n, v in before.items()}
    assert len(after) == len(named.tensors)
    assert not operators & {"Sin", "Cos"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llama-longrope.plain-new.onnx", "follow from the length of a call"),
        ("unet.plain-new.onnx", "is for rotary encodings"),
    ],
)
def test_chains_of_other_kinds_are_refused(name: str, words: str) -> None:
    with foreign_file(name) as path, pytest.raises(BadInput, match=words):
        longer(path, exact=True)


def test_a_chain_without_exact_has_nothing_to_extend(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="do not end: there is no table to extend; --exact"):
        longer(chain(tmp_path), 4096)
